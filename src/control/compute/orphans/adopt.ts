/**
 * Inserts a row for an orphaned container, with the ports and state that the engine reports.
 * While the account on the label exists, no other may adopt: the container mounts that one's disks.
 */
import { typeOfSpec } from '../../../domain/compute/instance-change.ts';
import { capacityOf, type Image, type InstanceType } from '../../../domain/regions/catalog.ts';
import type { StopPolicy } from '../../../domain/compute/stop-policy.ts';
import { imageId, instanceId, userId, type InstanceId } from '../../../domain/kernel/ids.ts';
import type { Instance, NodePort } from '../../../domain/compute/instance.ts';
import { endOperation } from '../../../domain/compute/operation.ts';
import { freeCapacity, capacityShortfall } from '../../../domain/regions/placement.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { hasRole } from '../../../domain/access/roles.ts';
import { orphanIdOf, type Orphan, type OrphanAction } from '../../../domain/compute/orphan.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { rateOfInstance } from '../../../domain/money/meter.ts';
import { usageOfInstance } from '../../../domain/access/quota.ts';
import type { Observation } from '../../../engines/contract.ts';
import { instanceIdOfContainer, isInstanceContainer, namesOfInstance } from '../../../engines/labels.ts';
import { accountById, accountByLogin, type AccountRow } from '../../../store/tables/accounts.ts';
import { adjustCapacity, reserveNodePortCapacity } from '../../../store/tables/capacity.ts';
import { regionWithUsage } from '../../../store/tables/catalog.ts';
import { lockOwnImageByRef, ownImageFromRow } from '../../../store/tables/images.ts';
import { setAct } from '../../../store/tables/due-acts.ts';
import { insertInstance, instanceRow, setFilesStale } from '../../../store/tables/instances.ts';
import { allotNodePort } from '../../../store/tables/ports.ts';
import type { Db } from '../../../store/store.ts';
import { orphanById, claimOrphan } from '../../../store/tables/orphans.ts';
import { newInstance, type LaunchDeps } from '../instances/launch.ts';
import { allotOwnDisks } from '../../storage/ports.ts';
import {
  rootDiskFacts,
  type CatalogSnapshot,
  type TaskDeps,
  type RegionDrivers,
  type Time,
  type Caller,
} from '../../kernel/ports.ts';
import { meteredInstance, type Metering } from '../../money/ports.ts';
import { imageOfSpec } from '../../regions/ports.ts';

export interface OrphanRequest {
  strayId: string;
  action: OrphanAction;
  username?: string | undefined;
  instanceTypeId?: string | undefined;
  name?: string | undefined;
}

export interface AdoptDeps
  extends
    Pick<TaskDeps, 'store' | 'regions' | 'time' | 'log' | 'changes'>,
    Pick<LaunchDeps, 'readCatalog' | 'metering' | 'notebookTokens' | 'firstStopPolicy'> {}

const CALL_DEADLINE_MS = 10_000;

type PresentContainer = Extract<Observation, { kind: 'present' }>;

interface Adoption {
  orphan: Orphan;
  owner: AccountRow;
  type: InstanceType;
  catalog: CatalogSnapshot;
  drivers: RegionDrivers;
  container: PresentContainer;
}

export function makeAdopt(deps: AdoptDeps) {
  return async (caller: Caller, request: OrphanRequest): Promise<InstanceId> => {
    const { store, time } = deps;
    const orphan = await orphanById(store.read, request.strayId);
    if (!orphan) throw await explainMissing(store.read, request.strayId);
    refuseUnadoptable(orphan);
    const catalog = await deps.readCatalog();
    const type = typeOf(catalog, orphan, request.instanceTypeId);
    const owner = await ownerOf(store.read, orphan, request.username, caller);
    const drivers = deps.regions.of(orphan.regionId);
    const id = instanceId(orphan.subjectId);
    const container = await observe(drivers, id, time);
    const known = container.running ? await tokenInside(drivers, id, time) : null;
    const notebookToken = deps.notebookTokens.seal(id, known ?? undefined);
    const adoption = { orphan, owner, type, catalog, drivers, container };
    const instance = adoptedInstance(adoption, request.name ?? id, deps.firstStopPolicy, time.now());
    await store.write((tx) => write(tx, deps.metering, adoption, instance, notebookToken));
    deps.log.info({ orphan: orphan.id, owner: owner.username, by: caller.username }, 'adopted an orphan');
    deps.changes.publish({ subject: 'instance', isDue: true });
    return id;
  };
}

function refuseUnadoptable(orphan: Orphan): void {
  if (orphan.kind !== 'instance')
    throw new Refusal(
      'unsupported',
      `${orphan.id} is an ${orphan.kind}; only an instance can be adopted. Ignore the orphan, or delete it`,
    );
  if (!isInstanceContainer({ kind: orphan.kind, id: orphan.subjectId, engineName: orphan.engineName })) {
    const text = `${orphan.id} does not have the name of an instance, so it cannot be adopted; copy the files that you need, and delete it`;
    throw new Refusal('unsupported', text);
  }
  if (orphan.handling === 'delete')
    throw new Refusal('not_now', `${orphan.id} is being deleted, which cannot be undone`);
}

