/** Reserves space for larger disks of an instance and writes their size, for the reconciler. */
import type { CountedSize, DiskId } from '../../../domain/storage/disk.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import { ownDisks } from '../../../domain/compute/instance-disks.ts';
import {
  applyExpansion,
  refusalOfExpansion,
  refusalOfSizes,
  type DiskSizes,
} from '../../../domain/compute/desired-state.ts';
import { operationId } from '../../../domain/compute/operation.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { volumeTypeOfDisk } from '../../../domain/storage/pool.ts';
import { rateOfInstance } from '../../../domain/money/meter.ts';
import { usageOfInstance } from '../../../domain/access/quota.ts';
import { lockDisk } from '../../../store/tables/disks.ts';
import { lockInstance, instanceFromRow, writeDesiredState } from '../../../store/tables/instances.ts';
import type { Db } from '../../../store/store.ts';
import type { Instances } from './instances.ts';
import { poolNamed, poolForType, allotMore, type FreeSpaceMonitor } from '../../storage/ports.ts';
import { requestReconcile, type RegionDrivers } from '../../kernel/ports.ts';
import { meteredInstance, type MeteredDeps } from '../../money/ports.ts';

export const makeExpandDisk =
  (deps: MeteredDeps & { freeSpace: FreeSpaceMonitor }): Instances['expandDisk'] =>
  async ({ accountId }, { instanceId, ...sizes }, idempotency) => {
    const { regions } = await deps.readCatalog();
    return requestReconcile(deps, { subject: 'instance' }, accountId, idempotency, async (tx, nowMs) => {
      const row = await lockInstance(tx, accountId, instanceId);
      if (!row) throw instanceNotFound();
      const before = instanceFromRow(row);
      refuseExpansion(before, sizes);
      const drivers = deps.regions.of(row.regionId);
      const counted = regions.get(row.regionId);
      if (!counted)
        throw new Refusal('unavailable', `region ${row.regionId} is not configured on this server; ask its operator`);
      deps.freeSpace.refuseIfNearlyFull([poolForType(drivers, volumeTypeOfDisk('data'))]);
      const next = applyExpansion(before, sizes, nowMs);
      const more = { dueAtMs: nowMs, holdsCapacity: row.holdsCapacity === 1, releasedAtMs: null };
      await writeDesiredState(tx, before, next, counted.region, more);
      for (const disk of ownDisks(next, drivers.sharedDiskGB))
        if (isRequested(sizes, disk)) await growDisk(tx, drivers, disk);
      const kind = 'instance.expandWished';
      const usage = {
        before: usageOfInstance(before, more.holdsCapacity),
        after: usageOfInstance(next, more.holdsCapacity),
        mayRefuse: true,
      };
      const event = { accountId, atMs: nowMs, kind, subjectId: instanceId, data: sizes, usage };
      const rates = { before: rateOfInstance(before), after: rateOfInstance(next) };
      await deps.metering.appendEvent(tx, event, meteredInstance(next), rates);
      return { instanceId, operationId: operationId(instanceId, next.generation) };
    });
  };

function refuseExpansion(instance: Instance, sizes: DiskSizes): void {
  if (sizes.dataDiskGB === undefined && sizes.dockerStorageGB === undefined)
    throw new Refusal('field_missing', 'field "dataDiskGB" is not set; or send "dockerStorageSize"');
  const illegal = refusalOfExpansion(instance);
  if (illegal !== null) throw new Refusal('not_now', `cannot expand the disks: ${illegal}`);
  const wrong = refusalOfSizes(instance, sizes);
  if (wrong !== null) throw new Refusal('field_value', wrong);
}

const isRequested = ({ dataDiskGB, dockerStorageGB }: DiskSizes, { kind }: DiskId): boolean =>
  (kind === 'data' && dataDiskGB !== undefined) || (kind === 'docker' && dockerStorageGB !== undefined);

async function growDisk(tx: Db, drivers: RegionDrivers, size: DiskId & CountedSize): Promise<void> {
  const { kind, sizeGB } = size;
  const disk = await lockDisk(tx, size);
  if (!disk) throw new Refusal('not_now', `the ${kind} disk does not exist yet; start the instance first`);
  const what = `a ${kind} disk of ${sizeGB} GB needs ${sizeGB - disk.sizeGB} GB more`;
  await allotMore(tx, poolNamed(drivers, disk.pool), disk, size, what);
}
