/** Processes of a container that the engine lost: it was killed during a change. */
import { readdir, readFile } from 'node:fs/promises';

/** Kills each process in a control group named by the container; returns how many there were. */
export async function endProcesses(containerId: string): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const killed = await Promise.all(
    pids.map(async (pid) => {
      const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
      return groups.includes(containerId) && kill(Number(pid));
    }),
  );
  return killed.filter(Boolean).length;
}

/** False: the process ended, or belongs to another user. */
function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}