function typeOf(catalog: CatalogSnapshot, orphan: Orphan, id: string | undefined): InstanceType {
  if (id === undefined) {
    const text =
      'field "instanceTypeId" is missing: an adopted instance needs a type for quota and billing; send an instance type';
    throw new Refusal('field_missing', text);
  }
  const type = catalog.types.get(id);
  if (type?.regionId === orphan.regionId) return type;
  const where = 'POST /api/resource/user/instance/list lists the available types';
  throw new Refusal('not_found', `instance type ${id} not found in region ${orphan.regionId}; ${where}`);
}

async function ownerOf(
  db: Db,
  orphan: Orphan,
  username: string | undefined,
  { roles }: Pick<Caller, 'roles'>,
): Promise<AccountRow> {
  const labeled = await accountById(db, orphan.ownerId);
  // Its root disk has the files of a person who cannot object.
  if (!labeled && !hasRole(roles, 'admin')) {
    const text = `the account on the label of ${orphan.id} is gone, so only an administrator can give the instance and its files to another; stop it, or ask an administrator`;
    throw new Refusal('forbidden', text);
  }
  const chosen = username === undefined ? labeled : await accountByLogin(db, username);
  if (!chosen) {
    if (username !== undefined)
      throw new Refusal('not_found', `account ${username} not found; create the account, or send another name`);
    const text = 'field "username" is missing: the account on the label of this instance is gone; send the new owner';
    throw new Refusal('field_missing', text);
  }
  if (labeled && labeled.id !== chosen.id) {
    const text = `field "username" is ${username}, but the instance belongs to ${labeled.username} and mounts disks of that account; leave "username" out`;
    throw new Refusal('field_value', text);
  }
  if (chosen.disabled === 1)
    throw new Refusal('not_now', `the account ${chosen.username} is disabled; enable it first`);
  return chosen;
}

async function observe({ engine }: RegionDrivers, id: InstanceId, time: Time): Promise<PresentContainer> {
  const container = (await engine.observe([id], time.deadline(CALL_DEADLINE_MS))).get(id);
  if (container?.kind === 'present') return container;
  if (container?.kind === 'absent')
    throw new Refusal('not_found', `instance ${id} is gone from the engine; there is nothing left to adopt`);
  const text = `the engine cannot report the state of instance ${id} now; try again later`;
  throw new Refusal('unavailable', text, { retryAfterS: 10, detail: container?.reason });
}

/** Reads the token of the running notebook: with a new one it would refuse the gateway. */
async function tokenInside({ engine }: RegionDrivers, id: InstanceId, time: Time): Promise<string | null> {
  try {
    const command = ['cat', '/etc/berth/notebook-token'];
    const { exitCode, stdout } = await engine.exec(id, command, time.deadline(CALL_DEADLINE_MS));
    return exitCode === 0 && /^[\w-]{20,200}\n?$/.test(stdout) ? stdout.trim() : null;
  } catch (error) {
    if (error instanceof EngineFault) return null;
    throw error;
  }
}

function adoptedInstance(adoption: Adoption, name: string, stopPolicy: StopPolicy, nowMs: number): Instance {
  const { orphan, owner, type: offered, catalog, drivers, container } = adoption;
  const { regionId, pricesMicros } = offered;
  const type = typeOfSpec(offered, drivers.health.probe?.devices);
  const id = instanceId(orphan.subjectId);
  const columns = {
    id,
    ownerId: userId(owner.id),
    ownerName: owner.username,
    spec: {
      name,
      regionId,
      image: imageOf(catalog, orphan.imageRef, type.cpuType),
      type,
      chargeMode: 'perHour' as const,
      duration: 1,
      autoRenew: false,
      resume: false,
      isSpot: type.isSpot,
      mounts: [],
      extraDataDiskGB: 0,
      enableCommonData: false,
      enableDocker: false,
      dockerStorageGB: 0,
      startCommand: '',
      runImageCommand: false,
      initScript: '',
      cpuOnlyPriceMicros: null,
    },
    priceMicros: pricesMicros.perHour,
    nodePorts: container.nodePorts.filter(({ nodePort }) => nodePort > 0),
    stopPolicy,
  };
  const launched = newInstance(columns, 'operator', nowMs);
  const isArchive = orphan.imageRef.startsWith(`${drivers.archivePrefix}/${id}:`);
  const adopted: Instance = {
    ...launched,
    createdAtMs: orphan.createdAtMs || nowMs,
    generation: Math.max(1, container.generation),
    everEnsured: true,
    rootDisk: rootDiskFacts(drivers).keepsRootDisk && container.startedAtMs > 0 ? 'kept' : 'none',
    archive: isArchive ? { ref: orphan.imageRef, sizeBytes: 0, generation: 0, replaces: [] } : null,
    observed: { ...launched.observed, status: 'Starting', phase: 'WaitReady' },
  };
  if (container.running) return adopted;
  return {
    ...adopted,
    desired: 'stopped',
    operation: endOperation(launched.operation, 'Succeeded', nowMs),
    observed: { ...launched.observed, status: 'Stopped', phase: 'Stopped', stoppedAtMs: nowMs },
  };
}

