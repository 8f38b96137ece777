/** Scripts that end a command inside an instance, by builtins of a shell. */
import type { ProcessSignal } from '../domain/compute/process-signals.ts';

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
export const killCommand = (signal: ProcessSignal, pid: number): string[] => [
  '/bin/sh',
  '-c',
  signal === 'KILL' ? KILL_FAMILY : SIGNAL_GROUP,
  'sh',
  String(pid),
  signal,
];
