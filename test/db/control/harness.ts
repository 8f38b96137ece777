/** Real control on a real store, with the simulated engine for hands: what the passes are tried in. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { Caller, LaunchWish, Terminals } from '../../../src/control/control.ts';
import { makeControl, type RunningControl } from '../../../src/control/wiring.ts';
import { makeRegions, type PoolDrivers, type RegionDrivers } from '../../../src/control/base/regions.ts';
import type { Space } from '../../../src/domain/pool.ts';
import { realTime, type Time } from '../../../src/control/base/time.ts';
import { defaultLimits, type Limits } from '../../../src/domain/instance-states.ts';
import { realClock } from '../../../src/engines/simulated/clock.ts';
import {
  makeSimulatedEngine,
  type SimulatedEngine,
  type SimulatedEngineOptions,
} from '../../../src/engines/simulated/simulated.ts';
import * as firstRun from '../../../src/main/first-run.ts';
import { makeDirectoryStorage } from '../../../src/storage/directory/directory.ts';
import { makeRoot, spaceAt } from '../../../src/storage/layout.ts';
import type { InstanceType } from '../../../src/domain/catalog.ts';
import type { EndsRules } from '../../../src/domain/stop-policy.ts';
import type { IdleLimits } from '../../../src/domain/idle.ts';
import type { Log } from '../../../src/control/base/log.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import type { Store } from '../../../src/store/store.ts';
import type { PublicInstance } from '../../../src/domain/public-instance.ts';
import { cheapArgon2id } from './cheap-argon2id.ts';

export interface World {
  store: Store;
  running: RunningControl;
  engine: SimulatedEngine;
  drivers: RegionDrivers;
  /** Of the one pool. */
  storage: Storage;
  folder: string;
  caller: Caller;
  types: readonly InstanceType[];
  imageId: string;
  wish: (over?: Partial<LaunchWish>) => LaunchWish;
  account: (name: string, balance?: number) => Promise<Caller>;
  instance: (id: string) => Promise<PublicInstance>;
  /** Waits until the instance is as asked; fails saying how it was instead. */
  until: (id: string, what: (instance: PublicInstance) => boolean) => Promise<PublicInstance>;
  /** Ends this control as a crash would leave it, and starts another on the same store and engine. */
  again: () => Promise<void>;
  /** Another process beside it, not started: on another opening of the same store, if not said otherwise with the same hands. */
  beside: (more: Partial<MoreControl>) => RunningControl;
}

export const quickLimits: Limits = {
  ...defaultLimits,
  backOffBaseMs: 5,
  backOffMaxMs: 20,
  readyDeadlineMs: 3_000,
  sshFrontMs: 100,
  stopGraceMs: 200,
  callDeadlineMs: 300,
  askAgainMs: 25,
};

/** Of the one image on offer. */
export const IMAGE_REF = 'berth.local/test:1';

/** Only what fails waits as long: below the bound of a test, and above what a machine under load needs. */
const WAIT_MS = 25_000;
const POLL_MS = 5;

const ignore = () => {};

export interface WorldOptions {
  engine?: Partial<SimulatedEngineOptions>;
  limits?: Partial<Limits>;
  machine?: firstRun.Machine;
  nodePorts?: { first: number; last: number };
  capabilities?: Partial<import('../../../src/engines/contract.ts').Capabilities>;
  start?: boolean;
  engineWidth?: number;
  endsRules?: EndsRules;
  idleLimits?: Partial<IdleLimits>;
  /** Added to the time of the machine, for what takes an hour. */
  clock?: { aheadMs: number };
  /** Held outside of control. */
  terminals?: (engine: SimulatedEngine) => Promise<Terminals>;
  /** In place of the machine's own. */
  time?: Partial<Time>;
  /** Timed deeds come so many times as often. */
  hurry?: number;
  log?: Log;
  /** Of the one pool, where disks lie. */
  pool?: Partial<PoolDrivers>;
  /** Of the place that the database lies on; the machine's own, if not given. */
  dataSpace?: () => Promise<Space>;
  /** What control may say as an error without failing the test; nothing, if not given. */
  mayFail?: RegExp;
}

