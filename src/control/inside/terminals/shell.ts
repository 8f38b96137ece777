/** The shell command: adds the start script's environment (images/start.sh), prefers bash. */
import type { ExecRequest, TerminalSize, Engine } from '../../../engines/contract.ts';
import type { InstanceId } from '../../../domain/ids.ts';

const SCRIPT = `
export HOME=/root USER=root LOGNAME=root LANG="\${LANG:-C.UTF-8}"
for dir in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin /opt/conda/bin; do
  case ":$PATH:" in *":$dir:"*) ;; *) PATH=$PATH:$dir ;; esac
done
export PATH
while IFS='=' read -r name value; do
  case $name in BERTH_INSTANCE_ID) export BERTH_INSTANCE_ID="$value" ;; BERTH_BASE_URL) export BERTH_BASE_URL="$value" ;; esac
done </etc/berth/env
cd /root
SHELL=$(command -v bash || command -v sh)
export SHELL
exec "$SHELL"`;

export const shellRequest = (name: string, holder: string, size: TerminalSize): ExecRequest => ({
  command: ['/bin/sh', '-c', SCRIPT],
  env: { TERM: 'xterm-256color', COLORTERM: 'truecolor', BERTH_TERMINAL: name, [HOLDER_VARIABLE]: holder },
  terminal: size,
});

const HOLDER_VARIABLE = 'BERTH_TERMINAL_HOLDER';

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
