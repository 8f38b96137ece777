/** Use cases of volumes (`docs/interface.md` §4.3, §4.4; decisions, Volumes). */
import { regionId, userId } from '../../domain/kernel/ids.ts';
import { beginOperation, operationId } from '../../domain/compute/operation.ts';
import { publicOperation, type PublicOperation } from '../../domain/compute/public-operation.ts';
import { Refusal, regionNotFound, regionRetired, volumeNotFound } from '../../domain/kernel/refusal.ts';
import { publicVolume, refusalOfVolumeUse, type Volume, type VolumeSource } from '../../domain/storage/volume.ts';
import { promised, type VolumeType } from '../../domain/storage/disk.ts';
import { labelsText, withLabels, type Labels } from '../../domain/kernel/resource-labels.ts';
import { rateOfVolume } from '../../domain/money/meter.ts';
import { usageOfVolume } from '../../domain/access/quota.ts';
import { disksAmong } from '../../store/tables/disks.ts';
import { isUniqueViolation } from '../../store/db/errors.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { snapshotTextsOf } from '../../store/tables/snapshots.ts';
import type { Db } from '../../store/store.ts';
import { storedLabels, writeLabels } from '../../store/tables/labelled-rows.ts';
import { filteredVolumePage, type VolumeFilter, type VolumePages } from '../../store/tables/volume-pages.ts';
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
import type { FreeSpaceMonitor } from './free-space.ts';
import type { StorageCapabilities } from '../../storage/contract.ts';
import { meteredStorage, type MeteredDeps } from '../money/ports.ts';
import {
  idempotentWrite,
  requestReconcile,
  type Caller,
  type LongRunning,
  type Mutation,
  type Pager,
  type TextPage,
} from '../kernel/ports.ts';

export interface Volumes {
  create: LongRunning<
    { name: string; sizeGB: number; region: string; volumeType: VolumeType; labels?: Labels | undefined },
    { volumeText: string }
  >;
  list(caller: Caller, pager: Pager, filter?: VolumeFilter): Promise<TextPage<string>>;
  setLabels(caller: Caller, body: LabelledVolume): Promise<LabelledVolume>;
  get(caller: Caller, body: { id: string }): Promise<VolumeFacts>;
  /** Works while mounted. The current size is accepted and changes nothing. */
  expand: LongRunning<
    { id: string; sizeGB: number },
    { volumeText: string; sizeLimit: StorageCapabilities['sizeLimit'] }
  >;
  /** Takes effect at once. Instances keep showing the name from their launch. */
  rename: Mutation<{ id: string; name: string }, { volumeText: string }>;
  copy: LongRunning<CopyRequest, { volumeText: string }>;
  delete: LongRunning<{ id: string }, { id: string }>;
}

interface LabelledVolume {
  id: string;
  labels: Labels;
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

export interface VolumeDeps extends MeteredDeps {
  freeSpace: FreeSpaceMonitor;
  volumePages: VolumePages;
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
  if (reason !== null) throw new Refusal('not_now', `cannot ${action} volume ${volume.id}: ${reason}`);
}

export const makeVolumes = (deps: VolumeDeps): Volumes => {
  const { store, regions: regionDrivers, freeSpace, volumePages, readCatalog, randomUuid, time, metering } = deps;
  return {
    async create({ accountId, username }, { name, sizeGB, region, volumeType: type, labels = {} }, idempotency) {
      const { regions } = await readCatalog();
      return requestReconcile(deps, { subject: 'volume' }, accountId, idempotency, async (tx, nowMs) => {
        const found = regions.get(region);
        if (!found) throw regionNotFound(region);
        if (found.isRetired) throw regionRetired(found.region.name);
        const pool = poolForType(regionDrivers.of(region), type);
        freeSpace.refuseIfNearlyFull([pool]);
        const owner = { ownerId: userId(accountId), ownerName: username };
        const spec = { ...owner, name, regionId: regionId(region), type, sizeGB, source: null };
        const id = randomUuid();
        const { volumeText, operationId } = await createVolume(tx, deps, spec, { pool, uuid: id, nowMs });
        await writeLabels(tx, 'volume', { id, ownerId: accountId }, labels);
        await metering.describe(tx, { id, name });
        return { volumeText: withLabels(volumeText, labelsText(labels)), operationId };
      });
    },

    async list({ accountId }, { currentPage, pageSize: limit }, filter) {
      const offset = (currentPage - 1) * limit;
      return filter
        ? filteredVolumePage(store.read, accountId, filter, { offset, limit })
        : volumePages.page(store.read, accountId, offset, limit);
    },

    async setLabels({ accountId }, { id, labels }) {
      await store.write(async (tx) => {
        const volume = await lockVolume(tx, accountId, id);
        await writeLabels(tx, 'volume', volume, labels);
        const event = { accountId, atMs: time.now(), kind: 'volume.labelsSet', subjectId: id };
        await appendEvent(tx, { ...event, data: { labels } });
        await metering.describe(tx, volume);
      });
      return { id, labels };
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
          await metering.describe(tx, next);
        }
        return { volumeText: await publicText(tx, next) };
      });
      return renamed.catch((error: unknown) => {
        throw isUniqueViolation(error) ? volumeNameTaken() : error;
      });
    },

    copy: (caller, body, idempotency) =>
      requestReconcile(deps, { subject: 'volume' }, caller.accountId, idempotency, async (tx, nowMs) => {
        const volume = await lockVolume(tx, caller.accountId, body.id);
        refuseUnlessBound(volume, 'copy');
        return createCopy(tx, deps, caller, { ...volume, kind: 'volume' }, body, nowMs);
      }),

    delete: deleteVolume(deps),
  };
};

