/** Changes a launched instance: name and labels at once, the rest at the next start or restart. */
import { capacityOf } from '../../../domain/regions/catalog.ts';
import {
  applyPending,
  heldPortCount,
  isSameMounts,
  isSamePorts,
  pendingOrNull,
  withSsh,
  typeOfSpec,
} from '../../../domain/compute/instance-change.ts';
import type { Instance, PendingChange } from '../../../domain/compute/instance.ts';
import { capacityShortfall, fits, nearestType } from '../../../domain/regions/placement.ts';
import { labelsText } from '../../../domain/kernel/resource-labels.ts';
import { publicChange } from '../../../domain/compute/public-instance.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { usageOfInstance } from '../../../domain/access/quota.ts';
import { releaseNodePortCapacity, reserveNodePortCapacity } from '../../../store/tables/capacity.ts';
import { retiredOf } from '../../../store/tables/catalog-rows.ts';
import { regionWithUsage, type RegionWithUsage } from '../../../store/tables/catalog.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import {
  instanceFromRow,
  lockInstance,
  makeDue,
  rewriteMounts,
  setFilesStale,
  writeRevision,
} from '../../../store/tables/instances.ts';
import { writeLabels } from '../../../store/tables/labelled-rows.ts';
import type { Db } from '../../../store/store.ts';
import type { Instances, UpdateInput } from './instances.ts';
import { refuseWithoutRuntime, typeNotFound } from './launch.ts';
import { mountsOf } from './request-mounts.ts';
import { refuseUnpayableType, type MeteredDeps } from '../../money/ports.ts';
import {
  type CatalogSnapshot,
  requestReconcile,
  refuseWithoutSaving,
  rootDiskFacts,
  type RegionDrivers,
  type Regions,
} from '../../kernel/ports.ts';
import { refuseOverHosts } from '../../regions/ports.ts';

export const makeUpdate =
  (deps: MeteredDeps): Instances['update'] =>
  async ({ accountId }, { instanceId, ...input }, idempotency) => {
    const catalog = await deps.readCatalog();
    const change = { subject: 'instance', id: instanceId } as const;
    return requestReconcile(deps, change, accountId, idempotency, async (tx, nowMs) => {
      const row = await lockInstance(tx, accountId, instanceId);
      if (!row) throw instanceNotFound();
      if (Object.values(input).every((value) => value === undefined))
        throw new Refusal(
          'field_missing',
          'field "name" is not set; or send "labels", "instanceTypeId", "remoteStorages", "nodePorts" or "startCommand"',
        );
      const counted = catalog.regions.get(row.regionId);
      if (!counted)
        throw new Refusal('unavailable', `region ${row.regionId} is not configured on this server; ask its operator`);
      const before = instanceFromRow(row);
      const current = (await regionWithUsage(tx, row.regionId)) ?? counted;
      const pending = await pendingOf(tx, before, input, { catalog, counted: current, regions: deps.regions });
      const { name = before.spec.name, startCommand = before.spec.startCommand } = input;
      if (startCommand.trim() !== '' && before.spec.runImageCommand)
        throw new Refusal(
          'field_value',
          'field "startCommand" must be empty: the instance runs the command of its image, without Berth\'s start script',
        );
      const next = { ...before, spec: { ...before.spec, name, startCommand }, pending };
      refuseIfUnsaveable(deps.regions.of(row.regionId), next);
      const pendingChanges = publicChange(pending);
      const hasOtherCommand = startCommand !== before.spec.startCommand;
      const appliesAt = pending === null && !hasOtherCommand ? ('now' as const) : ('nextStart' as const);
      const answer = { instanceId, appliesAt, pendingChanges };
      const isRenamed = next.spec.name !== before.spec.name;
      const labels = input.labels && labelsText(input.labels) !== row.labels ? input.labels : undefined;
      if (labels) await writeLabels(tx, 'instance', row, labels);
      if (!isRenamed && !labels && !hasOtherCommand && JSON.stringify(pending) === JSON.stringify(before.pending))
        return answer;
      await reservePorts(tx, before, next, counted);
      await writeRevision(tx, before, next, counted.region);
      await rewriteMounts(tx, next);
      if (isRenamed && next.desired === 'running') {
        await setFilesStale(tx, instanceId, true);
        await makeDue(tx, [instanceId], nowMs);
      }
      const data = { ...(isRenamed ? { name: next.spec.name } : {}), ...(labels ? { labels } : {}), pendingChanges };
      const holdsCapacity = row.holdsCapacity === 1;
      const usage = {
        before: usageOfInstance(before, holdsCapacity),
        after: usageOfInstance(next, holdsCapacity),
        mayRefuse: true,
      };
      const event = { accountId, atMs: nowMs, kind: 'instance.updated', subjectId: instanceId, data, usage };
      await appendEvent(tx, event);
      if (isRenamed || labels) await deps.metering.describe(tx, { id: instanceId, name: next.spec.name });
      if (pending?.resize && input.instanceTypeId !== undefined) {
        const { type, priceMicros } = pending.resize;
        const resized = { ...next, spec: { ...next.spec, type }, priceMicros: BigInt(priceMicros) };
        await refuseUnpayableType(tx, deps.metering, { instance: resized, nowMs });
      }
      return answer;
    });
  };