function imageOf(catalog: CatalogSnapshot, ref: string, architecture: string): Image {
  const offered = [...catalog.images.values()].find((image) => image.ref === ref);
  return offered ?? { id: imageId(''), name: ref, ref, architecture, isPublic: false, tags: [], type: '' };
}

/** Locks the owner's image of that reference, so that it can't be deleted meanwhile. */
async function withOwnImage(tx: Db, instance: Instance): Promise<Instance> {
  const { image } = instance.spec;
  const row = image.id === '' ? await lockOwnImageByRef(tx, instance.ownerId, image.ref) : undefined;
  if (!row) return instance;
  return { ...instance, spec: { ...instance.spec, image: imageOfSpec(ownImageFromRow(row)) } };
}

async function write(
  tx: Db,
  metering: Metering,
  { orphan, catalog, drivers }: Adoption,
  found: Instance,
  notebookToken: string,
): Promise<void> {
  const counted = catalog.regions.get(orphan.regionId);
  if (!counted) throw new Refusal('unavailable', `region ${orphan.regionId} is not configured on this server`);
  if (!(await claimOrphan(tx, orphan.id))) throw await explainMissing(tx, orphan.id);
  const instance = await withOwnImage(tx, found);
  const { type } = instance.spec;
  const ports = instance.nodePorts.length;
  const runs = instance.desired === 'running';
  await allotOwnDisks(tx, drivers, instance, { evenIfFull: true });
  await insertInstance(tx, instance, counted.region, {
    notebookToken,
    dueAtMs: instance.requestedAtMs,
    holdsCapacity: runs,
  });
  for (const one of instance.nodePorts) await takePort(tx, instance, one);
  // The account's ssh keys may have changed since the container was created.
  if (runs) await setFilesStale(tx, instance.id, true);
  const fits = runs
    ? await adjustCapacity(tx, orphan.regionId, capacityOf(type), 1, ports)
    : await reserveNodePortCapacity(tx, orphan.regionId, ports);
  if (!fits) throw await noCapacity(tx, instance);
  const event = {
    accountId: instance.ownerId,
    atMs: instance.requestedAtMs,
    kind: 'instance.adopted',
    subjectId: instance.id,
    data: { name: instance.spec.name, type: type.name, image: instance.spec.image.name },
    counts: { instances: 1 },
    usage: { before: {}, after: usageOfInstance(instance, runs), mayRefuse: false },
  };
  const rates = { before: null, after: rateOfInstance(instance) };
  const { isDisabled } = await metering.appendEvent(tx, event, meteredInstance(instance), rates);
  const { ownerId } = instance;
  if (isDisabled) await setAct(tx, { kind: 'disable', subjectId: ownerId, ownerId, dueAtMs: 0 });
}

/** The container uses its resources already; allocations must count them all the same. */
async function noCapacity(tx: Db, { spec: { regionId, type }, desired }: Instance): Promise<Refusal> {
  const counted = await regionWithUsage(tx, regionId);
  const short = desired === 'running' && counted ? capacityShortfall(capacityOf(type), freeCapacity(counted)) : '';
  const what = short === '' ? 'node ports' : short;
  const text = `the region has no capacity for another ${type.name}: short of ${what}; choose a smaller type, stop the orphan first, or terminate an instance`;
  return new Refusal('no_capacity', text);
}

async function takePort(tx: Db, { id, spec }: Instance, { port, nodePort }: NodePort): Promise<void> {
  if (await allotNodePort(tx, spec.regionId, nodePort, id, port)) return;
  const text = `node port ${nodePort} of the orphan now belongs to another instance, and a container cannot change its ports; terminate the other instance, or delete the orphan`;
  throw new Refusal('in_use', text);
}

async function explainMissing(db: Db, strayId: string): Promise<Refusal> {
  const orphan = await orphanById(db, strayId);
  if (orphan) return new Refusal('not_now', `${strayId} is being deleted, which cannot be undone`);
  const id = instanceIdOfContainer(strayId.slice(strayId.lastIndexOf('/') + 1));
  const row = id === null ? undefined : await instanceRow(db, id);
  const names = row === undefined || id === null ? [] : namesOfInstance(id);
  if (row && names.some((engineName) => orphanIdOf(row.regionId, { kind: 'instance', engineName }) === strayId))
    return new Refusal('not_now', `stray ${strayId} is already adopted, as instance ${row.id} of ${row.ownerName}`);
  return orphanNotFound(strayId);
}

export const orphanNotFound = (strayId: Orphan['id']): Refusal =>
  new Refusal(
    'not_found',
    `stray ${strayId} not found: it was adopted or deleted, or is gone from the engine; POST /api/admin/stray/list lists all strays`,
  );