export interface MoreControl {
  store: Store;
  drivers: RegionDrivers;
  localRegistries: boolean;
}

export async function makeWorld(store: Store, options: WorldOptions = {}): Promise<World> {
  const now = (): number => Date.now() + (options.clock?.aheadMs ?? 0);
  const folder = await mkdtemp(join(tmpdir(), 'berth-world-'));
  const machine = options.machine ?? { cpuCores: 4, memoryMiB: 17 * 1024, architecture: 'amd64', gpus: [] };
  const installation = await firstRun.installationId(store, randomUUID());
  await makeRoot({ root: folder, installation });
  const regionId = await firstRun.defaultRegionId(store, randomUUID());
  const capacity = { cpuMilli: machine.cpuCores * 1000, memoryMiB: machine.memoryMiB, gpus: machine.gpus.length };
  const engine = makeSimulatedEngine({
    installation,
    capacity,
    clock: { ...realClock, now },
    ...options.engine,
    ...(options.capabilities ? { capabilities: options.capabilities } : {}),
  });
  const storage = makeDirectoryStorage({ root: folder, installation });
  const nodePortRange = options.nodePorts ?? { first: 30_000, last: 30_999 };
  const drivers: RegionDrivers = {
    regionId,
    engine,
    pools: [{ name: 'default', storage, sizeGB: 1_000_000, overcommit: 1, seen: null, ...options.pool }],
    sharedDiskGB: 20,
    nodePortRange,
    nodePortAddress: '127.0.0.1',
    commonDataFolder: folder,
    archivePrefix: 'berth.local/archive',
    archivePushed: false,
    savedPrefix: 'berth.local/saved',
    startScript: '#!/bin/sh\n',
    seen: { probe: null, answers: false, text: '' },
  };
  const region = {
    id: regionId,
    name: 'default',
    value: 'default',
    location: 'here',
    domain: 'gateway.test',
    sshAddress: '192.0.2.1',
    engine: 'simulated',
  } as const;
  await firstRun.saveDefaultRegion(store, region, machine, { nodePorts: nodePortRange, cpuOvercommit: 1 });
  const types = await firstRun.saveTypes(store, regionId, firstRun.fittedTypes(machine), randomUUID);
  const image = { key: 'test', name: 'test image', ref: IMAGE_REF, tags: [], architecture: 'amd64' };
  const imageId = await firstRun.offerImage(store, image, { nowMs: Date.now(), uuid: randomUUID });

  const terminals = await options.terminals?.(engine);
  const errors: unknown[] = [];
  const told = (facts: Record<string, unknown>, text: string): void => {
    if (!options.mayFail?.test(text)) errors.push({ text, ...facts });
  };
  const log = options.log ?? { debug: ignore, info: ignore, warn: ignore, error: told };
  const all: RunningControl[] = [];
  const make = (more: Partial<MoreControl> = {}): RunningControl => {
    const control = makeControl({
      store: more.store ?? store,
      regions: makeRegions([more.drivers ?? drivers]),
      log,
      time: { ...realTime, now, ...hurried(options.hurry, () => options.clock?.aheadMs ?? 0), ...options.time },
      random: Math.random,
      randomUuid: randomUUID,
      randomBytes,
      secretsKey: new Uint8Array(32).fill(7),
      openUrl: ({ key }) => `http://gateway.test/open?key=${key}`,
      portUrls: ({ instanceId, port }) => ({
        path: `http://gateway.test/forward/${instanceId}/${port}/`,
        host: null,
      }),
      shareUrl: ({ instanceId, port, token }) =>
        `http://gateway.test/forward/${instanceId}/${port}/?berth_share=${token}`,
      issuer: installation,
      audience: 'berth',
      argon2id: cheapArgon2id,
      engineWidth: options.engineWidth ?? 8,
      cpuOvercommit: 1,
      hostMemoryMiB: firstRun.HOST_MEMORY_MIB,
      dataSpace: options.dataSpace ?? (() => spaceAt(folder)),
      onEngineAnswers: async () => {},
      limits: { ...quickLimits, ...options.limits },
      ...(options.endsRules ? { endsRules: options.endsRules } : {}),
      ...(options.idleLimits ? { idleLimits: options.idleLimits } : {}),
      ...(terminals ? { terminals } : {}),
      localRegistries: more.localRegistries ?? false,
      alone: store.kind === 'sqlite',
    });
    all.push(control);
    return control;
  };
  const world = { running: make() };
  await world.running.room.look();
  await world.running.access.ensureAdmin({ password: 'correct horse', balance: 1_000 });
  const account = async (name: string, balance = 1_000): Promise<Caller> => {
    const made = await world.running.access.createUser(
      { accountId: caller.accountId, username: 'admin', email: '', roles: ['admin'], sessionId: null },
      { username: name, email: '', password: 'battery staple', balance },
      null,
    );
    return { accountId: made.userId, username: name, email: '', roles: ['user'], sessionId: null };
  };
  const { accessToken } = await world.running.access.login(
    { username: 'admin', password: 'correct horse' },
    '127.0.0.1',
  );
  const caller = await world.running.access.authenticate({ kind: 'token', token: accessToken });
  if (options.start !== false) await world.running.start();
  const stop = async (): Promise<void> => {
    await Promise.all(all.map((control) => control.stop()));
  };
  // A store is stopped by hooks that run before those of `onTestFinished`: control has to end first.
  const { stop: stopStore } = store;
  store.stop = async () => {
    await stop();
    await stopStore();
    expect(errors, 'what control logged as errors').toEqual([]);
  };
  onTestFinished(async () => {
    await stop();
    await engine.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const instance = async (id: string): Promise<PublicInstance> => {
    const row = await store.read
      .selectFrom('instance')
      .select('publicText')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    return JSON.parse(row.publicText);
  };
  return {
    store,
    types,
    imageId,
    beside: make,
    get running() {
      return world.running;
    },
    engine,
    drivers,
    storage,
    folder,
    caller,
    account,
    instance,
    wish: (over = {}) => ({
      name: 'test',
      imageId,
      instanceTypeId: types[0]?.id ?? '',
      region: regionId,
      billing: { chargeMode: 'perHour', duration: 1 },
      remoteStorages: [],
      instanceConfiguration: {
        extraDataDiskSizeDB: 0,
        enableCommonData: false,
        enableDocker: false,
        dockerStorageSize: 0,
        initScript: '',
      },
      isSpotInstance: false,
      nodePorts: [],
      ...over,
    }),
    async until(id, what) {
      let last: PublicInstance | null = null;
      const seen = async (): Promise<boolean> => what((last = await instance(id)));
      await eventually(seen, () => JSON.stringify(last?.instanceRuntimeInfo));
      return last ?? (await instance(id));
    },
    async again() {
      await world.running.stop();
      world.running = make();
      await world.running.start();
    },
  };
}

const hurried = (times = 1, aheadMs = () => 0): Partial<Time> => ({
  elapsed: () => realTime.elapsed() * times + aheadMs(),
  every: (ms, deed) => realTime.every(ms / times, deed),
});

/** Waits until it is so; fails saying what was there instead. */
export async function eventually(
  isSo: () => boolean | Promise<boolean>,
  instead: () => unknown = () => 'otherwise',
): Promise<void> {
  const endMs = Date.now() + WAIT_MS;
  while (!(await isSo())) {
    if (Date.now() > endMs) throw new Error(`it stayed ${String(instead())}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Of a page: SQLite gives bytes, which need not be decoded to be joined. */
export const textOf = (text: string | Uint8Array): string =>
  typeof text === 'string' ? text : Buffer.from(text).toString();

export const hasStatus =
  (...statuses: string[]) =>
  (instance: PublicInstance): boolean =>
    statuses.includes(instance.instanceRuntimeInfo.status);
