import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rmdir, unlink, type FileHandle } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { errorCode } from '../../domain/kernel/unknown-error.ts';
import { asFault, FileFault } from './fault.ts';
import { childPath, kindOf, openPath, parsePath, splitPath, withFolder, withHandle } from './walk.ts';
import { syncFolder } from './write.ts';

const FOLDER_MODE = 0o755;

export async function makeFolder(root: string, path: string): Promise<void> {
  const createMissing = async (parent: FileHandle, name: string): Promise<void> => {
    try {
      await mkdir(childPath(parent, name), FOLDER_MODE);
      await syncFolder(parent);
    } catch (error) {
      // Created concurrently.
      if (errorCode(error) !== 'EEXIST') throw error;
    }
  };
  splitPath(path);
  await withFolder(root, parsePath(path), async () => {}, createMissing);
}

export async function remove(
  root: string,
  path: string,
  { recursive }: { recursive: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { parent, name } = splitPath(path);
  return withFolder(root, parent, async (folder) => {
    const target = await openPath(folder, name);
    if (target === null) throw new FileFault('notFound', `"${path}" does not exist`);
    const kind = await withHandle(target, async () => kindOf(await target.stat()));
    try {
      if (kind !== 'folder') await unlink(childPath(folder, name));
      else if (recursive) await removeChildTree(folder, name, signal);
      else await rmdir(childPath(folder, name));
      await syncFolder(folder);
    } catch (error) {
      if (errorCode(error) === 'ENOTEMPTY') throw new FileFault('notEmpty', `the folder "${path}" is not empty`, error);
      throw asFault(error, path);
    }
  });
}

/** Runs `rm` in the open folder: follows no link, and never blocks this process. */
async function removeChildTree(folder: FileHandle, name: string, signal: AbortSignal): Promise<void> {
  const child = spawn('rm', ['-rf', '--one-file-system', '--', `/proc/self/fd/3/${name}`], {
    stdio: ['ignore', 'ignore', 'pipe', folder.fd],
    signal,
  });
  // An aborted `rm` uses the disk until `close`.
  let failed: unknown = null;
  child.once('error', (error) => (failed = error));
  const stderr = child.stderr === null ? '' : text(child.stderr);
  const [code]: unknown[] = await once(child, 'close');
  if (failed !== null) throw failed;
  if (code !== 0) throw new Error(`rm exited with ${String(code)}: ${(await stderr).slice(0, 500)}`);
}
