/** Removal of what an engine that was killed during a start leaves, and what fails later starts. */
import { readdir, readFile, rmdir, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** Kills each process of the container; returns how many there were. */
export async function endProcesses(containerId: string): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const killed = await Promise.all(
    pids.map(async (pid) => {
      const read = (file: string): Promise<string> => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '');
      const [groups, command] = await Promise.all([read('cgroup'), read('cmdline')]);
      return (groups.includes(containerId) || isShimOf(containerId, command)) && kill(Number(pid));
    }),
  );
  return killed.filter(Boolean).length;
}

/** containerd runs a shim for each container, outside of its control group. */
function isShimOf(containerId: string, command: string): boolean {
  const [program = '', ...args] = command.split('\0');
  return basename(program).startsWith('containerd-shim') && args[args.indexOf('-id') + 1] === containerId;
}

/** False: the process ended, or belongs to another user. */
function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}

/**
 * Removes the folder in which containerd keeps its own files of a run. A folder in it that is
 * mounted or not empty could be the root disk, and stays. Returns whether all is gone.
 */
export async function removeBundle(folder: string): Promise<boolean> {
  try {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      await (entry.isDirectory() ? rmdir(path) : unlink(path));
    }
    await rmdir(folder);
    return true;
  } catch {
    return false;
  }
}
