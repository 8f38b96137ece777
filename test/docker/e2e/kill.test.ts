/**
 * `kill -9` of the server at random moments under a mixed load on a real engine: two accounts, several calls at a time, every wish
 * there is. Callers do as they should: what got no answer is asked again with the same key, or now and then given up, and then either
 * may be. Each wish that was acknowledged is remembered, and after it settles wishes and containers agree exactly.
 *
 * `BERTH_SEED` gives the same moments and the same choices again; what the engine is doing just then is its own.
 */
import { atLevel } from '../../fixtures/level.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ApiError, type CallOptions } from '../../../src/contract/client.ts';
import type { InstanceObject } from '../../../src/contract/instance.ts';
import { labels } from '../../../src/engines/labels.ts';
import { makeRandom } from '../../../src/engines/simulated/random.ts';
import { offerImage, thisMachine } from '../../../src/main/first-run.ts';
import { openStore } from '../../../src/store/open.ts';
import { bannerOfSshd, importBusybox } from '../engines/docker-fixture.ts';
import {
  docker,
  installationOf,
  login,
  ownedNames,
  startServerProcess,
  until,
  type Client,
  type ServerProcess,
} from '../../fixtures/server-process.ts';

/** In the ordinary run, and where there is time. */
const KILLS = atLevel({ short: 5, long: 25, soak: 200 });
/** After so many it is let settle, and looked at. */
const KILLS_A_PHASE = 25;
const MOST_TIMES = 3;
const WORKERS_AN_ACCOUNT = 3;
const INSTANCES_A_WORKER = 2;
/** A moment is so many answered wishes after the start, and then so long. */
const MOST_ANSWERS = 4;
const LONGEST_MOMENT_MS = 300;
const LONGEST_START_MS = 700;
const LONGEST_PAUSE_MS = 100;
/** How often somebody wishes otherwise before the last wish came to rest, each time it is looked at. */
const HASTE = 0.04;
const GIVES_UP = 0.15;
const LOSES_ANSWER = 0.25;
const LOST_WITHIN_MS = 30;
const SWEPT_DEADLINE_MS = 120_000;
const KILLED_AS_IT_STARTS = 0.2;

const seed = process.env['BERTH_SEED'] ?? randomUUID().slice(0, 8);
const random = makeRandom(seed);
const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)];

type Wish = 'running' | 'stopped' | 'archived' | 'released';
const wishOf = {
  start: 'running',
  restart: 'running',
  stop: 'stopped',
  archive: 'archived',
  terminate: 'released',
} as const;
type Deed = keyof typeof wishOf;
const deeds: readonly Deed[] = ['start', 'stop', 'restart', 'archive', 'terminate'];

interface Account {
  username: string;
  client: Client;
  volumeId: string;
  /** Of all that it ever asked for: what may be wished now. Two where a call was given up. */
  wishes: Map<string, Set<Wish>>;
  /** Names of launches that were given up: each may be there once, or not at all. */
  unsure: Set<string>;
  /** Ids of launches that were acknowledged, or seen in the list, by name. */
  sure: Map<string, string>;
  /** Archiving was asked for at some time: a save that is cut short leaves an image that only the sweep finds. */
  archivedOnce: Set<string>;
}

const imageRef = `berth.local/kill:${randomUUID()}`;
const PRECIOUS = `kept through all of it, ${seed}`;
/** Adds a line to the volume when it runs: on one root disk it runs once, so a second line is a root disk that was lost. */
const initScript = 'echo once >>/root/kept/"$BERTH_INSTANCE_ID"';
const filesOf = (folder: string, volumeId: string): Promise<string> => {
  const at = { root: join(folder, 'disks'), installation: installationOf(folder) };
  return makeImageFileStorage({ ...at, copies: 'live' }).mount({ kind: 'volume', id: volumeId });
};

let server: ServerProcess;
let admin: Client;
let launch: { imageId: string; region: string; instanceTypeId: string };
const accounts: Account[] = [];
const tally = new Map<string, number>();
let answered = 0;

