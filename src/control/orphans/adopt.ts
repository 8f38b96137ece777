/**
 * Adopts a container of ours that no intent explains: writes the intent, so that it is an instance as any other from then on. It is
 * the one use-case that looks at the engine: the ports that the container has and whether it runs must be true when they are written.
 *
 * What it has mounted, and the network it is in, are those it was made with, for as long as its container lives. So nobody but the
 * account on its label may have it while there is such an account: another would get at that one's disks.
 */
import { capacityOf, type Image, type InstanceType } from '../../domain/catalog.ts';
import type { StopPolicy } from '../../domain/stop-policy.ts';
import { imageId, instanceId, userId, type InstanceId } from '../../domain/ids.ts';
import type { Instance, NodePort } from '../../domain/instance.ts';
import { noUsage } from '../../domain/disk.ts';
import { beginOperation, endOperation } from '../../domain/operation.ts';
import { freeCapacity, capacityShortfall } from '../../domain/placement.ts';
import { Refusal } from '../../domain/refusal.ts';
import { orphanIdOf, type Orphan } from '../../domain/orphan.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { Observation } from '../../engines/contract.ts';
import { containerName, instanceIdOfContainer, isInstanceContainer } from '../../engines/labels.ts';
import { accountById, accountByLogin, type AccountRow } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { adjustCapacity, reserveNodePortCapacity } from '../../store/tables/capacity.ts';
import { regionWithUsage } from '../../store/tables/catalog.ts';
import { lockOwnImageByRef, ownImageFromRow } from '../../store/tables/images.ts';
import { insertInstance, instanceRow, setFilesStale } from '../../store/tables/instances.ts';
import { allotNodePort } from '../../store/tables/node-ports.ts';
import type { Db, Store } from '../../store/store.ts';
import { orphanById, claimOrphan } from '../../store/tables/orphans.ts';
import type { Log } from '../base/log.ts';
import { allotOwnDisks } from '../volumes/disks.ts';
import type { CatalogSnapshot } from '../base/catalog-cache.ts';
import type { RegionDrivers, Regions } from '../base/regions.ts';
import type { Time } from '../base/time.ts';
import type { Caller } from '../base/caller.ts';

export interface OrphanRequest {
  strayId: string;
  action: 'adopt' | 'stop' | 'delete';
  /** To adopt what was made for an account that is gone. */
  username?: string | undefined;
  /** To adopt: the type that it is counted and billed as. */
  instanceTypeId?: string | undefined;
  name?: string | undefined;
}

export interface AdoptDeps {
  store: Store;
  readCatalog: () => Promise<CatalogSnapshot>;
  regions: Regions;
  time: Time;
  log: Log;
  /** 32 random bytes as text. */
  randomSecret: () => string;
  /** What a new instance is ended by. */
  firstEnds: StopPolicy;
  /** Wakes the loop of instances. */
  wake: () => void;
}

const LOOK_DEADLINE_MS = 10_000;

type Seen = Extract<Observation, { kind: 'present' }>;

export function makeAdopt(deps: AdoptDeps) {
  return async (caller: Caller, wish: OrphanRequest): Promise<InstanceId> => {
    const { store, regions, time } = deps;
    const orphan = await orphanById(store.read, wish.strayId);
    if (!orphan) throw await whyNone(store.read, wish.strayId);
    refuseUnfit(orphan);
    const catalog = await deps.readCatalog();
    const type = typeOf(catalog, orphan, wish.instanceTypeId);
    const owner = await ownerOf(store.read, orphan, wish.username);
    const drivers = regions.of(orphan.regionId);
    const id = instanceId(orphan.subjectId);
    const seen = await look(drivers, id, time);
    const notebookToken = (seen.running ? await tokenInside(drivers, id, time) : null) ?? deps.randomSecret();
    const { firstEnds } = deps;
    const instance = intent({ wish, orphan, owner, type, seen, catalog, drivers, firstEnds, nowMs: time.now() });
    await store.write((tx) => write(tx, { orphan, instance, catalog, drivers, notebookToken }));
    deps.log.info({ orphan: orphan.id, owner: owner.username, by: caller.username }, 'a stray was adopted');
    deps.wake();
    return id;
  };
}

function refuseUnfit(orphan: Orphan): void {
  if (orphan.kind !== 'instance')
    throw new Refusal(
      'unsupported',
      `${orphan.id} is an ${orphan.kind}; only an instance can be adopted. Leave it, or delete it`,
    );
  if (!isInstanceContainer({ kind: orphan.kind, id: orphan.subjectId, engineName: orphan.engineName })) {
    const text = `${orphan.id} has a name that no instance has, so it can not be adopted; take out what is of use, and delete it`;
    throw new Refusal('unsupported', text);
  }
  if (orphan.handling === 'delete')
    throw new Refusal('not_now', `${orphan.id} is being deleted; nothing can bring it back`);
}

