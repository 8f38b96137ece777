/**
 * The end of a command inside with all that it began. Docker says the command's process as the host numbers it, and the host's /proc
 * says what it is called inside. There a shell looks for its kin and kills them: from inside, so that it also works for a Berth that is
 * not root, and can't, whatever is read wrongly, touch anybody but the instance's own.
 */
import { readFile } from 'node:fs/promises';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { ExecSignal } from '../../contract.ts';
import type { Client } from '../client/client.ts';

/**
 * Each is stopped when it is found, so that it begets nobody meanwhile, and the round is made again until three in a row
 * found nobody new: who begets and ends may slip through one. After
 * the name in stat: state, parent, group, session. Builtins only, so this shell is all that it needs room for.
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

/** The one way of saying it that every shell reads alike: busybox takes `--` for a process. */
const SIGNAL_GROUP = `kill "-$2" "-$1"`;

/** A KILL goes to all its kin, another signal to its process group, which it leads: the runtime begins each with a session of its own. */
export async function signalCommand({
  client,
  containerId,
  hostPid,
  run,
  signal,
}: {
  client: Client;
  containerId: string;
  hostPid: number;
  /** Inside. */
  run: (command: readonly string[]) => Promise<{ exitCode: number; said: string }>;
  signal: ExecSignal;
}): Promise<void> {
  const pid = client.local ? await pidInside(hostPid, containerId) : null;
  if (pid === null) {
    const text =
      'Berth does not see the processes of this container engine, so it can end no command; stop the instance';
    throw new EngineFault('rejected', text, { retry: false });
  }
  const script = signal === 'KILL' ? KILL_FAMILY : SIGNAL_GROUP;
  const { exitCode, said } = await run(['/bin/sh', '-c', script, 'sh', String(pid), signal]);
  if (exitCode !== 0)
    throw new EngineFault('rejected', `the command could not be ended: ${said.trim()}`, { retry: true });
}

/** Null when it isn't there, or another container's. */
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
