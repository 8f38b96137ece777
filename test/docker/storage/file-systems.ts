/** File systems in image files of the host, for one test. Need root. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../conformance/storage.ts';

export interface MountedFileSystem {
  folder: string;
  /** Unmounts and deletes. */
  remove(): Promise<void>;
}

async function mountNew(sizeGB: number, ...[program, ...options]: [string, ...string[]]): Promise<MountedFileSystem> {
  const own = await mkdtemp(join(tmpdir(), 'berth-host-'));
  const folder = join(own, 'mounted');
  await mkdir(folder);
  await run('truncate', ['--size', `${sizeGB}G`, join(own, 'image')]);
  await run(program, ['-q', ...options, join(own, 'image')]);
  await run('mount', ['-o', 'loop', join(own, 'image'), folder]);
  const remove = async (): Promise<void> => {
    await run('umount', [folder]);
    await rm(own, { recursive: true });
  };
  return { folder, remove };
}

/** An XFS, whose files can share blocks. */
export const mountXfs = (sizeGB: number): Promise<MountedFileSystem> => mountNew(sizeGB, 'mkfs.xfs', '-m', 'reflink=1');

/** An ext4, without blocks reserved for root. */
export const mountExt4 = (sizeGB: number): Promise<MountedFileSystem> => mountNew(sizeGB, 'mkfs.ext4', '-m', '0');

/**
 * Shell commands in a new mount namespace that drop the copies of mounts under `/tmp` outside of
 * `$1`: other tests of this host unmount theirs.
 */
export const DROP_OTHER_MOUNTS = `awk -v keep="$1" '$5 ~ "^/tmp/" && index($5, keep) != 1 { print $5 }' /proc/self/mountinfo | sort -r |
  xargs -r -d '\\n' umount --lazy`;