beforeAll(async () => {
  const scratch = await mkdtemp(join(tmpdir(), 'berth-kill-'));
  await importBusybox(docker, imageRef, scratch, { '/usr/sbin/sshd': bannerOfSshd });
  await rm(scratch, { recursive: true });
  let imageId = '';
  const prepare = async (folder: string): Promise<void> => {
    const store = await openStore({ file: join(folder, 'berth.db'), log: pino({ level: 'silent' }) });
    const image = { key: 'kill', name: 'kill', ref: imageRef, tags: [], architecture: thisMachine().architecture };
    imageId = await offerImage(store, image, { nowMs: Date.now(), uuid: randomUUID });
    await store.stop();
  };
  server = await startServerProcess({ nodePorts: '31100-31199', prepare });
  ({ client: admin } = await login(server));
  const { instanceInfos } = await admin.catalog();
  const place = instanceInfos[0]?.regionInfos[0];
  const type = place?.instanceTypeInfos[0];
  if (!place || !type) throw new Error('nothing is on offer');
  launch = { imageId, region: place.regionId, instanceTypeId: type.instanceTypeId };
  for (const username of ['ada', 'grace']) {
    await admin.createUser({ username, password: `the password of ${username}`, balance: 1_000_000 });
    const { client } = await login(server, username, `the password of ${username}`);
    const { volume } = await client.createVolume({
      name: 'kept',
      sizeGB: 1,
      region: place.regionId,
      volumeType: 'filesystem',
    });
    await until(
      () => client.listVolumes({ pager: { currentPage: 1, pageSize: 10 } }),
      ({ volumeList }) => volumeList[0]?.status === 'Bound',
    );
    await writeFile(join(await filesOf(server.folder, volume.id), 'precious'), PRECIOUS);
    accounts.push({
      username,
      client,
      volumeId: volume.id,
      wishes: new Map(),
      unsure: new Set(),
      sure: new Map(),
      archivedOnce: new Set(),
    });
  }
});
afterAll(async () => {
  await server?.stop();
  await docker.getImage(imageRef).remove({ force: true });
});

/**
 * `unanswered`: it was given up while nobody answered. Refusals of what is not possible now are answers too. Now and then the answer is
 * lost on its way, as when the server dies between its commit and its answer, which is too short a time for a kill to meet often.
 */
async function ask<T>(call: (options: CallOptions) => Promise<T>): Promise<T | 'refused' | 'unanswered'> {
  const idempotencyKey = randomUUID();
  const givesUp = random() < GIVES_UP;
  let loses = random() < LOSES_ANSWER;
  for (;;) {
    const lost = new AbortController();
    if (loses) setTimeout(() => lost.abort(), random() * LOST_WITHIN_MS);
    loses = false;
    try {
      return await call({ idempotencyKey, signal: lost.signal });
    } catch (error) {
      if (lost.signal.aborted) continue;
      if (!(error instanceof ApiError)) throw error;
      if (error.status >= 400 && error.status < 500) return 'refused';
      if (error.code !== 'unreachable') throw error;
      if (givesUp) return 'unanswered';
      await sleep(20);
    }
  }
}

async function listOf({ client }: Account): Promise<InstanceObject[]> {
  const all: InstanceObject[] = [];
  for (let currentPage = 1; ; currentPage++) {
    const { instances, pager } = await client.listInstances({ pager: { currentPage, pageSize: 500 } });
    all.push(...instances);
    if (all.length >= pager.totalEntries || instances.length === 0) return all;
  }
}
const idOf = (one: InstanceObject): string => one.instanceMetadata.instanceId;
const rests = (one: InstanceObject): boolean =>
  ['Ready', 'Stopped', 'Archived'].includes(one.instanceRuntimeInfo.phase);
const statusOf = (one: InstanceObject): string => one.instanceRuntimeInfo.status;

const count = (what: string): void => void tally.set(what, (tally.get(what) ?? 0) + 1);

async function launchOne(account: Account, mine: Set<string>): Promise<void> {
  const name = randomUUID();
  const answer = await ask((options) =>
    account.client.launch(
      {
        name,
        ...launch,
        billing: { chargeMode: 'perHour', duration: 1 },
        remoteStorages: [
          { mountPath: '/root/kept', remoteStorageName: 'kept', remoteStorageId: account.volumeId, type: 'filesystem' },
        ],
        instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript },
        nodePorts: [],
      },
      options,
    ),
  );
  answered += 1;
  if (answer === 'refused') return;
  if (answer === 'unanswered') {
    account.unsure.add(name);
    return;
  }
  count('launch');
  account.sure.set(name, answer.instanceId);
  account.wishes.set(answer.instanceId, new Set(['running']));
  mine.add(answer.instanceId);
}

async function wishFor(account: Account, one: InstanceObject): Promise<void> {
  const legal = deeds.filter((each) => one.actions.includes(each));
  const rarest = legal.toSorted((a, b) => (tally.get(a) ?? 0) - (tally.get(b) ?? 0))[0];
  const deed = random() < 0.5 ? rarest : pick(legal);
  const wishes = account.wishes.get(idOf(one));
  if (deed === undefined || wishes === undefined) return;
  if (deed === 'archive') account.archivedOnce.add(idOf(one));
  const answer = await ask((options) => account.client[deed]({ instanceId: idOf(one) }, options));
  answered += 1;
  if (answer === 'refused') return;
  if (answer !== 'unanswered') {
    count(deed);
    wishes.clear();
  }
  wishes.add(wishOf[deed]);
}

