/** What must hold of a whole database and its engine whenever all is at rest, and a picture of it to compare with. */
import { expect } from 'vitest';
import { instance as instanceSchema } from '../../src/contract/instance.ts';
import { capacityOf } from '../../src/domain/catalog.ts';
import { publicInstance } from '../../src/domain/public-instance.ts';
import { publicVolume } from '../../src/domain/volume.ts';
import { countedRegions } from '../../src/store/catalog.ts';
import { instanceFromRow } from '../../src/store/instances.ts';
import type { Schema } from '../../src/store/schema.ts';
import type { Store } from '../../src/store/store.ts';
import { volumeFromRow } from '../../src/store/volumes.ts';
import { eventually, type World } from './harness.ts';

/** All but what access keeps. */
const tables = [
  'account',
  'region',
  'image',
  'instanceType',
  'instance',
  'nodePort',
  'mount',
  'volume',
  'idempotency',
  'event',
  'setting',
] as const;

/** Every row of every table, in an order that two pictures share. */
export async function pictureOf(store: Store): Promise<Record<string, string[]>> {
  const rowsOf = async (table: keyof Schema): Promise<[string, string[]]> => {
    const rows = await store.read.selectFrom(table).selectAll().execute();
    return [table, rows.map((row) => JSON.stringify(row)).toSorted()];
  };
  return Object.fromEntries(await Promise.all(tables.map(rowsOf)));
}

/** Waits until no pass has anything to do. */
export async function settled({ store }: World): Promise<void> {
  let busy: unknown[] = [];
  const isAtRest = async (): Promise<boolean> => {
    const instances = await store.read
      .selectFrom('instance')
      .select(['id', 'status', 'dueAtMs', 'observed'])
      .where('dueAtMs', 'is not', null)
      .execute();
    const volumes = await store.read
      .selectFrom('volume')
      .select(['id', 'status', 'dueAtMs'])
      .where('dueAtMs', 'is not', null)
      .execute();
    busy = [...instances, ...volumes];
    return busy.length === 0;
  };
  await eventually(isAtRest, () => JSON.stringify(busy));
}

/** As `expectConsistent`, for worlds in which things still happen by themselves: at some moment of rest all must be true. */
export async function becomesConsistent(world: World): Promise<void> {
  let last: unknown;
  const isConsistent = async (): Promise<boolean> => {
    await settled(world);
    return expectConsistent(world).then(
      () => true,
      (error: unknown) => ((last = error), false),
    );
  };
  await eventually(isConsistent, () => `inconsistent: ${String(last)}`);
}

export async function expectConsistent(world: World): Promise<void> {
  const { store, engine } = world;
  const rows = await store.read.selectFrom('instance').selectAll().execute();
  const instances = rows.map((row) => ({ row, instance: instanceFromRow(row) }));
  const standing = instances.filter(({ instance }) => instance.observed.phase !== 'Cleaned');
  const regions = await countedRegions(store.read);

  for (const { region, used } of regions) {
    const held = instances
      .filter(({ row }) => row.regionId === region.id && row.holdsCapacity === 1)
      .map(({ instance }) => capacityOf(instance.spec.type));
    const there = standing.filter(({ row }) => row.regionId === region.id);
    expect(used).toEqual({
      cpuMilli: sum(held.map(({ cpuMilli }) => cpuMilli)),
      memoryMiB: sum(held.map(({ memoryMiB }) => memoryMiB)),
      gpus: sum(held.map(({ gpus }) => gpus)),
      nodePorts: sum(there.map(({ instance }) => instance.nodePorts.length)),
    });
  }
  for (const { row, instance } of instances) {
    const region = regions.find(({ region: { id } }) => id === row.regionId)?.region;
    if (!region) throw new Error(`instance ${row.id} is in no region`);
    expect(JSON.parse(row.publicText)).toEqual(publicInstance(instance, region));
    expect(row.status).toBe(instance.observed.status);
    instanceSchema.parse(JSON.parse(row.publicText));
    expect(row.holdsCapacity === 1, `capacity of ${instance.desired} ${row.status}`).toBe(
      (instance.desired === 'running' && instance.waitsSinceMs === null) ||
        (instance.desired === 'stopped' && row.dueAtMs !== null),
    );
  }
  const volumes = await store.read.selectFrom('volume').selectAll().execute();
  for (const row of volumes) expect(JSON.parse(row.publicText)).toEqual(publicVolume(volumeFromRow(row)));

  const allotted = standing.flatMap(({ row, instance }) =>
    instance.nodePorts
      .filter(({ nodePort }) => nodePort !== 0)
      .map(({ port, nodePort }) => ({ regionId: row.regionId, nodePort, instanceId: row.id, port })),
  );
  const kept = await store.read.selectFrom('nodePort').select(['regionId', 'nodePort', 'instanceId', 'port']).execute();
  expect(sorted(kept)).toEqual(sorted(allotted));
  expect(new Set(kept.map(({ regionId, nodePort }) => `${regionId}/${nodePort}`)).size).toBe(kept.length);

  for (const account of await store.read.selectFrom('account').selectAll().execute()) {
    const listed = rows.filter((row) => row.ownerId === account.id && row.listed === 1).length;
    const listedVolumes = volumes.filter((row) => row.ownerId === account.id && row.listed === 1).length;
    expect({ instances: account.instanceCount, volumes: account.volumeCount }).toEqual({
      instances: listed,
      volumes: listedVolumes,
    });
    const events = await store.read
      .selectFrom('event')
      .select('seq')
      .where('accountId', '=', account.id)
      .orderBy('seq')
      .execute();
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: account.eventSeq }, (_, index) => index + 1));
  }

  const owned = (await engine.listOwned(AbortSignal.timeout(1_000))).filter(({ kind }) => kind === 'instance');
  const wished = new Map(standing.map(({ row, instance }) => [row.id, instance]));
  for (const { id, running } of owned) {
    const instance = wished.get(id);
    expect(instance, `the engine holds ${id}, of which nobody knows`).toBeDefined();
    expect(running).toBe(instance?.desired === 'running');
  }
  const there = new Map(owned.map(({ id, running }) => [id, running]));
  for (const { row, instance } of standing)
    if (instance.desired === 'running') expect(there.get(row.id), row.publicText).toBe(true);
}

const sum = (numbers: number[]): number => numbers.reduce((total, one) => total + one, 0);
const sorted = (rows: object[]): string[] => rows.map((row) => JSON.stringify(row)).toSorted();
