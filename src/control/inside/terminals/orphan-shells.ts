/**
 * Orphaned shells of a host process: its id in the environment, a parent outside of the instance.
 */
import type { InstanceId } from '../../../domain/ids.ts';
import type { Engine } from '../../../engines/contract.ts';

export const HOLDER_VARIABLE = 'BERTH_TERMINAL_HOLDER';

const HANG_UP = `
mine=$1
newline='
'
for stat in /proc/[0-9]*/stat; do
  { read -r line <"$stat"; } 2>/dev/null || continue
  pid=\${line%% *}
  set -- \${line##*) }
  [ "$2" = 0 ] || continue
  environment=$newline$(tr '\\0' '\\n' 2>/dev/null <"/proc/$pid/environ")$newline
  case $environment in
    *"\${newline}${HOLDER_VARIABLE}=$mine$newline"*) ;;
    *"\${newline}${HOLDER_VARIABLE}="*) kill -s HUP "$pid" ;;
  esac
done`;

export async function hangUpOrphans(
  exec: Engine['exec'],
  { instanceId, holder, signal }: { instanceId: InstanceId; holder: string; signal: AbortSignal },
): Promise<void> {
  await exec(instanceId, ['/bin/sh', '-c', HANG_UP, 'sh', holder], signal);
}
