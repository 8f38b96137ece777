/** Use cases of volumes (`docs/interface.md` §4.3, §4.4; decisions, Volumes). */
import { regionId, userId } from '../../domain/ids.ts';
import { beginOperation, operationId } from '../../domain/operation.ts';
import { publicOperation, type PublicOperation } from '../../domain/public-operation.ts';
import { Refusal, volumeNotFound } from '../../domain/refusal.ts';
import { publicVolume, refusalOfVolumeUse, type Volume, type VolumeSource } from '../../domain/volume.ts';
import type { VolumeType } from '../../domain/disk.ts';
import { disksAmong } from '../../store/tables/disks.ts';
import { isUniqueViolation } from '../../store/db/errors.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { snapshotTextsOf } from '../../store/tables/snapshots.ts';
import type { Db, Store } from '../../store/store.ts';
import type { VolumePages } from '../../store/tables/volume-pages.ts';
import {
  isCopySource,
  lockVolumes,
  mountersOf,
  ownedVolume,
  volumeFromRow,
  writeVolumeName,
  writeVolumeDesiredState,
} from '../../store/tables/volumes.ts';
import { poolNamed, poolForType, allotMore } from './disks.ts';
import { createCopy, lockSourceDisk, createVolume, volumeNameTaken, type CopyRequest } from './new-volume.ts';
import type { CatalogSnapshot } from '../base/catalog-cache.ts';
import { idempotentWrite, type Idempotent } from '../base/idempotent.ts';
import type { Regions } from '../base/regions.ts';
import type { FreeSpaceMonitor } from './free-space.ts';
import type { Caller, Idempotency, StartedOperation, Pager, TextPage } from '../base/caller.ts';
import type { StorageCapabilities } from '../../storage/contract.ts';
import type { PublishChanges } from '../base/changes.ts';

export interface Volumes {
  create(
    caller: Caller,
    body: { name: string; sizeGB: number; region: string; volumeType: VolumeType },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string } & StartedOperation>;
  list(caller: Caller, pager: Pager): Promise<TextPage<string>>;
  get(caller: Caller, body: { id: string }): Promise<VolumeFacts>;
  /** Works while mounted. The current size is accepted and changes nothing. */
  expand(
    caller: Caller,
    body: { id: string; sizeGB: number },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string; sizeLimit: StorageCapabilities['sizeLimit'] } & StartedOperation>;
  /** Takes effect at once. Instances keep showing the name from their launch. */
  rename(
    caller: Caller,
    body: { id: string; name: string },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string }>;
  copy(
    caller: Caller,
    body: CopyRequest,
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string } & StartedOperation>;
  delete(
    caller: Caller,
    body: { id: string },
    idempotency: Idempotency | null,
  ): Promise<{ id: string } & StartedOperation>;
}

export interface VolumeFacts extends Pick<StorageCapabilities, 'sizeLimit' | 'copies'> {
  volumeText: string;
  pool: string;
  mountedBy: string[];
  /** Newest first, at most 100. */
  snapshotTexts: string[];
  madeFrom: VolumeSource | null;
  operation: PublicOperation;
}

export interface VolumeDeps {
  store: Store;
  regions: Regions;
  freeSpace: FreeSpaceMonitor;
  pages: VolumePages;
  readCatalog: () => Promise<CatalogSnapshot>;
  now: () => number;
  idempotent: Idempotent;
  randomUuid: () => string;
  changes: PublishChanges;
}

const SNAPSHOTS_SHOWN = 100;

export async function lockVolume(tx: Db, accountId: string, id: string): Promise<Volume> {
  const [row] = await lockVolumes(tx, accountId, [id]);
  if (!row) throw volumeNotFound(id);
  return volumeFromRow(row);
}

/** Throws `not_now` unless the volume is Bound. */
export function refuseUnlessBound(volume: Volume, action: string): void {
  const reason = refusalOfVolumeUse(volume);
  if (reason !== null) throw new Refusal('not_now', `can't ${action} volume ${volume.id}: ${reason}`);
}

export const makeVolumes = (deps: VolumeDeps): Volumes => {
  const { store, regions: regionDrivers, freeSpace, pages, readCatalog, randomUuid, changes } = deps;
  return {
    async create(caller, body, idempotency) {
      const { regions } = await readCatalog();
      const answer = await idempotentWrite(deps, caller.accountId, idempotency, async (tx, nowMs) => {
        if (!regions.has(body.region)) {
          throw new Refusal('not_found', `region ${body.region} not found; POST /api/region/list names them`);
        }
        const pool = poolForType(regionDrivers.of(body.region), body.volumeType);
        freeSpace.refuseIfNearlyFull([pool]);
        const spec = {
          ownerId: userId(caller.accountId),
          ownerName: caller.username,
          name: body.name,
          regionId: regionId(body.region),
          type: body.volumeType,
          sizeGB: body.sizeGB,
          source: null,
        };
        return createVolume(tx, spec, { pool, uuid: randomUuid(), nowMs });
      });
      changes.publish({ subject: 'volume', isDue: true });
      return answer;
    },

    async list(caller, { currentPage, pageSize }) {
      return pages.page(store.read, caller.accountId, (currentPage - 1) * pageSize, pageSize);
    },

    get: getVolume(deps),

    expand: expandVolume(deps),

    async rename({ accountId }, { id, name }, idempotency) {
      const renamed = idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
        const volume = await lockVolume(tx, accountId, id);
        const next = { ...volume, name };
        if (name !== volume.name) {
          await writeVolumeName(tx, next);
          const data = { name, formerName: volume.name };
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'volume.renamed', subjectId: id, data });
        }
        return { volumeText: JSON.stringify(publicVolume(next)) };
      });
      return renamed.catch((error: unknown) => {
        throw isUniqueViolation(error) ? volumeNameTaken() : error;
      });
    },

    async copy({ accountId, username }, body, idempotency) {
      const answer = await idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
        const volume = await lockVolume(tx, accountId, body.id);
        refuseUnlessBound(volume, 'copy');
        const context = { drivers: regionDrivers.of(volume.regionId), freeSpace, uuid: randomUuid(), nowMs };
        const owner = { ownerId: userId(accountId), ownerName: username };
        return createCopy(tx, context, owner, { ...volume, kind: 'volume' }, body);
      });
      changes.publish({ subject: 'volume', isDue: true });
      return answer;
    },

    delete: deleteVolume(deps),
  };
};

