/** File systems in image files of the host, for one test. Needs root. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../conformance/storage.ts';

/** Mounts an XFS, whose files can share blocks; `remove` unmounts and deletes. */
export async function mountXfs(sizeGB: number): Promise<{ folder: string; remove: () => Promise<void> }> {
  const own = await mkdtemp(join(tmpdir(), 'berth-xfs-'));
  const folder = join(own, 'mounted');
  await mkdir(folder);
  await run('truncate', ['--size', `${sizeGB}G`, join(own, 'image')]);
  await run('mkfs.xfs', ['-q', '-m', 'reflink=1', join(own, 'image')]);
  await run('mount', ['-o', 'loop', join(own, 'image'), folder]);
  const remove = async (): Promise<void> => {
    await run('umount', [folder]);
    await rm(own, { recursive: true });
  };
  return { folder, remove };
}
