/**
 * Adopts a container of ours that no intent explains: writes the intent, so that it is an instance as any other from then on. It is
 * the one use-case that looks at the engine: the ports that the container has and whether it runs must be true when they are written.
 *
 * What it has mounted, and the network it is in, are those it was made with, for as long as its container lives. So nobody but the
 * account on its label may have it while there is such an account: another would get at that one's disks.
 */
import { capacityOf, type Image, type InstanceType } from '../domain/catalog.ts';
import type { Ends } from '../domain/ends.ts';
import { imageId, instanceId, userId, type InstanceId } from '../domain/ids.ts';
import type { Instance, NodePort } from '../domain/instance.ts';
import { noUsage } from '../domain/disk.ts';
import { beginOperation, endOperation } from '../domain/operation.ts';
import { freeOf, whatIsShort } from '../domain/placement.ts';
import { Refusal } from '../domain/refusal.ts';
import { strayIdOf, type Stray } from '../domain/stray.ts';
import { EngineFault } from '../domain/engine-fault.ts';
import type { Observation } from '../engines/contract.ts';
import { containerName, idOfContainer, isContainer } from '../engines/labels.ts';
import { accountById, accountByLogin, type AccountRow } from '../store/accounts.ts';
import { appendEvent } from '../store/events.ts';
import { countCapacity, countNodePorts } from '../store/capacity.ts';
import { countedRegion } from '../store/catalog.ts';
import { holdOwnImageCalled, ownImageFromRow } from '../store/images.ts';
import { insertInstance, instanceRow, markFiles } from '../store/instances.ts';
import { takeNodePort } from '../store/node-ports.ts';
import type { Db, Store } from '../store/store.ts';
import { strayById, takeStray } from '../store/strays.ts';
import type { Caller, StrayWish } from './control.ts';
import type { Log } from './log.ts';
import { takeOwnDisks } from './disks.ts';
import type { Offers } from './offers.ts';
import type { RegionHands, Regions } from './regions.ts';
import type { Time } from './time.ts';

export interface AdoptNeeds {
  store: Store;
  offers: () => Promise<Offers>;
  regions: Regions;
  time: Time;
  log: Log;
  /** 32 random bytes as text. */
  randomSecret: () => string;
  /** What a new instance is ended by. */
  firstEnds: Ends;
  /** Wakes the loop of instances. */
  wake: () => void;
}

const LOOK_DEADLINE_MS = 10_000;

type Seen = Extract<Observation, { kind: 'present' }>;

export function makeAdopt(needs: AdoptNeeds) {
  return async (caller: Caller, wish: StrayWish): Promise<InstanceId> => {
    const { store, regions, time } = needs;
    const stray = await strayById(store.read, wish.strayId);
    if (!stray) throw await whyNone(store.read, wish.strayId);
    refuseUnfit(stray);
    const offers = await needs.offers();
    const type = typeOf(offers, stray, wish.instanceTypeId);
    const owner = await ownerOf(store.read, stray, wish.username);
    const hands = regions.of(stray.regionId);
    const id = instanceId(stray.subjectId);
    const seen = await look(hands, id, time);
    const notebookToken = (seen.running ? await tokenInside(hands, id, time) : null) ?? needs.randomSecret();
    const { firstEnds } = needs;
    const instance = intent({ wish, stray, owner, type, seen, offers, hands, firstEnds, nowMs: time.now() });
    await store.write((tx) => write(tx, { stray, instance, offers, hands, notebookToken }));
    needs.log.info({ stray: stray.id, owner: owner.username, by: caller.username }, 'a stray was adopted');
    needs.wake();
    return id;
  };
}

function refuseUnfit(stray: Stray): void {
  if (stray.kind !== 'instance')
    throw new Refusal(
      'unsupported',
      `${stray.id} is an ${stray.kind}; only an instance can be adopted. Leave it, or delete it`,
    );
  if (!isContainer({ kind: stray.kind, id: stray.subjectId, engineName: stray.engineName })) {
    const text = `${stray.id} has a name that no instance has, so it can not be adopted; take out what is of use, and delete it`;
    throw new Refusal('unsupported', text);
  }
  if (stray.handling === 'delete')
    throw new Refusal('not_now', `${stray.id} is being deleted; nothing can bring it back`);
}

function typeOf(offers: Offers, stray: Stray, id: string | undefined): InstanceType {
  if (id === undefined) {
    const text = 'field "instanceTypeId" is missing: an adopted instance is counted and billed as a type; name one';
    throw new Refusal('field_missing', text);
  }
  const type = offers.types.get(id);
  if (type?.regionId === stray.regionId) return type;
  const where = 'POST /api/resource/user/instance/list names those on offer';
  throw new Refusal('not_found', `instance type ${id} not found in region ${stray.regionId}; ${where}`);
}