interface Context {
  catalog: CatalogSnapshot;
  counted: RegionWithUsage;
  regions: Regions;
}

/** The pending change after this request. A current value revokes what was pending. */
async function pendingOf(
  tx: Db,
  { ownerId, spec, nodePorts, pending: before }: Instance,
  input: UpdateInput,
  context: Context,
): Promise<PendingChange | null> {
  const { instanceTypeId, remoteStorages } = input;
  const pending: PendingChange = { ...before };
  if (instanceTypeId !== undefined) {
    delete pending.resize;
    if (instanceTypeId !== spec.type.id) {
      pending.resize = resizeTo(instanceTypeId, spec, context);
      if ((await retiredOf(tx, { typeId: instanceTypeId, imageId: '', regionId: '' })).length > 0)
        throw typeNotFound(instanceTypeId);
    }
  }
  if (remoteStorages !== undefined) {
    delete pending.mounts;
    const mounts = await mountsOf(tx, ownerId, { remoteStorages, region: spec.regionId });
    if (!isSameMounts(mounts, spec.mounts)) pending.mounts = mounts;
  }
  if (input.nodePorts !== undefined) {
    delete pending.ports;
    const ports = withSsh(input.nodePorts);
    const current = nodePorts.map(({ port }) => port);
    if (!isSamePorts(ports, current)) pending.ports = ports;
  }
  return pendingOrNull(pending);
}

function resizeTo(
  id: string,
  spec: Instance['spec'],
  { catalog, counted, regions }: Context,
): NonNullable<PendingChange['resize']> {
  const where = 'POST /api/resource/user/instance/list lists the available types';
  const offered = catalog.types.get(id);
  if (!offered) throw typeNotFound(id);
  const { region, total } = counted;
  if (offered.regionId !== region.id)
    throw new Refusal(
      'not_found',
      `instance type ${id} (${offered.name}) is not offered in region ${region.id}, where the instance is; ${where}`,
    );
  if (offered.isSpot !== spec.isSpot)
    throw new Refusal(
      'field_value',
      `field "instanceTypeId": ${offered.name} is ${offered.isSpot ? '' : 'not '}a spot type, and the instance is ${spec.isSpot ? '' : 'not '}one; choose a type of its family`,
    );
  refuseWithoutRuntime(offered, region, regions);
  const drivers = regions.of(region.id);
  refuseOverHosts(offered, { region, catalog, drivers });
  if (!fits(capacityOf(offered), total)) {
    const family = [...catalog.types.values()].filter(
      (type) => type.regionId === region.id && type.isSpot === spec.isSpot && type.id !== spec.type.id,
    );
    const nearest = nearestType(offered, family, total);
    const instead = nearest ? `${nearest.name} (${nearest.id}) would fit` : 'no other type would fit';
    throw new Refusal(
      'no_capacity',
      `instance type ${offered.name} never fits into region ${region.name}, which is short of ${capacityShortfall(capacityOf(offered), total)} even when empty; ${instead}`,
    );
  }
  const type = typeOfSpec(offered, drivers.health.probe?.devices);
  return { type, priceMicros: Number(offered.pricesMicros[spec.chargeMode]) };
}

/** The change would need the root disk saved as an image. */
function refuseIfUnsaveable(drivers: RegionDrivers, instance: Instance): void {
  const { cpuOnlyPriceMicros } = instance.spec;
  const applied = applyPending(instance, { cpuOnlyPriceMicros, ...rootDiskFacts(drivers) });
  if (instance.pending !== null && applied.oldContainer !== null) refuseWithoutSaving(drivers);
}

/** A start must not fail for want of a port: the larger number is held from the request on. */
async function reservePorts(
  tx: Db,
  before: Instance,
  next: Instance,
  { region: { id, name } }: RegionWithUsage,
): Promise<void> {
  const more = heldPortCount(next) - heldPortCount(before);
  if (more <= 0) return releaseNodePortCapacity(tx, id, -more);
  if (await reserveNodePortCapacity(tx, id, more)) return;
  throw new Refusal(
    'no_capacity',
    `region ${name} has too few free node ports for ${more} more; request fewer ports, or terminate an instance`,
  );
}
