/**
 * # Stopped starts
 *
 * A command begins as a process of the runtime (`runc init`), which root inside can stop by a
 * signal. Docker then waits forever for the start, and holds locks: no inspect, reading of usage or
 * stop of the container is answered. Once that process is killed, the start fails.
 */
import { readdir, readFile, readlink } from 'node:fs/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { processGroupOf } from '../host/process-group.ts';
import { stateOf } from './spare-processes.ts';

const RUNTIME = /^[^\0]+\0init\0$/;

/** Found by the namespace: it joins the control group later. Never throws. */
export async function killStoppedStarts({ Id, State }: Pick<ContainerInspectInfo, 'Id' | 'State'>): Promise<void> {
  const namespace = await namespaceOf(State.Pid);
  // Read before: a process of the group means that the namespace is the container's.
  if (namespace === null || !(await processGroupOf(State.Pid))?.includes(Id)) return;
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  await Promise.all(
    pids.map(async (pid) => {
      if ((await namespaceOf(pid)) !== namespace || (await stateOf(pid)) !== 'T') return;
      const command = await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '');
      if (RUNTIME.test(command)) kill(Number(pid));
    }),
  );
}

const namespaceOf = (pid: number | string): Promise<string | null> => readlink(`/proc/${pid}/ns/pid`).catch(() => null);

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
