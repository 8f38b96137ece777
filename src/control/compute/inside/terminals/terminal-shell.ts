/** The shell of a terminal: its command, its size, and shells that a dead process left. */
import type { ExecRequest, TerminalSize, Engine, OpenExec } from '../../../../engines/contract.ts';
import type { InstanceId } from '../../../../domain/kernel/ids.ts';
import type { Log, Time } from '../../../kernel/ports.ts';

/** A login shell, bash if there is one, with the start script's environment (images/start.sh). */
const SCRIPT = `
export HOME=/root USER=root LOGNAME=root LANG="\${LANG:-C.UTF-8}"
for dir in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin /opt/conda/bin; do
  case ":$PATH:" in *":$dir:"*) ;; *) PATH=$PATH:$dir ;; esac
done
export PATH
cd /root
SHELL=$(command -v bash || command -v sh)
export SHELL
[ ! -r /etc/berth/env ] || . /etc/berth/env
exec "$SHELL" -l`;

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

/** Programs that see two sizes at once only notice the second; throttled ones are slow. */
const REDRAW_MS = 250;

/** The size of the shell, sent one at a time; outdated sizes are skipped. */
export interface ShellSize {
  readonly current: TerminalSize;
  /** Returns false when the size is unchanged. */
  set(size: TerminalSize): boolean;
  /** Full-screen programs redraw only when the size changes. */
  redraw(): void;
}

export function makeShellSize(
  first: TerminalSize,
  {
    shell,
    time,
    log,
    signal,
  }: { shell: Pick<OpenExec, 'resize'>; time: Pick<Time, 'sleep'>; log: Pick<Log, 'warn'>; signal: AbortSignal },
): ShellSize {
  let size = first;
  let shellSize = first;
  let wantsRedraw = false;
  let isSending = false;

  async function send(next: TerminalSize): Promise<void> {
    try {
      await shell.resize(next);
    } catch (error) {
      log.warn({ err: error }, 'a terminal could not be resized');
    }
  }

  async function sendLatest(): Promise<void> {
    if (isSending) return;
    isSending = true;
    while (wantsRedraw || shellSize !== size) {
      if (wantsRedraw) {
        wantsRedraw = false;
        await send({ ...size, rows: size.rows > 1 ? size.rows - 1 : size.rows + 1 });
        await time.sleep(REDRAW_MS, signal).catch(() => {});
      }
      shellSize = size;
      await send(shellSize);
    }
    isSending = false;
  }

  return {
    get current() {
      return size;
    },
    set(next) {
      if (next.columns === size.columns && next.rows === size.rows) return false;
      size = next;
      void sendLatest();
      return true;
    },
    redraw() {
      wantsRedraw = true;
      void sendLatest();
    },
  };
}
