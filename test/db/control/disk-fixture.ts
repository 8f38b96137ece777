/** A world with disks in memory, whose usage a test sets. */
import type { DiskId, DiskEntry } from '../../../src/domain/storage/disk.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import type { Store } from '../../../src/store/store.ts';
import { makeMemoryStorage, type MemoryStorage } from '../../simulation/storage.ts';
import { eventually, hasStatus, makeWorld, textOf, type World, type WorldOptions } from '../../fixtures/control.ts';
import { measuring, type Measuring } from './measuring.ts';

export const GB = 1024 ** 3;

export interface DiskFixture extends Measuring {
  world: World;
  memory: MemoryStorage;
  volume: (name: string, sizeGB: number) => Promise<string>;
  /** Returns the id of a running instance. */
  running: (volumeId?: string) => Promise<string>;
  rest: (id: string) => Promise<void>;
  hold: (kind: DiskId['kind'], id: string, gb: number, biggest?: DiskEntry[]) => void;
  /** A late hint may lease the instance just then: the measurement is published by the next run. */
  measuredUntil: (id: string, what: (now: PublicInstance['instanceRuntimeInfo']) => boolean) => Promise<void>;
  /** Disk events of the caller, in order. */
  publishedEvents: () => Promise<{ subjectId: string; data: Record<string, unknown> }[]>;
  get: (instanceId: string) => ReturnType<World['running']['control']['instances']['get']>;
  sharedId: string;
}

export async function diskFixture(store: Store, options: WorldOptions = {}): Promise<DiskFixture> {
  const world = await makeWorld(store, options);
  const memory = makeMemoryStorage();
  world.drivers.pools = world.drivers.pools.map((pool) => ({ ...pool, storage: memory }));
  const { caller, drivers } = world;
  const { instances, volumes } = world.running.control;
  const statuses = async (): Promise<string[]> =>
    (await volumes.list(caller, { currentPage: 1, pageSize: 100 })).texts.map(
      (text): string => JSON.parse(textOf(text)).status,
    );
  const measured = measuring(world);
  return {
    ...measured,
    world,
    memory,
    sharedId: `${caller.accountId}/${drivers.regionId}`,
    async volume(name, sizeGB) {
      const request = { name, sizeGB, region: drivers.regionId, volumeType: 'filesystem' as const };
      const { volumeText } = await volumes.create(caller, request, null);
      await eventually(async () => (await statuses()).every((status) => status === 'Bound'));
      const { id }: { id: string } = JSON.parse(volumeText);
      return id;
    },
    async running(volumeId) {
      const mount = { mountPath: '/root/v', remoteStorageName: 'v', type: 'filesystem' };
      const remoteStorages = volumeId === undefined ? [] : [{ ...mount, remoteStorageId: volumeId }];
      const { instanceId } = await instances.launch(caller, world.launchInput({ remoteStorages }), null);
      await world.until(instanceId, hasStatus('Running'));
      await atRest(world, instanceId);
      return instanceId;
    },
    async rest(instanceId) {
      await instances.stop(caller, { instanceId }, null);
      await world.until(instanceId, hasStatus('Stopped'));
      await atRest(world, instanceId);
    },
    async measuredUntil(id, what) {
      let last: PublicInstance['instanceRuntimeInfo'] | null = null;
      await eventually(
        async () => {
          await measured.measure();
          last = (await world.instance(id)).instanceRuntimeInfo;
          return what(last);
        },
        () => JSON.stringify(last),
      );
    },
    hold: (kind, id, gb, biggest) => memory.hold({ kind, id }, Math.round(gb * GB), biggest),
    async publishedEvents() {
      const rows = await store.read
        .selectFrom('event')
        .select(['subjectId', 'data'])
        .where('kind', '=', 'disk.nearlyFull')
        .where('accountId', '=', caller.accountId)
        .orderBy('seq')
        .execute();
      return rows.map(({ subjectId, data }) => ({ subjectId, data: JSON.parse(data) }));
    },
    get: (instanceId) => instances.get(caller, { instanceId }),
  };
}

/** No reconcile runs or is due. */
export const atRest = ({ store }: World, id: string): Promise<void> =>
  eventually(async () => {
    const row = await store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
    return row.dueAtMs === null && row.leaseOwner === null;
  });
