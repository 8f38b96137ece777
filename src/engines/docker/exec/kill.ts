/**
 * Kills a command with all descendants, by a script inside: without root, and even a misread id
 * can't touch a process outside. The host's /proc translates the process id that Docker reports.
 */
import { readFile } from 'node:fs/promises';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { ProcessSignal } from '../../../domain/process-signals.ts';
import type { DockerClient } from '../client/docker-client.ts';

/**
 * Stops each process on discovery, so no child appears, and rescans until three rounds find nothing
 * new. Fields of stat after the name: state, parent, group, session. Builtins only: at the process
 * limit the shell can't fork.
 */
const KILL_FAMILY = `
root=$1
family=' '
sessions=' '
quiet=0
while [ "$quiet" -lt 3 ]; do
  quiet=$((quiet + 1))
  for stat in /proc/[0-9]*/stat; do
    { read -r line <"$stat"; } 2>/dev/null || continue
    pid=\${line%% *}
    set -- \${line##*) }
    case $1 in Z | X) continue ;; esac
    case $family in *" $pid "*) continue ;; esac
    if [ "$pid" != "$root" ]; then
      case $family in *" $2 "*) ;; *) case $sessions in *" $4 "*) ;; *) continue ;; esac ;; esac
    fi
    kill -s STOP "$pid" 2>/dev/null
    family="$family$pid "
    [ "$4" -gt 1 ] 2>/dev/null && sessions="$sessions$4 "
    quiet=0
  done
done
kill -s KILL $family 2>/dev/null
:`;

/** The one form that every shell accepts: busybox reads `--` as a process. */
const SIGNAL_GROUP = `kill "-$2" "-$1"`;

/** KILL reaches the whole family, other signals the process group, which the command leads. */
export async function signalCommand(
  signal: ProcessSignal,
  command: { client: DockerClient; containerId: string; hostPid: number },
  run: (command: readonly string[]) => Promise<{ exitCode: number; errors: string }>,
): Promise<void> {
  const { client, containerId, hostPid } = command;
  const pid = client.local ? await pidInside(hostPid, containerId) : null;
  if (pid === null) {
    const text =
      'Berth does not see the processes of this container engine, so it cannot kill a command; stop the instance';
    throw new EngineFault('rejected', text, { retry: false });
  }
  const script = signal === 'KILL' ? KILL_FAMILY : SIGNAL_GROUP;
  const { exitCode, errors } = await run(['/bin/sh', '-c', script, 'sh', String(pid), signal]);
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