function typeOf(catalog: CatalogSnapshot, orphan: Orphan, id: string | undefined): InstanceType {
  if (id === undefined) {
    const text = 'field "instanceTypeId" is missing: an adopted instance is counted and billed as a type; name one';
    throw new Refusal('field_missing', text);
  }
  const type = catalog.types.get(id);
  if (type?.regionId === orphan.regionId) return type;
  const where = 'POST /api/resource/user/instance/list names those on offer';
  throw new Refusal('not_found', `instance type ${id} not found in region ${orphan.regionId}; ${where}`);
}

async function ownerOf(db: Db, orphan: Orphan, username: string | undefined): Promise<AccountRow> {
  const labelled = await accountById(db, orphan.ownerId);
  const named = username === undefined ? labelled : await accountByLogin(db, username);
  if (!named) {
    if (username !== undefined)
      throw new Refusal('not_found', `no account is called ${username}; create it, or name another`);
    const text =
      'field "username" is missing: the account on the label of this instance is gone; name who is to have it';
    throw new Refusal('field_missing', text);
  }
  if (labelled && labelled.id !== named.id) {
    const text = `field "username" is ${username}, but the instance is ${labelled.username}'s, whose disks it has mounted; leave "username" out`;
    throw new Refusal('field_value', text);
  }
  if (named.disabled === 1) throw new Refusal('not_now', `the account ${named.username} is disabled; enable it first`);
  return named;
}

async function look({ engine }: RegionDrivers, id: InstanceId, time: Time): Promise<Seen> {
  const seen = (await engine.observe([id], time.deadline(LOOK_DEADLINE_MS))).get(id);
  if (seen?.kind === 'present') return seen;
  if (seen?.kind === 'absent')
    throw new Refusal('not_found', `instance ${id} is gone from the engine; there is nothing left to adopt`);
  const text = `the engine can't tell now how instance ${id} is; try again when it answers`;
  throw new Refusal('unavailable', text, { retryAfterS: 10, detail: seen?.reason });
}

/** The secret that its notebook knows: with another one the gateway would be refused until the next start. */
async function tokenInside({ engine }: RegionDrivers, id: InstanceId, time: Time): Promise<string | null> {
  try {
    const command = ['cat', '/etc/berth/notebook-token'];
    const { exitCode, stdout } = await engine.exec(id, command, time.deadline(LOOK_DEADLINE_MS));
    return exitCode === 0 && /^[\w-]{20,200}\n?$/.test(stdout) ? stdout.trim() : null;
  } catch (error) {
    if (error instanceof EngineFault) return null;
    throw error;
  }
}

interface Adopted {
  wish: OrphanRequest;
  orphan: Orphan;
  owner: AccountRow;
  type: InstanceType;
  seen: Seen;
  catalog: CatalogSnapshot;
  drivers: RegionDrivers;
  firstEnds: StopPolicy;
  nowMs: number;
}

/** A running one is Running as soon as its software answers, like any other; one that stands still is Stopped. */
function intent({ wish, orphan, owner, type: offered, seen, catalog, drivers, firstEnds, nowMs }: Adopted): Instance {
  const id = instanceId(orphan.subjectId);
  const { regionId, pricesMicros, ...type } = offered;
  const launched = beginOperation('launch', 'operator', nowMs);
  const isArchive = orphan.imageRef.startsWith(`${drivers.archivePrefix}/${id}:`);
  return {
    id,
    ownerId: userId(owner.id),
    ownerName: owner.username,
    createdAtMs: orphan.createdAtMs || nowMs,
    spec: {
      name: wish.name ?? id,
      regionId,
      image: imageOf(catalog, orphan.imageRef, type.cpuType),
      type,
      chargeMode: 'perHour',
      duration: 1,
      isSpot: type.isSpot,
      mounts: [],
      extraDataDiskGB: 0,
      enableCommonData: false,
      enableDocker: false,
      dockerStorageGB: 0,
      initScript: '',
    },
    priceMicros: pricesMicros.perHour,
    nodePorts: seen.nodePorts.filter(({ nodePort }) => nodePort > 0),
    desired: seen.running ? 'running' : 'stopped',
    generation: Math.max(1, seen.generation),
    mustHalt: false,
    everEnsured: true,
    filesStale: false,
    attempts: 0,
    requestedAtMs: nowMs,
    initExit: null,
    waitsSinceMs: null,
    waitsUntilMs: null,
    stopPolicy: firstEnds,
    archive: isArchive ? { ref: orphan.imageRef, sizeBytes: 0, generation: 0, replaces: [] } : null,
    unfinished: [],
    diskUsage: noUsage,
    operation: seen.running ? launched : endOperation(launched, 'Succeeded', nowMs),
    observed: {
      status: seen.running ? 'Starting' : 'Stopped',
      phase: seen.running ? 'WaitReady' : 'Stopped',
      diagnosis: '',
      diagnosisMessage: '',
      message: '',
      healthy: false,
      stoppedAtMs: seen.running ? 0 : nowMs,
      runningSinceMs: 0,
      countedFromMs: 0,
      progress: null,
      answersBy: 'ssh',
      sshFront: false,
    },
  };
}

