/** The sweeps' dependencies over a world, so that a test sweeps when it likes; and orphans. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { handleOrphans, type HandleOrphansDeps } from '../../../src/control/compute/orphans/handle-orphans.ts';
import type { ProbeDeps } from '../../../src/control/regions/capacity/probe.ts';
import { sweepRegion } from '../../../src/control/compute/orphans/sweep.ts';
import { makeCatalogCache } from '../../../src/control/kernel/catalog-cache.ts';
import { makeRegions, type RegionDrivers } from '../../../src/control/kernel/regions.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { instanceId, instanceIdOf, userId, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import { defaultOrphanPolicy, type OrphanPolicy } from '../../../src/domain/compute/orphan.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { orphansOf } from '../../../src/store/tables/orphans.ts';
import type { World } from '../../fixtures/control.ts';

export interface Sweeping {
  deps: ProbeDeps & HandleOrphansDeps & { releasedListedMs: number; eventRetentionMs: number };
  warned: { facts: Record<string, unknown>; text: string }[];
  /** Sweeps, then handles the orphans of earlier sweeps. */
  sweep: () => Promise<void>;
}

const DAY_MS = 24 * 3_600_000;

/** `wake` wakes the world's own loop. */
export function sweeping(
  world: World,
  { now = Date.now, policy = defaultOrphanPolicy }: { now?: () => number; policy?: OrphanPolicy } = {},
): Sweeping {
  const warned: Sweeping['warned'] = [];
  const ignore = (): void => {};
  const deps: Sweeping['deps'] = {
    store: world.store,
    regions: makeRegions([world.drivers]),
    time: { ...realTime, now },
    log: {
      debug: ignore,
      info: ignore,
      error: ignore,
      warn: (facts: Record<string, unknown>, text: string) => void warned.push({ facts, text }),
    },
    // A volume that becomes Bound wakes the instances' loop.
    changes: { publish: () => void volumeOf(world).catch(() => {}) },
    reservesForGpus: false,
    sampler: { latestOf: () => null },
    ...makeCatalogCache({ store: world.store, time: realTime }),
    onEngineAnswers: async (drivers: RegionDrivers) => void (await sweepRegion(deps, drivers)),
    releasedListedMs: 3_600_000,
    eventRetentionMs: 30 * DAY_MS,
    orphans: policy,
    limits: { stopGraceMs: 200 },
    stopping: new AbortController().signal,
  };
  return {
    warned,
    deps,
    async sweep() {
      await sweepRegion(deps, world.drivers);
      await handleOrphans(deps, world.drivers);
    },
  };
}

const volumeOf = (world: World): Promise<unknown> =>
  world.running.control.volumes.create(
    world.caller,
    { name: randomUUID(), sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' },
    null,
  );

export const specOf = (id: InstanceId, more: Partial<EngineSpec> = {}): EngineSpec => ({
  id,
  ownerId: userId('somebody'),
  generation: 1,
  hostname: `${id}-0`,
  imageRef: 'berth.local/test:1',
  cpuMilli: 100,
  memoryMiB: 100,
  pidsLimit: 10,
  gpus: 0,
  mounts: [],
  nodePorts: [],
  nodePortAddress: '127.0.0.1',
  files: [],
  ...more,
});

const soon = (): AbortSignal => AbortSignal.timeout(120_000);

/** A running container with our labels and no row. */
export async function makeOrphan(world: World, more: Partial<EngineSpec> = {}): Promise<InstanceId> {
  const id = instanceIdOf(randomUUID());
  await world.engine.ensureImage('berth.local/test:1', () => {}, soon());
  await world.engine.ensure(specOf(id, { ownerId: userId(world.caller.accountId), ...more }), soon());
  return id;
}

/** Ids of our containers, and whether they run. */
export async function containersOf(world: World): Promise<Map<InstanceId, boolean>> {
  const owned = await world.engine.listOwned(soon());
  return new Map(owned.filter(({ kind }) => kind === 'instance').map(({ id, running }) => [instanceId(id), running]));
}

/** All rows of the table, unconfirmed ones included. */
export const tableOf = async ({ store, drivers }: World): Promise<string[]> =>
  (await orphansOf(store.read, drivers.regionId)).map(({ id }) => id);

/** Events of an administrator. */
export const listOf = ({ running }: World) => running.control.orphans.list();

export const reporting: OrphanPolicy = { action: 'report', retentionMs: 0 };
export const orphanIdOf = ({ drivers }: World, id: string): string => `${drivers.regionId}/instance/berth-${id}`;

/** A confirmed orphan that was not handled. */
export async function knownOrphan(world: World, more: Parameters<typeof makeOrphan>[1] = {}): Promise<InstanceId> {
  const id = await makeOrphan(world, more);
  const { sweep } = sweeping(world, { policy: reporting });
  await sweep();
  await sweep();
  expect(await tableOf(world)).toContain(orphanIdOf(world, id));
  return id;
}

export const handle = (
  world: World,
  id: string,
  request: { action: 'adopt' | 'stop' | 'delete'; [more: string]: string },
  caller = world.caller,
) => world.running.control.orphans.handle(caller, { strayId: orphanIdOf(world, id), ...request });

export const adoptAs = (world: World, over: Record<string, string> = {}) => ({
  action: 'adopt' as const,
  instanceTypeId: world.types[0]?.id ?? '',
  ...over,
});
