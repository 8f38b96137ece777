/** Branded ids: the compiler refuses one kind where another is meant (`docs/interface.md` §2). */
declare const brand: unique symbol;
type Branded<T, Name extends string> = T & { readonly [brand]: Name };

export type UserId = Branded<string, 'UserId'>;
/** `notebook-<uuid>` (`docs/interface.md` §2.1). */
export type InstanceId = Branded<string, 'InstanceId'>;
export type VolumeId = Branded<string, 'VolumeId'>;
export type SnapshotId = Branded<string, 'SnapshotId'>;
export type ImageId = Branded<string, 'ImageId'>;
export type InstanceTypeId = Branded<string, 'InstanceTypeId'>;
export type RegionId = Branded<string, 'RegionId'>;

const INSTANCE_ID = /^notebook-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const userId = (uuid: string): UserId => uuid as UserId;
export const instanceId = (text: string): InstanceId => text as InstanceId;
export const instanceIdOf = (uuid: string): InstanceId => `notebook-${uuid}` as InstanceId;
/** A UUID of version 7: rows of one commit are neighbors in an index, and share its pages. */
export const instanceIdAt = (uuid: string, atMs: number): InstanceId => {
  const time = atMs.toString(16).padStart(12, '0');
  return instanceIdOf(`${time.slice(0, 8)}-${time.slice(8)}-7${uuid.slice(15)}`);
};
export const volumeId = (uuid: string): VolumeId => uuid as VolumeId;
export const snapshotId = (uuid: string): SnapshotId => uuid as SnapshotId;
export const imageId = (uuid: string): ImageId => uuid as ImageId;
export const instanceTypeId = (uuid: string): InstanceTypeId => uuid as InstanceTypeId;
export const regionId = (uuid: string): RegionId => uuid as RegionId;

export const isInstanceId = (text: string): text is InstanceId => INSTANCE_ID.test(text);