/** The image on offer under that name, else one that is known by its name alone: its owner's (`withOwnImage`), or nobody's. */
function imageOf(catalog: CatalogSnapshot, ref: string, architecture: string): Image {
  const offered = [...catalog.images.values()].find((image) => image.ref === ref);
  return offered ?? { id: imageId(''), name: ref, ref, architecture, isPublic: false, tags: [], type: '' };
}

/** One that its owner saved or named must not be deleted under it. */
async function withOwnImage(tx: Db, instance: Instance): Promise<Instance> {
  const { image } = instance.spec;
  const row = image.id === '' ? await lockOwnImageByRef(tx, instance.ownerId, image.ref) : undefined;
  if (!row) return instance;
  const { id, name, ref, architecture, isPublic, tags, type } = ownImageFromRow(row);
  return { ...instance, spec: { ...instance.spec, image: { id, name, ref, architecture, isPublic, tags, type } } };
}

async function write(
  tx: Db,
  {
    orphan,
    instance: found,
    catalog,
    drivers,
    notebookToken,
  }: { orphan: Orphan; instance: Instance; catalog: CatalogSnapshot; drivers: RegionDrivers; notebookToken: string },
): Promise<void> {
  const counted = catalog.regions.get(orphan.regionId);
  if (!counted) throw new Refusal('unavailable', `region ${orphan.regionId} is not configured on this server`);
  if (!(await claimOrphan(tx, orphan.id))) throw await whyNone(tx, orphan.id);
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
  // The account's keys may be others than those it was made with.
  if (runs) await setFilesStale(tx, instance.id, true);
  const fits = runs
    ? await adjustCapacity(tx, orphan.regionId, type, 1, ports)
    : await reserveNodePortCapacity(tx, orphan.regionId, ports);
  if (!fits) throw await noRoom(tx, instance);
  await appendEvent(tx, {
    accountId: instance.ownerId,
    atMs: instance.requestedAtMs,
    kind: 'instance.adopted',
    subjectId: instance.id,
    data: { name: instance.spec.name, type: type.name, image: instance.spec.image.name },
    counts: { instances: 1 },
  });
}

/** It uses what it uses already, and is counted all the same: what is promised must be true. */
async function noRoom(tx: Db, { spec: { regionId, type }, desired }: Instance): Promise<Refusal> {
  const counted = await regionWithUsage(tx, regionId);
  const short = desired === 'running' && counted ? capacityShortfall(capacityOf(type), freeCapacity(counted)) : '';
  const what = short === '' ? 'node ports' : short;
  const text = `the region has no room for one more ${type.name}: short of ${what}; name a smaller type, stop it first, or terminate an instance`;
  return new Refusal('no_capacity', text);
}

async function takePort(tx: Db, { id, spec }: Instance, { port, nodePort }: NodePort): Promise<void> {
  if (await allotNodePort(tx, spec.regionId, nodePort, id, port)) return;
  const text = `its node port ${nodePort} is another instance's now, and a container can not change its ports; terminate that one, or delete this`;
  throw new Refusal('in_use', text);
}

/** Whoever comes second is told what the first one did. */
async function whyNone(db: Db, strayId: string): Promise<Refusal> {
  const orphan = await orphanById(db, strayId);
  if (orphan) return new Refusal('not_now', `${strayId} is being deleted; nothing can bring it back`);
  const id = instanceIdOfContainer(strayId.slice(strayId.lastIndexOf('/') + 1));
  const row = id === null ? undefined : await instanceRow(db, id);
  const engineName = containerName(instanceId(row?.id ?? ''));
  if (row && orphanIdOf(row.regionId, { kind: 'instance', engineName }) === strayId)
    return new Refusal('not_now', `it was adopted already: instance ${row.id} of ${row.ownerName}`);
  return orphanNotFound(strayId);
}

export const orphanNotFound = (strayId: Orphan['id']): Refusal =>
  new Refusal(
    'not_found',
    `stray ${strayId} not found: it was adopted or deleted, or the engine has it no more; POST /admin/stray/list tells those that are there`,
  );
