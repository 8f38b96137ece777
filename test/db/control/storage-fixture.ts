/** Requests and observations for tests of volumes and snapshots. */
import { expect } from 'vitest';
import type { CopyRequest } from '../../../src/control/storage/new-volume.ts';
import type { PublicSnapshot } from '../../../src/domain/storage/snapshot.ts';
import type { PublicVolume } from '../../../src/domain/storage/volume.ts';
import { eventually, textOf, type World } from '../../fixtures/control.ts';

const ALL = { currentPage: 1, pageSize: 500 };

export async function createVolume(world: World, name: string, sizeGB = 3): Promise<PublicVolume> {
  const body = { name, sizeGB, region: world.drivers.regionId, volumeType: 'filesystem' } as const;
  const { volumeText } = await world.running.control.volumes.create(world.caller, body, null);
  return JSON.parse(volumeText);
}

export async function boundVolume(world: World, name: string, sizeGB = 3): Promise<PublicVolume> {
  const volume = await createVolume(world, name, sizeGB);
  return volumeIs(world, volume.id, 'Bound');
}

export async function copyVolume(world: World, request: CopyRequest): Promise<PublicVolume> {
  return JSON.parse((await world.running.control.volumes.copy(world.caller, request, null)).volumeText);
}

export async function restore(world: World, request: CopyRequest): Promise<PublicVolume> {
  return JSON.parse((await world.running.control.snapshots.restore(world.caller, request, null)).volumeText);
}

export async function takeSnapshot(world: World, volumeId: string, name: string): Promise<PublicSnapshot> {
  const { snapshotText } = await world.running.control.snapshots.create(world.caller, { volumeId, name }, null);
  return JSON.parse(snapshotText);
}

export async function listedVolumes(world: World): Promise<PublicVolume[]> {
  const { texts } = await world.running.control.volumes.list(world.caller, ALL);
  return texts.map((text): PublicVolume => JSON.parse(textOf(text)));
}

export async function listedSnapshots(world: World): Promise<PublicSnapshot[]> {
  const { texts, totalEntries } = await world.running.control.snapshots.list(world.caller, ALL);
  expect(totalEntries).toBe(texts.length);
  return texts.map((text): PublicSnapshot => JSON.parse(text));
}

/** Waits for a condition on the list. */
export async function volumeIs(world: World, id: string, status: string): Promise<PublicVolume> {
  let last: PublicVolume | undefined;
  const isSo = async (): Promise<boolean> => {
    last = (await listedVolumes(world)).find((volume) => volume.id === id);
    return last?.status === status;
  };
  await eventually(isSo, () => JSON.stringify(last));
  return last as PublicVolume;
}

export async function snapshotIs(world: World, id: string, status: string): Promise<PublicSnapshot> {
  let last: PublicSnapshot | undefined;
  const isSo = async (): Promise<boolean> => {
    last = (await listedSnapshots(world)).find((snapshot) => snapshot.id === id);
    return last?.status === status;
  };
  await eventually(isSo, () => JSON.stringify(last));
  return last as PublicSnapshot;
}

export async function usedGB({ store }: World): Promise<number> {
  return (await store.read.selectFrom('pool').select('usedGB').executeTakeFirstOrThrow()).usedGB;
}

export async function operationOf(world: World, operationId: string | undefined) {
  return world.running.control.operations.read(world.caller, { operationId: operationId ?? '' });
}
