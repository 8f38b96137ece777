/**
 * Kills a command with all descendants, by a script inside: without root, and even a misread id
 * can't touch a process outside. The host's /proc translates the process id that Docker reports; on
 * another host, a shell says the id inside (`engines/process-id.ts`).
 */
import { readFile } from 'node:fs/promises';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { ProcessSignal } from '../../../domain/compute/process-signals.ts';
import { killCommand } from '../../kill-scripts.ts';

export async function signalCommand(
  signal: ProcessSignal,
  command: { containerId: string; hostPid: number | null; knownPid: number | null },
  run: (command: readonly string[]) => Promise<{ exitCode: number; errors: string }>,
): Promise<void> {
  const { containerId, hostPid, knownPid } = command;
  const pid = knownPid ?? (hostPid && (await pidInside(hostPid, containerId)));
  if (pid === null) {
    const text =
      'Berth does not see the processes of this container engine, so it cannot kill a command; stop the instance';
    throw new EngineFault('rejected', text, { retry: false });
  }
  const { exitCode, errors } = await run(killCommand(signal, pid));
  if (exitCode !== 0)
    throw new EngineFault('rejected', `the command could not be killed: ${errors.trim()}`, { retry: true });
}

async function pidInside(hostPid: number, containerId: string): Promise<number | null> {
  try {
    const status = await readFile(`/proc/${hostPid}/status`, 'utf8');
    const cgroup = await readFile(`/proc/${hostPid}/cgroup`, 'utf8');
    const pids = /^NSpid:\s*([\d\s]*\d)\s*$/m.exec(status)?.[1]?.split(/\s+/) ?? [];
    return cgroup.includes(containerId) && pids.length > 1 ? Number(pids.at(-1)) : null;
  } catch {
    return null;
  }
}
