/** The shell command: adds the start script's environment (images/start.sh), prefers bash. */
import type { ExecRequest, TerminalSize } from '../../../engines/contract.ts';
import { HOLDER_VARIABLE } from './orphan-shells.ts';

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
