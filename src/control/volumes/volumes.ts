/** Volumes: create, list, get, expand, rename, copy, delete (`interface.md` §4.3, §4.4; interface-notes.md, Volumes). */
import { regionId, userId } from '../../domain/ids.ts';
import { beginOperation, FIRST_GENERATION, operationId } from '../../domain/operation.ts';
import { publicOperation, type PublicOperation } from '../../domain/public-operation.ts';
import { Refusal, volumeNotFound } from '../../domain/refusal.ts';
import {
  publicVolume,
  refusalOfVolumeUse,
  type Volume,
  type VolumeType,
  type VolumeSource,
} from '../../domain/volume.ts';
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
import type { Idempotent } from '../base/idempotent.ts';
import type { Regions } from '../base/regions.ts';
import type { FreeSpaceMonitor } from './free-space.ts';
import type { Caller, Idempotency, StartedOperation, Pager, TextPage } from '../base/caller.ts';
import type { StorageCapabilities } from '../../storage/contract.ts';

export interface Volumes {
  create(
    caller: Caller,
    body: { name: string; sizeGB: number; region: string; volumeType: VolumeType },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string } & StartedOperation>;
  list(caller: Caller, pager: Pager): Promise<TextPage<string>>;
  get(caller: Caller, body: { id: string }): Promise<VolumeFacts>;
  /** Larger, also while it is mounted; the size that it has already is answered as it is. */
  expand(
    caller: Caller,
    body: { id: string; sizeGB: number },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string; sizeLimit: StorageCapabilities['sizeLimit'] } & StartedOperation>;
  /** Done when it is answered. Instances show the name that it had when they were launched. */
  rename(
    caller: Caller,
    body: { id: string; name: string },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string }>;
  /** A new volume with all files of another. */
  copy(caller: Caller, body: CopyRequest, idempotency: Idempotency | null): Promise<{ volumeText: string } & StartedOperation>;
  delete(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<{ id: string } & StartedOperation>;
}

/** One volume, with what lists do not show. */
export interface VolumeFacts extends Pick<StorageCapabilities, 'sizeLimit' | 'copies'> {
  volumeText: string;
  pool: string;
  /** Instances that mount it and are not terminated. */
  mountedBy: string[];
  /** Newest first, at most a hundred. */
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
  wake: () => void;
}

const SNAPSHOTS_SHOWN = 100;

/** The caller's volume, held by its row until the transaction ends. */
export async function lockVolume(tx: Db, accountId: string, id: string): Promise<Volume> {
  const [row] = await lockVolumes(tx, accountId, [id]);
  if (!row) throw volumeNotFound(id);
  return volumeFromRow(row);
}

/** Of what can be done with one alone that has all its files. */
export function refuseUnlessBound(volume: Volume, what: string): void {
  const why = refusalOfVolumeUse(volume);
  if (why !== null) throw new Refusal('not_now', `can't ${what} volume ${volume.id}: ${why}`);
}

/** An answer that was kept before there were operations has the volume alone. */
export function naming<Answer extends { volumeText: string }>(answer: Answer): Answer & { operationId: string } {
  const { id }: { id: string } = JSON.parse(answer.volumeText);
  return { ...answer, operationId: operationId(id, FIRST_GENERATION) };
}

export const makeVolumes = (deps: VolumeDeps): Volumes => {
  const { store, regions: drivers, freeSpace, pages, readCatalog, now, idempotent, randomUuid, wake } = deps;
  return {
    async create(caller, body, idempotency) {
      const { regions } = await readCatalog();
      const answer = await store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, caller.accountId, idempotency, nowMs, async () => {
          if (!regions.has(body.region)) {
            throw new Refusal('not_found', `region ${body.region} not found; POST /api/region/list names them`);
          }
          const place = drivers.of(body.region);
          freeSpace.refuseIfNearlyFull([poolForType(place, body.volumeType)]);
          const wanted = {
            ownerId: userId(caller.accountId),
            ownerName: caller.username,
            name: body.name,
            regionId: regionId(body.region),
            type: body.volumeType,
            sizeGB: body.sizeGB,
            source: null,
          };
          return createVolume(tx, wanted, { pool: poolForType(place, body.volumeType), uuid: randomUuid(), nowMs });
        });
      });
      wake();
      return naming(answer);
    },

    async list(caller, { currentPage, pageSize }) {
      return pages.page(store.read, caller.accountId, (currentPage - 1) * pageSize, pageSize);
    },

    async get({ accountId }, { id }) {
      const volume = await ownedVolume(store.read, accountId, id);
      if (!volume || volume.status === 'Terminating') throw volumeNotFound(id);
      const { generation, operation, source, type } = volume;
      const place = drivers.of(volume.regionId);
      const [disk] = await disksAmong(store.read, [{ kind: 'volume', id }]);
      const pool = disk ? poolNamed(place, disk.pool) : poolForType(place, type);
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
    },

    async expand({ accountId }, { id, sizeGB }, idempotency) {
      const answer = await store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          const volume = await lockVolume(tx, accountId, id);
          refuseUnlessBound(volume, 'expand');
          if (sizeGB < volume.sizeGB)
            throw new Refusal(
              'field_value',
              `field "sizeGB" is ${sizeGB}, and volume ${id} has ${volume.sizeGB}: a volume is never made smaller; create one of ${sizeGB} GB, and copy the files in an instance that mounts both`,
            );
          const place = drivers.of(volume.regionId);
          const disk = await lockSourceDisk(tx, { kind: 'volume', id });
          const pool = poolNamed(place, disk.pool);
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
      });
      wake();
      return answer;
    },

    async rename({ accountId }, { id, name }, idempotency) {
      const renamed = store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          const volume = await lockVolume(tx, accountId, id);
          const next = { ...volume, name };
          if (name !== volume.name) {
            await writeVolumeName(tx, next);
            const data = { name, formerName: volume.name };
            await appendEvent(tx, { accountId, atMs: nowMs, kind: 'volume.renamed', subjectId: id, data });
          }
          return { volumeText: JSON.stringify(publicVolume(next)) };
        });
      });
      return renamed.catch((error: unknown) => {
        throw isUniqueViolation(error) ? volumeNameTaken() : error;
      });
    },

    async copy({ accountId, username }, body, idempotency) {
      const answer = await store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          const volume = await lockVolume(tx, accountId, body.id);
          refuseUnlessBound(volume, 'copy');
          const place = { drivers: drivers.of(volume.regionId), freeSpace, uuid: randomUuid(), nowMs };
          const owner = { ownerId: userId(accountId), ownerName: username };
          return createCopy(tx, place, owner, { ...volume, kind: 'volume' }, body);
        });
      });
      wake();
      return naming(answer);
    },

    async delete(caller, body, idempotency) {
      const answer = await store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, caller.accountId, idempotency, nowMs, async () => {
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
      });
      wake();
      return answer;
    },
  };
};