/** One of several of an account, each with instances of its own. */
async function work(account: Account, mine: Set<string>, ending: AbortSignal): Promise<void> {
  while (!ending.aborted) {
    const listed = await ask(() => listOf(account));
    if (typeof listed === 'string') continue;
    const living = listed.filter((one) => mine.has(idOf(one)) && statusOf(one) !== 'Released');
    const one = pick(living);
    if (living.length < INSTANCES_A_WORKER && (one === undefined || random() < 0.5)) await launchOne(account, mine);
    else if (one !== undefined && (rests(one) || random() < HASTE)) await wishFor(account, one);
    await sleep(random() * LONGEST_PAUSE_MS);
  }
}

async function killMany(times: number): Promise<void> {
  // Until each kind of wish was acknowledged once, however slow the machine is.
  const isEnough = (kills: number): boolean =>
    kills > times && (tally.size > deeds.length || kills > MOST_TIMES * times);
  for (let kills = 1; !isEnough(kills); kills++) {
    const enough = answered + Math.floor(random() * (MOST_ANSWERS + 1));
    await until(
      async () => answered,
      (now) => now >= enough,
    );
    await sleep(random() * LONGEST_MOMENT_MS);
    await server.kill('SIGKILL');
    if (kills < times && random() < KILLED_AS_IT_STARTS) {
      const ended = server.start().catch(() => {});
      await sleep(random() * LONGEST_START_MS);
      await server.kill('SIGKILL');
      await ended;
      kills += 1;
    }
    await server.start();
  }
}

const restsAs: Readonly<Record<Wish, (one: InstanceObject) => boolean>> = {
  running: (one) =>
    statusOf(one) === 'Running' &&
    one.instanceRuntimeInfo.message.startsWith('the init script') &&
    !/running/.test(one.instanceRuntimeInfo.message),
  stopped: (one) => statusOf(one) === 'Stopped',
  archived: (one) => statusOf(one) === 'Archived',
  released: (one) => statusOf(one) === 'Released' && one.instanceRuntimeInfo.phase === 'Cleaned',
};

/** Every launch that was acknowledged is listed, once, and all that is listed was asked for; each rests as it was wished. */
async function settledList(account: Account): Promise<InstanceObject[]> {
  // What was launched by a call that nobody heard the end of shows up in the list: from then on it is wished as any other.
  for (const one of await listOf(account)) {
    const { name } = one.instanceSpecInfo;
    if (account.unsure.delete(name)) {
      account.sure.set(name, idOf(one));
      account.wishes.set(idOf(one), new Set(['running']));
    }
  }
  const wished = [...account.sure].map(([name, id]) => `${name} ${id}`).sort();
  const strange = (one: InstanceObject): boolean => {
    const wishes = account.wishes.get(idOf(one)) ?? new Set();
    return ![...wishes].some((wish) => restsAs[wish](one));
  };
  const tell = (one: InstanceObject) => ({
    id: idOf(one),
    wishes: [...(account.wishes.get(idOf(one)) ?? [])],
    is: one.instanceRuntimeInfo,
  });
  await until(
    async () => (await listOf(account)).filter(strange).map(tell),
    (left) => left.length === 0,
  );
  const listed = await listOf(account);
  expect(listed.map((one) => `${one.instanceSpecInfo.name} ${idOf(one)}`).sort()).toEqual(wished);
  return listed;
}

interface Container {
  id: string;
  running: boolean;
  nodePorts: number[];
}

async function containersOf(installation: string): Promise<Container[]> {
  const filters = { label: [`${labels.installation}=${installation}`, `${labels.kind}=instance`] };
  const found = await docker.listContainers({ all: true, filters });
  return Promise.all(
    found.map(async ({ Id, Labels, State }) => {
      const { HostConfig } = await docker.getContainer(Id).inspect();
      const bindings: Record<string, { HostPort?: string }[]> = HostConfig.PortBindings ?? {};
      const nodePorts = Object.values(bindings).flatMap((hosts) => hosts.map(({ HostPort }) => Number(HostPort)));
      return { id: Labels[labels.id] ?? '?', running: State === 'running', nodePorts };
    }),
  );
}

async function savedIds(installation: string): Promise<string[]> {
  const filters = { label: [`${labels.installation}=${installation}`, `${labels.kind}=image`] };
  const found = await docker.listImages({ filters: JSON.stringify(filters) });
  return found.map(({ Labels }) => Labels[labels.id] ?? '?');
}

