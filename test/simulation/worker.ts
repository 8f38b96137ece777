/** Worker thread for cases. It has no real time, so it runs nothing else. */
import { parentPort } from 'node:worker_threads';
import type { CaseRequest } from './worker-pool.ts';
import { makeRunner } from './runner.ts';

const port = parentPort;
if (!port) throw new Error('this is a thread of the simulation; npm run simulate starts it');
const runner = await makeRunner();
port.on('message', (question: CaseRequest | null) => {
  if (question === null) {
    runner.stop();
    port.close();
    return;
  }
  const { name, withTrace } = question;
  runner.run(name).then(
    (outcome) => {
      const trace = withTrace || outcome.wrong !== null ? outcome.trace : '';
      port.postMessage({ ...outcome, trace });
    },
    // Throws outside of the promise: the runner collects rejections.
    (error: unknown) =>
      setImmediate(() => {
        throw error;
      }),
  );
});