const publicText = async (db: Db, volume: Volume): Promise<string> =>
  withLabels(JSON.stringify(publicVolume(volume)), await storedLabels(db, volume.id));

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
      volumeText: await publicText(store.read, volume),
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
  ({ accountId }, { id, sizeGB }, idempotency) =>
    requestReconcile(deps, { subject: 'volume' }, accountId, idempotency, async (tx, nowMs) => {
      const { regions, freeSpace } = deps;
      const volume = await lockVolume(tx, accountId, id);
      refuseUnlessBound(volume, 'expand');
      if (sizeGB < volume.sizeGB)
        throw new Refusal(
          'field_value',
          `field "sizeGB" is ${sizeGB}, but volume ${id} has ${volume.sizeGB} GB, and a volume cannot shrink; create a volume of ${sizeGB} GB, and copy the files in an instance that mounts both`,
        );
      const drivers = regions.of(volume.regionId);
      const disk = await lockSourceDisk(tx, { kind: 'volume', id });
      const pool = poolNamed(drivers, disk.pool);
      const { sizeLimit } = pool.storage.capabilities();
      if (sizeGB === volume.sizeGB) {
        const volumeText = await publicText(tx, volume);
        return { volumeText, sizeLimit, operationId: operationId(id, volume.generation) };
      }
      freeSpace.refuseIfNearlyFull([pool]);
      if (await isCopySource(tx, disk))
        throw new Refusal(
          'not_now',
          `volume ${id} is being copied, and a copy keeps the size of its start; expand the volume when the copy has ended`,
          { retryAfterS: 10 },
        );
      const larger: Volume = {
        ...volume,
        sizeGB,
        generation: volume.generation + 1,
        operation: beginOperation('expandVolume', 'user', nowMs),
      };
      await writeVolumeDesiredState(tx, volume, larger, { listed: true, dueAtMs: nowMs });
      await allotMore(tx, pool, disk, promised(sizeGB), `the volume needs ${sizeGB - volume.sizeGB} GB more`);
      const data = { sizeGB, fromGB: volume.sizeGB };
      const usage = { before: usageOfVolume(volume), after: usageOfVolume(larger), mayRefuse: true };
      const event = { accountId, atMs: nowMs, kind: 'volume.expandWished', subjectId: id, data, usage };
      const rates = { before: rateOfVolume(volume), after: rateOfVolume(larger) };
      await deps.metering.appendEvent(tx, event, meteredStorage(larger), rates);
      const volumeText = await publicText(tx, larger);
      return { volumeText, sizeLimit, operationId: operationId(id, larger.generation) };
    });

const deleteVolume =
  (deps: VolumeDeps): Volumes['delete'] =>
  ({ accountId }, { id }, idempotency) =>
    requestReconcile(deps, { subject: 'volume' }, accountId, idempotency, async (tx, nowMs) => {
      const volume = await lockVolume(tx, accountId, id);
      const living = (await mountersOf(tx, id)).filter((mounter) => mounter.living);
      if (living.length > 0) {
        const names = living.map(({ instanceId }) => instanceId).join(', ');
        throw new Refusal('in_use', `volume ${id} is mounted by ${names}; terminate these instances first`);
      }
      const gone: Volume = {
        ...volume,
        status: 'Terminating',
        generation: volume.generation + 1,
        operation: beginOperation('deleteVolume', 'user', nowMs),
      };
      await writeVolumeDesiredState(tx, volume, gone, { listed: false, dueAtMs: nowMs });
      const event = {
        accountId,
        atMs: nowMs,
        kind: 'volume.deleted',
        subjectId: id,
        data: { name: volume.name },
        counts: { volumes: -1 },
        usage: { before: usageOfVolume(volume), after: {}, mayRefuse: false },
      };
      const rates = { before: rateOfVolume(volume), after: null };
      await deps.metering.appendEvent(tx, event, meteredStorage(gone), rates);
      return { id, operationId: operationId(id, gone.generation) };
    });
