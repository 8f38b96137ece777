/** A whole Berth in a process of its own, as `main` starts it, with the one or two things changed that a bench asks for. */
import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { startServer } from '../../src/main/server.ts';
import { instanceTypeId } from '../../src/domain/ids.ts';
import { catalogInstanceTypes, saveInstanceType } from '../../src/store/tables/catalog.ts';
import { bumpVersion } from '../../src/store/tables/events.ts';
import { answerAsks, settingsOf } from '../lib/child.ts';
import { configOf, quietLog, serverSettings } from '../lib/settings.ts';

const SSH_PORT = 22;
const WAIT_POLL_MS = 2;
const OFFERS_FRESH_MS = 1_100;
const SMALL_TYPE = 'bench.small';
const smallTypeId = instanceTypeId(randomUUID());

/** Answers when the instance's row says so. */
const wait = z.object({ instanceId: z.string(), status: z.string(), phase: z.string(), deadlineMs: z.number() });

const settings = settingsOf(serverSettings);
const server = await startServer({ config: configOf(settings), log: quietLog });
const { drivers } = server.drivers;
const { store } = server;

while (!drivers.health.answers) await new Promise((resolve) => setTimeout(resolve, 5));
if (settings.smallType) await offerSmallType();
if (settings.loop === 'off') await server.running.stop();

// Control asks the store for the version at each list: this is where it can be made to find another one.
if (settings.version !== 'kept') {
  const versionOf = store.versionOf.bind(store);
  let moved = 0;
  store.versionOf = async (accountId) => {
    if (settings.version === 'written') await store.write((tx) => bumpVersion(tx, accountId));
    moved += 1;
    return (await versionOf(accountId)) + moved;
  };
}
if (settings.dialTo !== null) {
  const { dialTo } = settings;
  const { engine } = drivers;
  const here = (): Socket => connect({ host: '127.0.0.1', port: dialTo, noDelay: true });
  drivers.engine = {
    ...engine,
    dial: async (id, port, signal) => (port === SSH_PORT ? engine.dial(id, port, signal) : here()),
  };
}

/** Again and again, because an engine that was away for a moment under load has the catalog written anew. */
async function offerSmallType(): Promise<null> {
  const type = (await catalogInstanceTypes(store.read)).find(({ name }) => name !== SMALL_TYPE);
  if (!type) throw new Error('no type is on offer');
  const small = { ...type, id: smallTypeId, name: SMALL_TYPE, cpuCores: 0.1, memoryGB: 0.1 };
  await store.write((tx) => saveInstanceType(tx, small, 0));
  server.example.instanceTypeId = smallTypeId;
  // The catalog is remembered for a second.
  await sleep(OFFERS_FRESH_MS);
  return null;
}

/** When a pass first asked the engine for each image, by the order of asking: what a wake is timed by. */
const nextAsk: ((atMs: number) => void)[] = [];
const { engine: wakened } = drivers;
drivers.engine = {
  ...drivers.engine,
  ensure: (...given) => {
    nextAsk.shift()?.(performance.now());
    return wakened.ensure(...given);
  },
};

/** The milliseconds from the next durable launch to the next time a pass asks the engine for a container. */
async function timeOneWake(): Promise<number> {
  const asked = new Promise<number>((resolve) => nextAsk.push(resolve));
  const { instances } = server.running.control;
  const launch = instances.launch;
  const durable = new Promise<number>((resolve) => {
    instances.launch = async (...given) => {
      const answer = await launch(...given);
      resolve(performance.now());
      instances.launch = launch;
      return answer;
    };
  });
  const [askedMs, durableMs] = await Promise.all([asked, durable]);
  return askedMs - durableMs;
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
    if (question === 'small type') return offerSmallType();
    if (question === 'wake') return timeOneWake();
    const waited = await wait.safeParseAsync(question);
    if (waited.success) return until(waited.data);
    const { apiUrl, gatewayUrl, example } = server;
    return { apiUrl, gatewayUrl, example, rssMB: process.memoryUsage.rss() / 1e6 };
  },
  () => server.stop(),
);
