/**
 * A mixed load for `kill.test.ts`: two accounts, several calls at a time, every action there is. A
 * call without an answer is sent again with the same key, or now and then given up: then either
 * state may come of it.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, type CallOptions } from '../../../src/contract/client.ts';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import type { Client, ServerProcess } from '../../fixtures/server-process.ts';
import { until } from '../../fixtures/server-process.ts';

/** Reached by a hung server only. */
const ALL_ACTIONS_MS = 600_000;
const WORKERS_AN_ACCOUNT = 3;
const INSTANCES_A_WORKER = 2;
/** A kill comes so many answers after the start, and then so long. */
const MOST_ANSWERS = 4;
const LONGEST_MOMENT_MS = 300;
const LONGEST_START_MS = 700;
const LONGEST_PAUSE_MS = 100;
/**
 * How often an action is called before the one before came to rest, each time the instance is
 * looked at.
 */
const HASTE = 0.04;
const GIVES_UP = 0.15;
const LOSES_ANSWER = 0.25;
const LOST_WITHIN_MS = 30;
const KILLED_AS_IT_STARTS = 0.2;

export type Desired = 'running' | 'stopped' | 'archived' | 'released';
const desiredBy = {
  start: 'running',
  restart: 'running',
  stop: 'stopped',
  archive: 'archived',
  terminate: 'released',
} as const;
type Action = keyof typeof desiredBy;
const actions: readonly Action[] = ['start', 'stop', 'restart', 'archive', 'terminate'];

export interface Account {
  username: string;
  client: Client;
  volumeId: string;
  /** Each instance ever asked for, with its desired state; two states where a call was given up. */
  desired: Map<string, Set<Desired>>;
  /** Names of launches that were given up: each may exist once, or not at all. */
  unsure: Set<string>;
  /** Ids of launches that were acknowledged, or found in the list, by name. */
  sure: Map<string, string>;
  /**
   * Instances ever asked to archive: a save that is cut short leaves an image that only the sweep
   * finds.
   */
  archivedOnce: Set<string>;
}

/** Targets of the load, and its outcomes so far. */
export interface Scene {
  server: ServerProcess;
  admin: Client;
  launch: { imageId: string; region: string; instanceTypeId: string };
  accounts: Account[];
  /** Acknowledged calls by action. */
  tally: Map<string, number>;
  answered: number;
  random: () => number;
}

/**
 * `unanswered`: no answer came; a refusal is an answer too. Some answers are dropped on purpose, as
 * when the server dies between commit and answer, a moment that a kill rarely hits.
 */
async function ask<T>(
  { random }: Scene,
  call: (options: CallOptions) => Promise<T>,
): Promise<T | 'refused' | 'unanswered'> {
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

export async function listOf({ client }: Account): Promise<InstanceObject[]> {
  const all: InstanceObject[] = [];
  for (let currentPage = 1; ; currentPage++) {
    const { instances, pager } = await client.listInstances({ pager: { currentPage, pageSize: 500 } });
    all.push(...instances);
    if (all.length >= pager.totalEntries || instances.length === 0) return all;
  }
}
export const idOf = (one: InstanceObject): string => one.instanceMetadata.instanceId;
export const statusOf = (one: InstanceObject): string => one.instanceRuntimeInfo.status;
const isAtRest = (one: InstanceObject): boolean =>
  ['Ready', 'Stopped', 'Archived'].includes(one.instanceRuntimeInfo.phase);

const pick = <T>({ random }: Scene, list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)];
const count = ({ tally }: Scene, action: string): void => void tally.set(action, (tally.get(action) ?? 0) + 1);

export const AGAIN = '-again';
/**
 * Makes a folder on the volume when it runs, which no stop cuts in two: on one root disk it runs
 * once, so a second folder is a root disk that was lost.
 */
const initScript = `mkdir /root/kept/"$BERTH_INSTANCE_ID" || mkdir /root/kept/"$BERTH_INSTANCE_ID"${AGAIN}`;

async function launchOne(scene: Scene, account: Account, mine: Set<string>): Promise<void> {
  const name = randomUUID();
  const answer = await ask(scene, (options) =>
    account.client.launch(
      {
        name,
        ...scene.launch,
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
  scene.answered += 1;
  if (answer === 'refused') return;
  if (answer === 'unanswered') {
    account.unsure.add(name);
    return;
  }
  count(scene, 'launch');
  account.sure.set(name, answer.instanceId);
  account.desired.set(answer.instanceId, new Set(['running']));
  mine.add(answer.instanceId);
}

async function act(scene: Scene, account: Account, one: InstanceObject): Promise<void> {
  const legal = actions.filter((each) => one.actions.includes(each));
  const rarest = legal.toSorted((a, b) => (scene.tally.get(a) ?? 0) - (scene.tally.get(b) ?? 0))[0];
  const action = scene.random() < 0.5 ? rarest : pick(scene, legal);
  const desired = account.desired.get(idOf(one));
  if (action === undefined || desired === undefined) return;
  if (action === 'archive') account.archivedOnce.add(idOf(one));
  const answer = await ask(scene, (options) => account.client[action]({ instanceId: idOf(one) }, options));
  scene.answered += 1;
  if (answer === 'refused') return;
  if (answer !== 'unanswered') {
    count(scene, action);
    desired.clear();
  }
  desired.add(desiredBy[action]);
}

/** A worker of an account, with its own instances. */
async function work(scene: Scene, account: Account, mine: Set<string>, ending: AbortSignal): Promise<void> {
  while (!ending.aborted) {
    const listed = await ask(scene, () => listOf(account));
    if (typeof listed === 'string') continue;
    const living = listed.filter((one) => mine.has(idOf(one)) && statusOf(one) !== 'Released');
    const one = pick(scene, living);
    if (living.length < INSTANCES_A_WORKER && (one === undefined || scene.random() < 0.5))
      await launchOne(scene, account, mine);
    else if (one !== undefined && (isAtRest(one) || scene.random() < HASTE)) await act(scene, account, one);
    await sleep(scene.random() * LONGEST_PAUSE_MS);
  }
}

/**
 * Kills the server this many times. The load continues until each action was acknowledged once,
 * however slow the machine is.
 */
async function killMany(scene: Scene, times: number): Promise<void> {
  const { server, random } = scene;
  for (let kills = 1; kills <= times; kills++) {
    const enough = scene.answered + Math.floor(random() * (MOST_ANSWERS + 1));
    await until(
      async () => scene.answered,
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
  await until(
    async () => scene.tally.size,
    (acknowledged) => acknowledged > actions.length,
    ALL_ACTIONS_MS,
  );
}

/** Kills the server under the load of all accounts; afterwards nothing is under way. */
export async function killUnderLoad(scene: Scene, times: number): Promise<void> {
  const ending = new AbortController();
  const workers = scene.accounts.flatMap((account) =>
    Array.from({ length: WORKERS_AN_ACCOUNT }, () => work(scene, account, new Set(), ending.signal)),
  );
  const working = Promise.all(workers);
  await Promise.race([killMany(scene, times), working]);
  ending.abort();
  await working;
}
