/** What an instance shows of its disks, out of what was measured of each. Pure. */
import { isFull, usedPercent, nextWarning } from './disk-warnings.ts';
import {
  inGB,
  ownDisks,
  ownMountPaths,
  type Disk,
  type DiskId,
  type DiskUsage,
  type FullDisk,
  type DiskEntry,
} from './disk.ts';
import type { Instance } from './instance.ts';

type Measured = Pick<Disk, 'kind' | 'id' | 'sizeGB' | 'usageBytes'>;

/** The root disk, as its engine tells of it. */
export interface RootDiskUsage {
  bytes: number;
  /** Null while that is not known. */
  biggest: DiskEntry[] | null;
}

/** All that it has but its root disk. */
export const diskIdsOf = (instance: Pick<Instance, 'id' | 'ownerId' | 'spec'>): DiskId[] => [
  ...ownDisks(instance, 0).map(({ kind, id }) => ({ kind, id })),
  ...instance.spec.mounts.map(({ volumeId }): DiskId => ({ kind: 'volume', id: volumeId })),
];

interface Sights {
  root?: RootDiskUsage | undefined;
  /** What takes most of a disk; absent while that is not known. */
  biggest: (disk: DiskId) => DiskEntry[] | undefined;
}

/** `disks`: those of `disksOf` that there are, in its order. What was not looked at again stays as it was known. */
export function updateDiskUsage(instance: Instance, disks: readonly Measured[], { root, biggest }: Sights): DiskUsage {
  const { diskUsage: before } = instance;
  const bytesOf = (kind: Disk['kind']): number => disks.find((disk) => disk.kind === kind)?.usageBytes ?? 0;
  const rootBytes = root !== undefined && inGB(root.bytes) !== inGB(before.rootBytes) ? root.bytes : before.rootBytes;
  const rootPercent = usedPercent(rootOf(instance, rootBytes));
  const knownOf = (disk: FullDisk['disk'], mountPath: string): DiskEntry[] =>
    before.full.find((one) => one.disk === disk && one.mountPath === mountPath)?.biggest ?? [];
  const full = disks.filter(isFull).map((disk) => {
    const { kind } = disk;
    const mountPath = mountPathOf(instance, disk);
    return { disk: kind, mountPath, percent: usedPercent(disk), biggest: biggest(disk) ?? knownOf(kind, mountPath) };
  });
  const rootIsFull = isFull(rootOf(instance, rootBytes));
  const fullRoot = { disk: 'root' as const, mountPath: '/', percent: rootPercent };
  return {
    rootBytes,
    dataBytes: bytesOf('data'),
    dockerBytes: bytesOf('docker'),
    rootWarnedPercent: nextWarning(rootPercent, before.rootWarnedPercent).warnedPercent,
    full: rootIsFull ? [{ ...fullRoot, biggest: root?.biggest ?? knownOf('root', '/') }, ...full] : full,
  };
}

const rootOf = ({ spec }: Pick<Instance, 'spec'>, usageBytes: number) => ({ usageBytes, sizeGB: spec.type.rootDiskGB });

function mountPathOf({ spec }: Pick<Instance, 'spec'>, { kind, id }: DiskId): string {
  if (kind === 'data' || kind === 'shared' || kind === 'docker') return ownMountPaths[kind];
  return spec.mounts.find(({ volumeId }) => volumeId === id)?.mountPath ?? '';
}

/** One disk, as `/instance/get` shows it. */
export interface PublicDisk {
  disk: FullDisk['disk'];
  /** Of a volume; of an instance's own disk, what it is known by. '' of the root disk. */
  id: string;
  mountPath: string;
  sizeGB: number;
  /** Whether it stops a writer, or is measured alone. */
  sizeLimit: 'hard' | 'soft';
  usageGB: number;
  percent: number;
  biggest: { path: string; usageGB: number }[];
}

/** The root disk first; `disks` as above. */
export function publicDisks(
  instance: Instance,
  disks: readonly (Measured & Pick<PublicDisk, 'sizeLimit'>)[],
  rootLimit: PublicDisk['sizeLimit'],
): PublicDisk[] {
  const { diskUsage } = instance;
  const show = (disk: PublicDisk['disk'], id: string, mountPath: string, one: Omit<Measured, 'kind' | 'id'>) => ({
    disk,
    id,
    mountPath,
    sizeGB: one.sizeGB,
    usageGB: inGB(one.usageBytes),
    percent: usedPercent(one),
    biggest: shownParts(diskUsage.full.find((full) => full.disk === disk && full.mountPath === mountPath)),
  });
  const root = { ...show('root', '', '/', rootOf(instance, diskUsage.rootBytes)), sizeLimit: rootLimit };
  const others = disks.map((disk) => ({
    ...show(disk.kind, disk.id, mountPathOf(instance, disk), disk),
    sizeLimit: disk.sizeLimit,
  }));
  return [root, ...others];
}

const shownParts = (full: FullDisk | undefined): PublicDisk['biggest'] =>
  (full?.biggest ?? []).map(({ path, bytes }) => ({ path, usageGB: inGB(bytes) }));
