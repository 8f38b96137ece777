/** Small worlds and requests, for the tests of capacity and its queue. */
import { randomUUID } from 'node:crypto';
import { makeCatalogCache } from '../../../src/control/kernel/catalog-cache.ts';
import { makeRegions } from '../../../src/control/kernel/regions.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { makeProbe } from '../../../src/control/regions/capacity/probe.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import type { Capacity } from '../../../src/domain/regions/catalog.ts';
import * as firstRun from '../../../src/main/first-run.ts';
import { regionsWithUsage, type RegionWithUsage } from '../../../src/store/tables/catalog.ts';
import type { Store } from '../../../src/store/store.ts';
import { replaceTypes } from '../../fixtures/catalog.ts';
import { makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';

/** No timer is this long: a placed entry was woken, not polled. */
export const A_DAY_MS = 86_400_000;

export const machineOf = (cpuCores: number, memoryGB: number, gpus = 0): firstRun.Machine => ({
  cpuCores,
  memoryMiB: memoryGB * 1024 + firstRun.HOST_MEMORY_MIB,
  architecture: 'amd64',
  gpus: Array.from({ length: gpus }, () => ({ name: 'A100' })),
});

interface Size {
  cpuCores: number;
  memoryGB: number;
  gpuCount?: number;
  gpuName?: string;
  isSpot?: boolean;
}

export interface SizedWorld extends World {
  of: (type: string, over?: Partial<LaunchInput>) => LaunchInput;
  typeId: (name: string) => string;
  counts: () => Promise<RegionWithUsage>;
  /** Ids in queue order. */
  capacityQueue: () => Promise<string[]>;
  /** Changes the engine's capacity, or says that it is the sum of hosts, and runs a probe. */
  becomes: (capacity: Partial<Capacity>, hosts?: readonly Capacity[]) => Promise<void>;
}

/** World whose region has this machine and these types. */
export async function makeSizedWorld(
  store: Store,
  machine: firstRun.Machine,
  sizes: Record<string, Size>,
  options: WorldOptions = {},
): Promise<SizedWorld> {
  const world = await makeWorld(store, { machine, ...options });
  const offered = Object.entries(sizes).map(
    ([name, { cpuCores, memoryGB, gpuCount = 0, isSpot = false, gpuName = gpuCount > 0 ? 'A100' : '' }]) => ({
      name,
      isSpot,
      cpuCores,
      cpuType: 'amd64',
      memoryGB,
      gpuCount,
      gpuName,
      rootDiskGB: 20,
      dataDiskGB: 20,
      pricesMicros: firstRun.pricesOf(0.02),
    }),
  );
  const types = await replaceTypes(store, world.drivers.regionId, offered);
  const typeId = (name: string): string => {
    const type = types.find((one) => one.name === name);
    if (!type) throw new Error(`there is no type ${name}`);
    return type.id;
  };
  const more = {
    typeId,
    of: (name: string, over: Partial<LaunchInput> = {}) => world.launchInput({ instanceTypeId: typeId(name), ...over }),
    async counts() {
      const [counted] = await regionsWithUsage(store.read);
      if (!counted) throw new Error('there is no region');
      return counted;
    },
    async capacityQueue() {
      const rows = await store.read
        .selectFrom('instance')
        .select('id')
        .where('waitsSinceMs', 'is not', null)
        .orderBy('waitsSinceMs')
        .orderBy('id')
        .execute();
      return rows.map(({ id }) => id);
    },
    async becomes(capacity: Partial<Capacity>, hosts?: readonly Capacity[]) {
      Object.assign(world.engine.host.capacity, capacity);
      if (hosts !== undefined) {
        const { engine } = world.drivers;
        const probe = engine.probe.bind(engine);
        engine.probe = async (signal) => ({ ...(await probe(signal)), hosts });
      }
      await makeProbe({
        store,
        regions: makeRegions([world.drivers]),
        time: realTime,
        log: { debug() {}, info() {}, warn() {}, error() {} },
        // A Bound volume wakes the instance loop.
        changes: { publish: () => void volumeOf(world, world.caller, randomUUID()).catch(() => {}) },
        onEngineAnswers: async () => {},
        reservesForGpus: options.reservesForGpus ?? false,
        sampler: { latestOf: () => null },
        ...makeCatalogCache({ store, time: realTime }),
        stopping: new AbortController().signal,
      })();
    },
  };
  // Not spread: `running` is replaced after a crash.
  return Object.assign(world, more);
}

export async function volumeOf(world: World, caller: World['caller'], name: string): Promise<string> {
  const body = { name, sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' } as const;
  const { volumeText } = await world.running.control.volumes.create(caller, body, null);
  const { id }: { id: string } = JSON.parse(volumeText);
  return id;
}

/** Codes of refusals, and answers of the others. */
export async function outcomesOf<Answer>(
  asked: Promise<Answer>[],
): Promise<{ done: Answer[]; refused: { code: string; message: string }[] }> {
  const outcomes = await Promise.allSettled(asked);
  return {
    done: outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : [])),
    refused: outcomes.flatMap((outcome) => {
      if (outcome.status === 'fulfilled') return [];
      const error: { name: string; code: string; message: string } = outcome.reason;
      if (error.name !== 'Refusal') throw error;
      return [{ code: error.code, message: error.message }];
    }),
  };
}
