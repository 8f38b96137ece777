/** A whole Berth in a process of its own, started as by `main`, with a bench's changes. */
import { randomUUID } from 'node:crypto';
import { subscribe } from 'node:diagnostics_channel';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { z } from 'zod';
import { startServer } from '../../src/main/server.ts';
import { instanceTypeId } from '../../src/domain/kernel/ids.ts';
import { MAX_QUOTA } from '../../src/domain/access/quota.ts';
import { catalogInstanceTypes } from '../../src/store/tables/catalog.ts';
import { insertManagedType } from '../../src/store/tables/catalog-rows.ts';
import { bumpVersion } from '../../src/store/tables/events.ts';
import { INSTALLATION, writeQuota } from '../../src/store/tables/quotas.ts';
import { answerAsks, settingsOf } from '../lib/child.ts';
import { configOf, quietLog, raisedQuotas, serverSettings } from '../lib/settings.ts';

const SSH_PORT = 22;
const WAIT_POLL_MS = 2;
const OFFERS_FRESH_MS = 1_100;
const COLLECTIONS = 3;
const COLLECTION_PAUSE_MS = 100;
const SMALL_TYPE = 'bench.small';
const smallTypeId = instanceTypeId(randomUUID());

/** Resolves when the instance's row has this status. */
const wait = z.object({ instanceId: z.string(), status: z.string(), phase: z.string(), deadlineMs: z.number() });
const ensured = z.object({ ensured: z.string() });

let httpRequests = 0;
subscribe('http.client.request.start', () => (httpRequests += 1));

const settings = settingsOf(serverSettings);
const server = await startServer({ config: configOf(settings), log: quietLog });
const { drivers } = server.drivers;
const { store } = server;

while (!drivers.health.answers) await new Promise((resolve) => setTimeout(resolve, 5));
if (settings.limits === 'raised')
  await store.write(async (tx) => {
    for (const name of raisedQuotas) await writeQuota(tx, INSTALLATION, name, MAX_QUOTA);
  });
if (settings.smallType) await offerSmallType();
if (settings.loop === 'off') await server.running.stop();

// Replaces the version that control reads at each list.
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
  const dial = engine.dial.bind(engine);
  const here = (): Socket => connect({ host: '127.0.0.1', port: dialTo, noDelay: true });
  engine.dial = async (id, port, signal) => (port === SSH_PORT ? dial(id, port, signal) : here());
}

async function offerSmallType(): Promise<null> {
  const type = (await catalogInstanceTypes(store.read)).find(({ name }) => name !== SMALL_TYPE);
  if (!type) throw new Error('no type is on offer');
  const small = { ...type, id: smallTypeId, name: SMALL_TYPE, cpuCores: 0.1, memoryGB: 0.1 };
  await store.write((tx) => insertManagedType(tx, { ...small, version: 1, isRetired: false }));
  server.example.instanceTypeId = smallTypeId;
  // The catalog is cached for a second.
  await sleep(OFFERS_FRESH_MS);
  return null;
}

/** Callbacks for the next first engine request of a reconcile. */
const nextAsk: ((atMs: number) => void)[] = [];
/** Milliseconds of the first `ensure` of each instance. */
const ensureMs = new Map<string, number>();
// In place: states of images are kept by the engine.
const ensure = drivers.engine.ensure.bind(drivers.engine);
drivers.engine.ensure = async (spec, ...given) => {
  const beganMs = performance.now();
  nextAsk.shift()?.(beganMs);
  const observation = await ensure(spec, ...given);
  if (!ensureMs.has(spec.id)) ensureMs.set(spec.id, performance.now() - beganMs);
  return observation;
};

/** Milliseconds from the next durable launch to the reconcile's first engine request. */
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

/** Reads the row, not the API, to avoid load. */
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

interface Hold {
  holdMs: number;
  cpuMs: number;
}

/** Watches the longest turn of the event loop, by the clock and in processor time of its thread. */
function watchHolds(): () => Hold {
  const longest = { holdMs: 0, cpuMs: 0 };
  const read = (): Hold => {
    const { user, system } = process.threadCpuUsage();
    return { holdMs: performance.now(), cpuMs: (user + system) / 1_000 };
  };
  let [last, goesOn] = [read(), true];
  const watch = (): void => {
    const now = read();
    longest.holdMs = Math.max(longest.holdMs, now.holdMs - last.holdMs);
    longest.cpuMs = Math.max(longest.cpuMs, now.cpuMs - last.cpuMs);
    last = now;
    if (goesOn) setImmediate(watch);
  };
  setImmediate(watch);
  return () => {
    goesOn = false;
    return longest;
  };
}
let endWatch = (): Hold => ({ holdMs: 0, cpuMs: 0 });

setFlagsFromString('--expose-gc');
const collectGarbage = z.custom<() => void>().parse(runInNewContext('gc'));

/** Megabytes of the process once garbage is collected, and its pages have gone back. */
async function settledMB(): Promise<number> {
  for (let times = 0; times < COLLECTIONS; times += 1) {
    collectGarbage();
    await sleep(COLLECTION_PAUSE_MS);
  }
  return process.memoryUsage.rss() / 1e6;
}

answerAsks(
  async (question) => {
    if (question === 'settled memory') return settledMB();
    if (question === 'watch holds') {
      endWatch = watchHolds();
      return null;
    }
    if (question === 'longest hold') return endWatch();
    if (question === 'http requests') return httpRequests;
    if (question === 'cpu') return process.cpuUsage();
    if (question === 'small type') return offerSmallType();
    if (question === 'wake') return timeOneWake();
    const waited = await wait.safeParseAsync(question);
    if (waited.success) return until(waited.data);
    const asked = ensured.safeParse(question);
    if (asked.success) return ensureMs.get(asked.data.ensured);
    const { apiUrl, gatewayUrl, example } = server;
    return { apiUrl, gatewayUrl, example, rssMB: process.memoryUsage.rss() / 1e6 };
  },
  () => server.stop(),
);
