import type { Caller, Control } from '../../src/control/index.ts';
import type { LaunchInput, UpdateInput } from '../../src/control/compute/instances/instances.ts';
import { refusalOfAction, type Action } from '../../src/domain/compute/instance-states.ts';
import type { Request } from './client.ts';
import { cancel, change, deleteImage, keepAlive, ownImages, saveImage, setStopPolicy } from './instance-requests.ts';
import { drawCharge, drawMoneyRequest, type ChargeChoice } from './money-requests.ts';
import type { SimulatedRegion } from './simulated-region.ts';
import { callers, images, typesOf } from './template.ts';
import { drawFromRegistry, registeredImages } from './registry-requests.ts';
import {
  copyVolume,
  createSnapshot,
  deleteSnapshot,
  deleteVolume,
  expandVolume,
  renameVolume,
} from './storage-requests.ts';
import { handleOrphan } from './orphan-requests.ts';
import type { World } from './world.ts';

const initScripts = [
  '',
  '',
  '',
  '#!/bin/sh\n# berth-sim: exit 3 after 400ms\n',
  '#!/bin/sh\n# berth-sim: exit 0 after 40s\n',
  '#!/bin/sh\n# berth-sim: crash after 2s exit 1\n',
  '#!/bin/sh\n# berth-sim: crash once after 30s out of memory\n',
  '#!/bin/sh\n# berth-sim: never ready\n',
  '#!/bin/sh\n# berth-sim: ready after 20s\n',
  '#!/bin/sh\n# berth-sim: ignore TERM\n',
];

export interface LaunchChoice {
  /** Default: the first. */
  region?: SimulatedRegion;
  type?: number;
  image?: number;
  ports?: number[];
  initScript?: string;
  volumes?: string[];
  waitMs?: number | null;
  /** The caller's own image, instead of the catalog. */
  ownImage?: string | undefined;
  /** Default: perHour at full price. */
  charge?: ChargeChoice;
}

type Draw = (world: World, caller: Caller) => Request | null;

function firstOf({ regions: [first] }: World): SimulatedRegion {
  if (!first) throw new Error('a world has a region');
  return first;
}

const serials = new WeakMap<World, number>();
export const serialOf = (world: World): number => {
  const serial = (serials.get(world) ?? 0) + 1;
  serials.set(world, serial);
  return serial;
};

const keyOf = (world: World): string | null => (world.schedule.chance(0.5) ? `k${serialOf(world)}` : null);
const hasText = (answer: unknown, name: string): answer is Record<string, string> =>
  typeof answer === 'object' && answer !== null && name in answer;

const mountOf = (remoteStorageId: string, at: number) => ({
  mountPath: `/root/v${at}`,
  remoteStorageName: 'v',
  remoteStorageId,
  type: 'filesystem',
});

export function launch(world: World, caller: Caller, key: string | null, choice: LaunchChoice): Request {
  const { model } = world;
  const { region } = choice.region ?? firstOf(world);
  const name = `n${serialOf(world)}`;
  const { billing, isSpot } = choice.charge ?? { billing: { chargeMode: 'perHour', duration: 1 }, isSpot: false };
  const request: LaunchInput = {
    name,
    imageId: choice.ownImage ?? images[choice.image ?? 0]?.id ?? '',
    instanceTypeId: typesOf(region, isSpot)[choice.type ?? 0]?.id ?? '',
    region: region.id,
    billing,
    remoteStorages: (choice.volumes ?? []).map(mountOf),
    instanceConfiguration: {
      extraDataDiskSizeDB: 0,
      enableCommonData: false,
      enableDocker: false,
      dockerStorageSize: 0,
      initScript: choice.initScript ?? '',
    },
    isSpotInstance: isSpot,
    nodePorts: choice.ports ?? [],
  };
  return {
    text: choice.charge ? `launch ${name}${isSpot ? ' spot' : ''} ${JSON.stringify(billing)}` : `launch ${name}`,
    caller,
    key,
    send: (control, idempotency) => control.instances.launch(caller, request, idempotency, choice.waitMs),
    sent: () => void model.launches.set(name, 'sent'),
    answered(answer) {
      if (!hasText(answer, 'instanceId')) return world.fail(`a launch was answered with ${JSON.stringify(answer)}`);
      const id = answer['instanceId'] ?? '';
      const row = world.checker.rows<{ id: string }>(
        'select id from instance where id = ? and ownerId = ?',
        id,
        caller.accountId,
      )[0];
      if (!row) return world.fail(`${id} was acknowledged, and is not in the database`);
      if (!model.instances.has(id))
        model.instances.set(id, { ownerId: caller.accountId, acknowledged: 'running', maybe: [] });
    },
    refused: () => {
      if (key === null) model.launches.set(name, 'refused');
    },
  };
}

