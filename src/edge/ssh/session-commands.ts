/** Commands of a session, as sshd starts them. The first output is the process id, for signals. */
import type { ExecRequest, TerminalSize } from '../../control/index.ts';

export type SessionProgram = { kind: 'shell' } | { kind: 'command'; command: string } | { kind: 'sftp' };

/** Appended to PATH, as in `images/start.sh`. */
const FOLDERS =
  '/usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin /opt/conda/bin /opt/berth/bin /root/.local/bin';
const SFTP_SERVERS =
  '/usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server /usr/libexec/sftp-server /opt/berth/bin/sftp-server';

const BEGIN = `
if [ "$3" = terminal ]; then echo $$; SSH_TTY=$(tty 2>/dev/null) && export SSH_TTY; else echo $$ >&2; fi
HOME=/root USER=root LOGNAME=root LANG="\${LANG:-C.UTF-8}" SHELL=
for dir in ${FOLDERS}; do
  case ":$PATH:" in *":$dir:"*) ;; *) PATH=$PATH:$dir ;; esac
done
while IFS=: read -r user _ _ _ _ _ shell; do
  [ "$user" != root ] || SHELL=$shell
done 2>/dev/null </etc/passwd
case $SHELL in */nologin | */false) SHELL= ;; esac
[ -x "$SHELL" ] || SHELL=$(command -v bash || command -v sh)
export HOME USER LOGNAME LANG SHELL PATH
unset OLDPWD
cd /root 2>/dev/null || cd /
[ ! -r /etc/berth/env ] || . /etc/berth/env
case $1 in
  shell) exec "$SHELL" -l ;;
  command) exec "$SHELL" -c "$2" ;;
esac
for program in ${SFTP_SERVERS}; do
  [ ! -x "$program" ] || exec "$program"
done
echo 'this image has no sftp-server, and this installation of Berth provides none: install openssh-sftp-server in the instance' >&2
exit 127
`;

/** Signals a process group. HUP also reaches the foreground group of its terminal. */
const SIGNAL = `
read -r stat </proc/$2/stat || exit 1
set -- "$1" "$2" \${stat##*) }
kill -s "$1" -- "-$2" 2>/dev/null
case $1 in HUP) [ "$8" -le 1 ] || [ "$8" = "$2" ] || kill -s HUP -- "-$8" 2>/dev/null ;; esac
`;

/** Hangs up all ssh sessions on a terminal that were started from outside the instance. */
const HANG_UP = `
for process in /proc/[0-9]*; do
  read -r stat 2>/dev/null <$process/stat || continue
  set -- \${stat##*) }
  [ "$2" = 0 ] && [ "$5" != 0 ] && grep -qs SSH_CONNECTION= $process/environ || continue
  pid=\${process#/proc/}
  kill -s HUP -- "-$pid" "-$6" 2>/dev/null
done
`;

const shell = (script: string, ...given: string[]): string[] => ['/bin/sh', '-c', script, 'berth-ssh', ...given];

export interface SessionRequest {
  begun: SessionProgram;
  env: Readonly<Record<string, string>>;
  terminal: TerminalSize | null;
}

export const sessionExecRequest = ({ begun, env, terminal }: SessionRequest): ExecRequest => ({
  command: shell(BEGIN, begun.kind, begun.kind === 'command' ? begun.command : '', terminal === null ? '' : 'terminal'),
  env,
  terminal,
});

/** Signals that a client may send (RFC 4254 §6.10), with their Linux numbers. */
export const signalNumbers: Readonly<Record<string, number>> = {
  HUP: 1,
  INT: 2,
  QUIT: 3,
  ILL: 4,
  ABRT: 6,
  FPE: 8,
  KILL: 9,
  USR1: 10,
  SEGV: 11,
  USR2: 12,
  PIPE: 13,
  ALRM: 14,
  TERM: 15,
};

export const killCommand = (signal: string, pid: number): string[] => shell(SIGNAL, signal, String(pid));

export const hangUpCommand: readonly string[] = shell(HANG_UP);

const LONGEST_PID = 12;

/** Null: incomplete. */
export function readPid(bytes: Buffer): { pid: number | null; rest: Buffer } | null {
  const end = bytes.indexOf('\n');
  if (end === -1 && bytes.length < LONGEST_PID) return null;
  const said = /^\d+$/.exec(bytes.subarray(0, Math.max(end, 0)).toString('latin1').trim());
  return said === null ? { pid: null, rest: bytes } : { pid: Number(said[0]), rest: bytes.subarray(end + 1) };
}

/** Images have few locales, and an unknown one breaks programs. */
const NOT_THE_CLIENTS =
  /^(HOME|USER|LOGNAME|SHELL|PATH|MAIL|LANG|LANGUAGE|LC_.*|SSH_.*|BERTH_.*|LD_.*|ENV|BASH_ENV|IFS)$/;

export const mayBeSet = (name: string, value: string): boolean =>
  /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) && !NOT_THE_CLIENTS.test(name) && !value.includes('\0');