/** What a save that was cut short left of a root disk is listed to the operator, who has it deleted. */
async function saveRemains(installation: string): Promise<void> {
  const left = (await savedIds(installation)).sort();
  if (left.length === 0) return;
  // A start sweeps at once, and a stray is what two sweeps have seen.
  for (let sweeps = 0; sweeps < 2; sweeps++) {
    await server.kill('SIGTERM');
    await server.start();
  }
  const { strays: orphans } = await until(
    () => admin.listStrays(),
    (told) => isDeepStrictEqual(told.strays.map(({ subjectId }) => subjectId).sort(), left),
    SWEPT_DEADLINE_MS,
  );
  for (const { strayId } of orphans) await admin.handleStray({ strayId, action: 'delete' });
  await until(
    () => savedIds(installation),
    (saved) => saved.length === 0,
    SWEPT_DEADLINE_MS,
  );
}

/** Wishes and what the engine holds agree exactly. */
async function agree(installation: string): Promise<void> {
  const listed = (await Promise.all(accounts.map(settledList))).flat();
  const ids = (...statuses: string[]): string[] =>
    listed
      .filter((one) => statuses.includes(statusOf(one)))
      .map(idOf)
      .sort();
  const containers = await containersOf(installation);
  const held = containers.map(({ id }) => id).sort();
  expect(new Set(held).size).toBe(held.length);
  expect(
    containers
      .filter(({ running }) => running)
      .map(({ id }) => id)
      .sort(),
  ).toEqual(ids('Running'));
  // One that was stopped before it ever had a container needs none.
  const neverMade = ids('Stopped').filter((id) => !held.includes(id));
  expect([...held, ...neverMade].sort()).toEqual(ids('Running', 'Stopped'));

  const kept = await savedIds(installation);
  const archivedOnce = accounts.flatMap((account) => [...account.archivedOnce]);
  expect(kept.filter((id) => !archivedOnce.includes(id))).toEqual([]);
  const without = listed.filter((one) => statusOf(one) === 'Archived' && !kept.includes(idOf(one)));
  expect(
    without
      .map(({ instanceRuntimeInfo: { message } }) => message)
      .filter((said) => !said.startsWith('there was no root disk')),
  ).toEqual([]);

  const nodePorts = containers.flatMap((one) => one.nodePorts);
  expect(new Set(nodePorts).size).toBe(nodePorts.length);
  for (const one of listed.filter((each) => statusOf(each) === 'Running')) {
    const told = one.instanceSpecInfo.nodePorts.map(({ nodePort }) => nodePort);
    expect(told).toEqual(containers.find(({ id }) => id === idOf(one))?.nodePorts);
  }
  await volumesHold(listed);
}

async function volumesHold(listed: InstanceObject[]): Promise<void> {
  for (const { volumeId } of accounts) {
    const folder = await filesOf(server.folder, volumeId);
    expect(await readFile(join(folder, 'precious'), 'utf8')).toBe(PRECIOUS);
    for (const name of (await readdir(folder)).filter((each) => each !== 'precious')) {
      expect({ name, said: await readFile(join(folder, name), 'utf8') }).toEqual({ name, said: 'once\n' });
    }
  }
  const written = (
    await Promise.all(accounts.map(async ({ volumeId }) => readdir(await filesOf(server.folder, volumeId))))
  ).flat();
  const ran = listed.filter(
    ({ instanceRuntimeInfo: { message } }) => message === 'the init script ended with exit code 0',
  );
  expect(ran.map(idOf).filter((id) => !written.includes(id))).toEqual([]);
}

test(
  `${KILLS} kills under a mixed load (seed ${seed}): wishes and containers agree exactly`,
  async () => {
    console.log(`the seed is ${seed}; BERTH_SEED=${seed} does it again`);
    const installation = installationOf(server.folder);
    const workers = accounts.flatMap((account) =>
      Array.from({ length: WORKERS_AN_ACCOUNT }, () => ({ account, mine: new Set<string>() })),
    );
    for (let killed = 0; killed < KILLS; killed += KILLS_A_PHASE) {
      const ending = new AbortController();
      const working = Promise.all(workers.map(({ account, mine }) => work(account, mine, ending.signal)));
      await Promise.race([killMany(KILLS_A_PHASE), working]);
      ending.abort();
      await working;
      await agree(installation);
    }
    const calls = Object.fromEntries(tally);
    console.log(`acknowledged: ${JSON.stringify(calls)}`);
    expect(Object.keys(calls).sort()).toEqual(['archive', 'launch', 'restart', 'start', 'stop', 'terminate']);

    for (const account of accounts) {
      for (const one of await listOf(account)) {
        if (statusOf(one) !== 'Released') await account.client.terminate({ instanceId: idOf(one) });
        account.wishes.set(idOf(one), new Set(['released']));
      }
      await settledList(account);
    }
    await until(
      () => ownedNames(installation),
      (names) => names.length === 0,
    );
    await saveRemains(installation);
    expect(await readdir(join(server.folder, 'disks/data'))).toEqual([]);
    expect(await readdir(join(server.folder, 'control-files'))).toEqual([]);
    await volumesHold([]);
  },
  30 * 60_000,
);