const desiredAfter = {
  stop: 'stopped',
  start: 'running',
  restart: 'running',
  archive: 'archived',
  terminate: 'released',
} as const;

export function instanceAction(
  world: World,
  caller: Caller,
  action: Action,
  id: string,
  key: string | null,
  { waitMs = null, withoutGpu = false }: { waitMs?: number | null; withoutGpu?: boolean } = {},
): Request {
  const { model } = world;
  const request = desiredAfter[action];
  return {
    text: `${action} ${id}`,
    caller,
    key,
    send: (control: Control, idempotency) =>
      action === 'start'
        ? control.instances.start(caller, { instanceId: id, withoutGpu }, idempotency, waitMs)
        : control.instances[action](caller, { instanceId: id }, idempotency),
    sent: () => model.requested(id, request),
    answered(_, first) {
      const row = world.checker.rows<{ desired: string }>('select desired from instance where id = ?', id)[0];
      if (!row) return world.fail(`${action} of ${id} was acknowledged, and it is not in the database`);
      if (first || row.desired === request) model.acknowledged(id, request);
      else model.refused(id, request);
    },
    refused: () => model.refused(id, request),
  };
}

export function createVolume(
  world: World,
  caller: Caller,
  key: string | null,
  name: string,
  { region } = world.anyRegion(),
): Request {
  return {
    text: `create volume ${name}`,
    caller,
    key,
    send: (control, idempotency) =>
      control.volumes.create(caller, { name, sizeGB: 3, region: region.id, volumeType: 'filesystem' }, idempotency),
    sent: () => {},
    answered(answer) {
      if (!hasText(answer, 'volumeText')) return world.fail(`a volume was answered with ${JSON.stringify(answer)}`);
      const volume: unknown = JSON.parse(answer['volumeText'] ?? '');
      if (!hasText(volume, 'id')) return world.fail('a volume without an id was answered');
      const id = volume['id'] ?? '';
      world.model.isThere('volumes', id, caller.accountId);
    },
    refused: () => {},
  };
}

/** An ed25519 key with 32 drawn bytes, in OpenSSH format. */
function sshKey(world: World): string {
  const part = (bytes: Uint8Array): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  };
  const blob = Buffer.concat([part(Buffer.from('ssh-ed25519')), part(world.schedule.bytes(32))]);
  return `ssh-ed25519 ${blob.toString('base64')} key`;
}

export function createSshKey(world: World, caller: Caller, key: string | null): Request {
  const publicKey = sshKey(world);
  const name = `key ${serialOf(world)}`;
  return {
    text: `create ssh ${name}`,
    caller,
    key,
    send: (control, idempotency) => control.access.createSshKey(caller, { name, publicKey }, idempotency),
    sent: () => {},
    answered(_, first) {
      const rows = world.checker.rows('select id from sshKey where accountId = ? and name = ?', caller.accountId, name);
      if (first && rows.length !== 1)
        world.fail(`the ssh ${name} was acknowledged, and there are ${rows.length} of it`);
    },
    refused: () => {},
  };
}

export function deleteSshKey(world: World, caller: Caller, id: string, key: string | null): Request {
  return {
    text: `delete ssh key ${id}`,
    caller,
    key,
    send: (control, idempotency) => control.access.deleteSshKey(caller, { id }, idempotency),
    sent: () => {},
    answered() {
      const rows = world.checker.rows('select id from sshKey where id = ?', id);
      if (rows.length > 0) world.fail(`the ssh key ${id} was deleted, and it is there`);
    },
    refused: () => {},
  };
}