async function ownerOf(db: Db, stray: Stray, username: string | undefined): Promise<AccountRow> {
  const labelled = await accountById(db, stray.ownerId);
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

async function look({ engine }: RegionHands, id: InstanceId, time: Time): Promise<Seen> {
  const seen = (await engine.observe([id], time.deadline(LOOK_DEADLINE_MS))).get(id);
  if (seen?.kind === 'present') return seen;
  if (seen?.kind === 'absent')
    throw new Refusal('not_found', `instance ${id} is gone from the engine; there is nothing left to adopt`);
  const text = `the engine can't tell now how instance ${id} is; try again when it answers`;
  throw new Refusal('unavailable', text, { retryAfterS: 10, detail: seen?.reason });
}

/** The secret that its notebook knows: with another one the gateway would be refused until the next start. */
async function tokenInside({ engine }: RegionHands, id: InstanceId, time: Time): Promise<string | null> {
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
  wish: StrayWish;
  stray: Stray;
  owner: AccountRow;
  type: InstanceType;
  seen: Seen;
  offers: Offers;
  hands: RegionHands;
  firstEnds: Ends;
  nowMs: number;
}

/** A running one is Running as soon as its software answers, like any other; one that stands still is Stopped. */
function intent({ wish, stray, owner, type: offered, seen, offers, hands, firstEnds, nowMs }: Adopted): Instance {
  const id = instanceId(stray.subjectId);
  const { regionId, pricesMicros, ...type } = offered;
  const launched = beginOperation('launch', 'operator', nowMs);
  const isArchive = stray.imageRef.startsWith(`${hands.archivePrefix}/${id}:`);
  return {
    id,
    ownerId: userId(owner.id),
    ownerName: owner.username,
    createdAtMs: stray.createdAtMs || nowMs,
    spec: {
      name: wish.name ?? id,
      regionId,
      image: imageOf(offers, stray.imageRef, type.cpuType),
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
    wishedAtMs: nowMs,
    initExit: null,
    waitsSinceMs: null,
    waitsUntilMs: null,
    ends: firstEnds,
    archive: isArchive ? { ref: stray.imageRef, sizeBytes: 0, generation: 0, replaces: [] } : null,
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
function imageOf(offers: Offers, ref: string, architecture: string): Image {
  const offered = [...offers.images.values()].find((image) => image.ref === ref);
  return offered ?? { id: imageId(''), name: ref, ref, architecture, isPublic: false, tags: [], type: '' };
}

/** One that its owner saved or named must not be deleted under it. */
async function withOwnImage(tx: Db, instance: Instance): Promise<Instance> {
  const { image } = instance.spec;
  const row = image.id === '' ? await holdOwnImageCalled(tx, instance.ownerId, image.ref) : undefined;
  if (!row) return instance;
  const { id, name, ref, architecture, isPublic, tags, type } = ownImageFromRow(row);
  return { ...instance, spec: { ...instance.spec, image: { id, name, ref, architecture, isPublic, tags, type } } };
}

async function write(
  tx: Db,
  {
    stray,
    instance: found,
    offers,
    hands,
    notebookToken,
  }: { stray: Stray; instance: Instance; offers: Offers; hands: RegionHands; notebookToken: string },
): Promise<void> {
  const counted = offers.regions.get(stray.regionId);
  if (!counted) throw new Refusal('unavailable', `region ${stray.regionId} is not configured on this server`);
  if (!(await takeStray(tx, stray.id))) throw await whyNone(tx, stray.id);
  const instance = await withOwnImage(tx, found);
  const { type } = instance.spec;
  const ports = instance.nodePorts.length;
  const runs = instance.desired === 'running';
  await takeOwnDisks(tx, hands, instance, { evenIfFull: true });
  await insertInstance(tx, instance, counted.region, {
    notebookToken,
    dueAtMs: instance.wishedAtMs,
    holdsCapacity: runs,
  });
  for (const one of instance.nodePorts) await takePort(tx, instance, one);
  // The account's keys may be others than those it was made with.
  if (runs) await markFiles(tx, instance.id, true);
  const fits = runs
    ? await countCapacity(tx, stray.regionId, type, 1, ports)
    : await countNodePorts(tx, stray.regionId, ports);
  if (!fits) throw await noRoom(tx, instance);
  await appendEvent(tx, {
    accountId: instance.ownerId,
    atMs: instance.wishedAtMs,
    kind: 'instance.adopted',
    subjectId: instance.id,
    data: { name: instance.spec.name, type: type.name, image: instance.spec.image.name },
    counts: { instances: 1 },
  });
}

/** It uses what it uses already, and is counted all the same: what is promised must be true. */
async function noRoom(tx: Db, { spec: { regionId, type }, desired }: Instance): Promise<Refusal> {
  const counted = await countedRegion(tx, regionId);
  const short = desired === 'running' && counted ? whatIsShort(capacityOf(type), freeOf(counted)) : '';
  const what = short === '' ? 'node ports' : short;
  const text = `the region has no room for one more ${type.name}: short of ${what}; name a smaller type, stop it first, or terminate an instance`;
  return new Refusal('no_capacity', text);
}

async function takePort(tx: Db, { id, spec }: Instance, { port, nodePort }: NodePort): Promise<void> {
  if (await takeNodePort(tx, spec.regionId, nodePort, id, port)) return;
  const text = `its node port ${nodePort} is another instance's now, and a container can not change its ports; terminate that one, or delete this`;
  throw new Refusal('in_use', text);
}

/** Whoever comes second is told what the first one did. */
async function whyNone(db: Db, strayId: string): Promise<Refusal> {
  const stray = await strayById(db, strayId);
  if (stray) return new Refusal('not_now', `${strayId} is being deleted; nothing can bring it back`);
  const id = idOfContainer(strayId.slice(strayId.lastIndexOf('/') + 1));
  const row = id === null ? undefined : await instanceRow(db, id);
  const engineName = containerName(instanceId(row?.id ?? ''));
  if (row && strayIdOf(row.regionId, { kind: 'instance', engineName }) === strayId)
    return new Refusal('not_now', `it was adopted already: instance ${row.id} of ${row.ownerName}`);
  return noStray(strayId);
}

export const noStray = (strayId: Stray['id']): Refusal =>
  new Refusal(
    'not_found',
    `stray ${strayId} not found: it was adopted or deleted, or the engine has it no more; POST /admin/stray/list tells those that are there`,
  );
