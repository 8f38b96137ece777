/** A whole Berth in a process of its own, as `main` starts it, with the one or two things changed that a bench asks for. */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { startServer } from '../../src/main/server.ts';
import { moveVersion } from '../../src/store/events.ts';
import { answerAsks, settingsOf } from '../lib/child.ts';
import { configOf, quietLog, serverSettings } from '../lib/settings.ts';

const SSH_PORT = 22;
const WAIT_POLL_MS = 2;

/** Answers when the instance's row says so. */
const wait = z.object({ instanceId: z.string(), status: z.string(), phase: z.string(), deadlineMs: z.number() });

const settings = settingsOf(serverSettings);
const server = await startServer({ config: configOf(settings), log: quietLog });
const { hands } = server.hands;
const { store } = server;

while (!hands.seen.answers) await new Promise((resolve) => setTimeout(resolve, 5));
if (settings.loop === 'off') await server.running.stop();

// Control asks the store for the version at each list: this is where it can be made to find another one.
if (settings.version !== 'kept') {
  const versionOf = store.versionOf.bind(store);
  let moved = 0;
  store.versionOf = async (accountId) => {
    if (settings.version === 'written') await store.write((tx) => moveVersion(tx, accountId));
    moved += 1;
    return (await versionOf(accountId)) + moved;
  };
}
if (settings.dialTo !== null) {
  const { dialTo } = settings;
  const { engine } = hands;
  const here = (): Socket => connect({ host: '127.0.0.1', port: dialTo, noDelay: true });
  hands.engine = {
    ...engine,
    dial: async (id, port, signal) => (port === SSH_PORT ? engine.dial(id, port, signal) : here()),
  };
}

/** From the row, and not through the API: what asks must not take from what is measured. */
async function until({ instanceId, status, phase, deadlineMs }: z.infer<typeof wait>): Promise<null> {
  for (const endMs = performance.now() + deadlineMs; ; await sleep(WAIT_POLL_MS)) {
    const row = await store.read
      .selectFrom('instance')
      .select(['status', 'observed'])
      .where('id', '=', instanceId)
      .executeTakeFirst();
    if (row?.status === status && row.observed.includes(`"phase":"${phase}"`)) return null;
    if (performance.now() > endMs)
      throw new Error(`${instanceId} is not ${status}, ${phase} after ${deadlineMs / 1000} s`);
  }
}

answerAsks(
  async (question) => {
    if (question === 'cpu') return process.cpuUsage();
    const waited = await wait.safeParseAsync(question);
    if (waited.success) return until(waited.data);
    const { apiUrl, gatewayUrl, example } = server;
    return { apiUrl, gatewayUrl, example, rssMB: process.memoryUsage.rss() / 1e6 };
  },
  () => server.stop(),
);