const ownInstances = ({ model }: World, caller: Caller): string[] =>
  [...model.instances].filter(([, { ownerId }]) => ownerId === caller.accountId).map(([id]) => id);
const ownDisks = ({ model }: World, what: 'volumes' | 'snapshots', caller: Caller): string[] =>
  [...model[what]].filter(([, { ownerId, there }]) => there && ownerId === caller.accountId).map(([id]) => id);
const ownVolumes = (world: World, caller: Caller): string[] => ownDisks(world, 'volumes', caller);

const onDisk =
  (
    what: 'volumes' | 'snapshots',
    draw: (world: World, caller: Caller, id: string, key: string | null) => Request,
  ): Draw =>
  (world, caller) => {
    const ids = ownDisks(world, what, caller);
    return ids.length === 0 ? null : draw(world, caller, world.schedule.oneOf(ids), keyOf(world));
  };

const drawnName = ({ schedule }: World): string => `v${schedule.between(1, 6)}`;
const drawnCopy =
  (from: 'volumes' | 'snapshots') =>
  (world: World, caller: Caller, id: string, key: string | null): Request => {
    const sizeGB = world.schedule.chance(0.5) ? world.schedule.between(3, 8) : undefined;
    return copyVolume(world, caller, from, key, { id, name: drawnName(world), sizeGB });
  };

/** Prefers instances for which the action is legal, so that most requests take effect. */
function targets(world: World, caller: Caller, which: Action): string[] {
  const ids = ownInstances(world, caller);
  const legal = ids.filter((id) => {
    const instance = world.checker.instances.get(id)?.instance;
    if (!instance || instance.desired === 'released') return false;
    return refusalOfAction(which, instance.observed.status, instance.desired) === null;
  });
  return legal.length > 0 && world.schedule.chance(0.8) ? legal : ids;
}

const drawnWaitMs = ({ schedule }: World): number | null =>
  schedule.chance(0.4) ? schedule.spread(1_000, 600_000) : null;

const action =
  (which: Action): Draw =>
  (world, caller) => {
    const ids = targets(world, caller, which);
    if (ids.length === 0) return null;
    const how = { waitMs: drawnWaitMs(world), withoutGpu: world.schedule.chance(0.2) };
    return instanceAction(world, caller, which, world.schedule.oneOf(ids), keyOf(world), how);
  };

const onOwn =
  (like: Action, draw: (world: World, caller: Caller, id: string) => Request): Draw =>
  (world, caller) => {
    const ids = targets(world, caller, like);
    return ids.length === 0 ? null : draw(world, caller, world.schedule.oneOf(ids));
  };

const offered = ({ money, schedule }: World, { region }: SimulatedRegion) =>
  typesOf(region, money !== null && schedule.chance(0.3));

function drawnChange(world: World, caller: Caller): UpdateInput {
  const { schedule } = world;
  const mounts = ownVolumes(world, caller).filter(() => schedule.chance(0.4));
  return {
    name: schedule.chance(0.3) ? `n${serialOf(world)}` : undefined,
    instanceTypeId: schedule.chance(0.4) ? schedule.oneOf(offered(world, world.anyRegion())).id : undefined,
    nodePorts: schedule.chance(0.5) ? [80, 7_000, 8_888].filter(() => schedule.chance(0.4)) : undefined,
    remoteStorages: schedule.chance(0.3) ? mounts.slice(0, 2).map(mountOf) : undefined,
  };
}

/** A volume of another region is refused. */
function mayMount({ checker, schedule }: World, id: string, { region }: SimulatedRegion): boolean {
  const { regionId = region.id } = checker.volumes.get(id) ?? {};
  return regionId === region.id || schedule.chance(0.2);
}

