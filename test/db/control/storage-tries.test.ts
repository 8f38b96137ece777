/** Failing hosts: storage operations are retried, then fail permanently with the reason. */
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/domain/compute/instance-states.ts';
import { StorageFault, type Storage } from '../../../src/storage/contract.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import {
  boundVolume,
  copyVolume,
  createVolume,
  operationOf,
  snapshotIs,
  takeSnapshot,
  usedGB,
  volumeIs,
} from './storage-fixture.ts';

const mayFail = /a storage operation failed|the storage of a disk does not answer|could not provide the data disk/;

/** Fails a verb so many times with the host's message. Returns the number of calls. */
function trouble(world: World, verb: 'create' | 'grow', times: number): () => number {
  const whole: Storage = { ...world.storage };
  let asked = 0;
  const failing = (kind: string): void => {
    if (kind !== 'volume' && kind !== 'snapshot') return;
    asked += 1;
    if (asked <= times) throw new Error("mount: /srv/secret: can't read superblock");
  };
  if (verb === 'grow') world.storage.grow = async (disk, ...rest) => (failing(disk.kind), whole.grow(disk, ...rest));
  else world.storage.create = async (disk, ...rest) => (failing(disk.kind), whole.create(disk, ...rest));
  return () => asked;
}

const TRIES = defaultLimits.maxDiskAttempts;
const failure = () => ({
  state: 'Failed',
  error: { reason: 'StorageFailed', message: expect.not.stringContaining('secret') },
});

onBothEngines('a failing host', (open) => {
  test('costs a volume nothing when it is over in time', async () => {
    const world = await makeWorld(await open(), { mayFail });
    const asked = trouble(world, 'create', TRIES - 1);
    await boundVolume(world, 'data');
    expect(asked()).toBe(TRIES);
  });

  test('fails creating a volume or a copy, and releases the capacity', async () => {
    const world = await makeWorld(await open(), { mayFail });
    const from = await boundVolume(world, 'whole');
    const before = await usedGB(world);
    const asked = trouble(world, 'create', Infinity);
    const { id } = await createVolume(world, 'data');
    await volumeIs(world, id, 'Failed');
    expect(asked()).toBe(TRIES);
    const copy = await copyVolume(world, { id: from.id, name: 'copy' });
    await volumeIs(world, copy.id, 'Failed');
    for (const one of [id, copy.id])
      expect(await world.running.control.volumes.get(world.caller, { id: one })).toMatchObject({
        operation: failure(),
      });
    expect(await usedGB(world)).toBe(before);
    await settled(world);
    expect(asked()).toBe(2 * TRIES);
    await expectConsistent(world);
  });

  test('fails a snapshot; the next one on a repaired host is Ready', async () => {
    const world = await makeWorld(await open(), { mayFail });
    const { id } = await boundVolume(world, 'data');
    const asked = trouble(world, 'create', TRIES);
    await snapshotIs(world, (await takeSnapshot(world, id, 'first')).id, 'Failed');
    expect(asked()).toBe(TRIES);
    await snapshotIs(world, (await takeSnapshot(world, id, 'second')).id, 'Ready');
    await settled(world);
    await expectConsistent(world);
  });

  test('fails an expand and keeps the size; a new request starts with the first attempt', async () => {
    const world = await makeWorld(await open(), { mayFail });
    const { volumes } = world.running.control;
    const { id } = await boundVolume(world, 'data', 5);
    let hasGB = 5;
    world.storage.observe = async () => ({ kind: 'present', sizeGB: hasGB });
    world.storage.grow = async (_, sizeGB) => void (hasGB = sizeGB);
    const before = await usedGB(world);
    trouble(world, 'grow', TRIES);
    const first = await volumes.expand(world.caller, { id, sizeGB: 9 }, null);
    await eventually(async () => (await operationOf(world, first.operationId)).state === 'Failed');
    expect(await operationOf(world, first.operationId)).toMatchObject(failure());
    expect(await volumeIs(world, id, 'Bound')).toMatchObject({ sizeGB: 5 });
    expect(await usedGB(world)).toBe(before);
    const second = await volumes.expand(world.caller, { id, sizeGB: 9 }, null);
    await eventually(async () => (await operationOf(world, second.operationId)).state === 'Succeeded');
    expect(hasGB).toBe(9);
  });

  test('that does not answer fails neither volumes nor launches, however often', async () => {
    const world = await makeWorld(await open(), { mayFail });
    const whole: Storage = { ...world.storage };
    const asked = new Map<string, number>();
    world.storage.create = async (disk, ...rest) => {
      const times = (asked.get(disk.kind) ?? 0) + 1;
      asked.set(disk.kind, times);
      if (times <= 2 * (TRIES + defaultLimits.maxAttempts)) throw new StorageFault('away', 'it does not answer');
      return whole.create(disk, ...rest);
    };
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await boundVolume(world, 'data');
    await world.until(instanceId, hasStatus('Running'));
    expect(asked.get('volume')).toBe(2 * (TRIES + defaultLimits.maxAttempts) + 1);
    await settled(world);
    await expectConsistent(world);
  });

  test('marks a volume Lost that vanishes during an expand, not failed for a missing source', async () => {
    const world = await makeWorld(await open(), { mayFail });
    const { id } = await boundVolume(world, 'data', 5);
    let isThere = true;
    world.storage.observe = async () => (isThere ? { kind: 'present', sizeGB: 5 } : { kind: 'absent' });
    world.storage.grow = async () => {
      isThere = false;
      throw new StorageFault('notFound', 'the disk does not exist');
    };
    const { operationId } = await world.running.control.volumes.expand(world.caller, { id, sizeGB: 9 }, null);
    await volumeIs(world, id, 'Lost');
    expect(await operationOf(world, operationId)).toMatchObject({ state: 'Failed', error: { reason: 'VolumeLost' } });
  });
});