const getVolume =
  ({ store, regions }: VolumeDeps): Volumes['get'] =>
  async ({ accountId }, { id }) => {
    const volume = await ownedVolume(store.read, accountId, id);
    if (!volume || volume.status === 'Terminating') throw volumeNotFound(id);
    const { generation, operation, source, type } = volume;
    const drivers = regions.of(volume.regionId);
    const [disk] = await disksAmong(store.read, [{ kind: 'volume', id }]);
    const pool = disk ? poolNamed(drivers, disk.pool) : poolForType(drivers, type);
    const { sizeLimit, copies } = pool.storage.capabilities();
    const mounters = await mountersOf(store.read, id);
    return {
      volumeText: JSON.stringify(publicVolume(volume)),
      pool: pool.name,
      sizeLimit,
      copies,
      mountedBy: mounters.filter(({ living }) => living).map(({ instanceId }) => instanceId),
      snapshotTexts: await snapshotTextsOf(store.read, accountId, id, SNAPSHOTS_SHOWN),
      madeFrom: source,
      operation: publicOperation(id, generation, operation),
    };
  };

const expandVolume =
  (deps: VolumeDeps): Volumes['expand'] =>
  async ({ accountId }, { id, sizeGB }, idempotency) => {
    const { regions, freeSpace } = deps;
    const answer = await idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
      const volume = await lockVolume(tx, accountId, id);
      refuseUnlessBound(volume, 'expand');
      if (sizeGB < volume.sizeGB)
        throw new Refusal(
          'field_value',
          `field "sizeGB" is ${sizeGB}, and volume ${id} has ${volume.sizeGB}: a volume is never made smaller; create one of ${sizeGB} GB, and copy the files in an instance that mounts both`,
        );
      const drivers = regions.of(volume.regionId);
      const disk = await lockSourceDisk(tx, { kind: 'volume', id });
      const pool = poolNamed(drivers, disk.pool);
      const { sizeLimit } = pool.storage.capabilities();
      if (sizeGB === volume.sizeGB) {
        const volumeText = JSON.stringify(publicVolume(volume));
        return { volumeText, sizeLimit, operationId: operationId(id, volume.generation) };
      }
      freeSpace.refuseIfNearlyFull([pool]);
      if (await isCopySource(tx, disk))
        throw new Refusal(
          'not_now',
          `volume ${id} is being copied, and a copy has the size that it began with; expand it when the copy is made`,
          { retryAfterS: 10 },
        );
      const larger: Volume = {
        ...volume,
        sizeGB,
        generation: volume.generation + 1,
        operation: beginOperation('expandVolume', 'user', nowMs),
      };
      await writeVolumeDesiredState(tx, volume, larger, { listed: true, dueAtMs: nowMs });
      await allotMore(tx, pool, disk, sizeGB, `the volume needs ${sizeGB - volume.sizeGB} GB more`);
      const data = { sizeGB, fromGB: volume.sizeGB };
      await appendEvent(tx, { accountId, atMs: nowMs, kind: 'volume.expandWished', subjectId: id, data });
      const volumeText = JSON.stringify(publicVolume(larger));
      return { volumeText, sizeLimit, operationId: operationId(id, larger.generation) };
    });
    deps.changes.publish({ subject: 'volume', isDue: true });
    return answer;
  };

const deleteVolume =
  (deps: VolumeDeps): Volumes['delete'] =>
  async (caller, body, idempotency) => {
    const answer = await idempotentWrite(deps, caller.accountId, idempotency, async (tx, nowMs) => {
      const volume = await lockVolume(tx, caller.accountId, body.id);
      const { id, name } = volume;
      const living = (await mountersOf(tx, id)).filter((mounter) => mounter.living);
      if (living.length > 0) {
        const names = living.map(({ instanceId }) => instanceId).join(', ');
        throw new Refusal('in_use', `volume ${id} is mounted by ${names}; terminate these first`);
      }
      const gone: Volume = {
        ...volume,
        status: 'Terminating',
        generation: volume.generation + 1,
        operation: beginOperation('deleteVolume', 'user', nowMs),
      };
      await writeVolumeDesiredState(tx, volume, gone, { listed: false, dueAtMs: nowMs });
      await appendEvent(tx, {
        accountId: caller.accountId,
        atMs: nowMs,
        kind: 'volume.deleted',
        subjectId: id,
        data: { name },
        counts: { volumes: -1 },
      });
      return { id, operationId: operationId(id, gone.generation) };
    });
    deps.changes.publish({ subject: 'volume', isDue: true });
    return answer;
  };