function drawnLaunch(world: World, caller: Caller): Request {
  const { schedule } = world;
  const volumes = ownVolumes(world, caller);
  const saved = ownImages(world, caller.accountId).map(({ id }) => id);
  const own = schedule.chance(0.5) ? saved : registeredImages(world, caller.accountId);
  const region = world.anyRegion();
  return launch(world, caller, keyOf(world), {
    region,
    type: schedule.between(0, typesOf(region.region).length - 1),
    image: schedule.chance(0.9) ? 0 : schedule.between(1, 2),
    ports: [80, 7_000, 8_888].filter(() => schedule.chance(0.4)),
    initScript: schedule.oneOf(initScripts),
    volumes: volumes.filter((id) => mayMount(world, id, region) && schedule.chance(0.4)).slice(0, 2),
    waitMs: drawnWaitMs(world),
    ownImage: schedule.chance(0.3) ? own[0] : undefined,
    ...(world.money ? { charge: drawCharge(world) } : {}),
  });
}

const disksDraws: readonly Draw[] = [
  onDisk('volumes', (...at) => expandVolume(...at, at[0].schedule.between(3, 8))),
  onDisk('volumes', (...at) => renameVolume(...at, drawnName(at[0]))),
  onDisk('volumes', drawnCopy('volumes')),
  onDisk('volumes', (...at) => createSnapshot(...at, `s${at[0].schedule.between(1, 3)}`)),
  onDisk('snapshots', drawnCopy('snapshots')),
  onDisk('snapshots', drawnCopy('snapshots')),
  onDisk('snapshots', deleteSnapshot),
];

/** Creates the missing object when no request is possible. */
const drawDiskRequest: Draw = (world, caller) =>
  world.schedule.oneOf(disksDraws)(world, caller) ??
  onDisk('volumes', (...at) => createSnapshot(...at, `s${at[0].schedule.between(1, 3)}`))(world, caller) ??
  createVolume(world, caller, keyOf(world), drawnName(world));

/** Relative frequency of each request. */
const kinds: readonly (readonly [number, Draw])[] = [
  [2, onOwn('stop', (world, caller, id) => setStopPolicy(world, caller, id))],
  [1, onOwn('stop', (world, caller, id) => keepAlive(world, caller, id))],
  [2, drawFromRegistry],
  [2, handleOrphan],
  [1, onOwn('stop', (world, caller, id) => cancel(world, caller, id, keyOf(world)))],
  [2, onOwn('archive', (world, caller, id) => saveImage(world, caller, id, keyOf(world), `i${serialOf(world)}`))],
  [
    1,
    (world, caller) => {
      const own = ownImages(world, caller.accountId);
      return own.length === 0 ? null : deleteImage(world, caller, world.schedule.oneOf(own).id, keyOf(world));
    },
  ],
  [8, drawnLaunch],
  [4, onOwn('stop', (world, caller, id) => change(world, caller, id, keyOf(world), drawnChange(world, caller)))],
  [4, action('stop')],
  [4, action('start')],
  [3, action('restart')],
  [3, action('archive')],
  [4, action('terminate')],
  [3, (world, caller) => createVolume(world, caller, keyOf(world), `v${world.schedule.between(1, 6)}`)],
  [2, onDisk('volumes', deleteVolume)],
  [10, drawDiskRequest],
  [3, (world, caller) => createSshKey(world, caller, keyOf(world))],
  [
    1,
    (world, caller) => {
      const rows = world.server
        ? world.checker.rows<{ id: string }>('select id from sshKey where accountId = ?', caller.accountId)
        : [];
      return rows.length === 0 ? null : deleteSshKey(world, caller, world.schedule.oneOf(rows).id, keyOf(world));
    },
  ],
];
const totalWeight = kinds.reduce((sum, [weight]) => sum + weight, 0);

export const drawLaunch = (world: World): Request => drawnLaunch(world, world.schedule.oneOf(callers));

export function drawRequest(world: World): Request | null {
  if (world.money && world.schedule.chance(0.35)) return drawMoneyRequest(world);
  const caller = world.schedule.oneOf(callers);
  let remainingWeight = world.schedule.random() * totalWeight;
  for (const [weight, draw] of kinds) {
    remainingWeight -= weight;
    if (remainingWeight < 0) return draw(world, caller);
  }
  return null;
}
