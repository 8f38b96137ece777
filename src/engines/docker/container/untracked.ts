/** Processes of a container that the engine lost: it was killed during a change. */
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';

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

/**
 * containerd runs a shim for each container, outside of its control group. One without a process
 * to watch, left by an engine that was killed during a start, makes every later start fail.
 */
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
