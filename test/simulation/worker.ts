/** A thread that runs cases: without real time, so nothing else may live in it. */
import { parentPort } from 'node:worker_threads';
import type { Question } from './worker-pool.ts';
import { makeRunner } from './runner.ts';

const port = parentPort;
if (!port) throw new Error('this is a thread of the simulation; npm run simulate starts it');
const runner = await makeRunner();
port.on('message', (question: Question | null) => {
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
    // Thrown where nobody can hear it but the one who asked: rejections are what the runner collects.
    (error: unknown) =>
      setImmediate(() => {
        throw error;
      }),
  );
});
