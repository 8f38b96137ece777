import type { PseudoTtyInfo, ServerChannel, Session } from 'ssh2';
import type { TerminalSize } from '../../control/index.ts';
import { mayBeSet, type SessionProgram } from './session-commands.ts';
import { runProgram, type Program, type ProgramDeps } from './program.ts';

const MOST_VARIABLES = 128;
const MOST_TEXT = 32 * 1024;
const LARGEST_TERMINAL = 4_096;

export interface SessionDeps extends Omit<ProgramDeps, 'channel' | 'output' | 'request'> {
  /** Path of the forwarded agent in the instance. */
  agentPath: () => Promise<string | null>;
  session: Session;
  connection: string;
}

const sizeOf = ({ cols, rows }: Pick<PseudoTtyInfo, 'cols' | 'rows'>): TerminalSize => ({
  columns: Math.min(Math.max(1, cols || 80), LARGEST_TERMINAL),
  rows: Math.min(Math.max(1, rows || 24), LARGEST_TERMINAL),
});

export function serveSession(deps: SessionDeps): void {
  const { client, agentPath, session, connection } = deps;
  const env: Record<string, string> = { SSH_CONNECTION: connection, SSH_CLIENT: clientOf(connection) };
  let textSize = 0;
  let terminal: TerminalSize | null = null;
  let wantsAgent = false;
  let program: Program | null = null;

  session.on('pty', (accept, _reject, info) => {
    terminal = sizeOf(info);
    if (mayBeSet('TERM', info.term) && info.term.length < 128) env['TERM'] = info.term;
    accept?.();
  });
  session.on('window-change', (accept, _reject, info) => {
    terminal = sizeOf(info);
    program?.resize(terminal);
    accept?.();
  });
  session.on('env', (accept, reject, { key, val }) => {
    textSize += key.length + val.length;
    const isBounded = Object.keys(env).length < MOST_VARIABLES && textSize < MOST_TEXT;
    if (!isBounded || !mayBeSet(key, val)) return reject?.();
    env[key] = val;
    accept?.();
  });
  session.on('auth-agent', (accept) => {
    wantsAgent = true;
    accept?.();
  });
  session.on('signal', (accept, _reject, { name }) => {
    program?.signal(name);
    accept?.();
  });

  session.once('close', () => program?.leave());

  const run = (begun: SessionProgram, channel: ServerChannel): void => {
    const output = client.adopt(channel);
    const request = async () => {
      const socket = wantsAgent ? await agentPath() : null;
      return { begun, terminal, env: socket === null ? env : { ...env, SSH_AUTH_SOCK: socket } };
    };
    program = runProgram({ ...deps, channel, output, request });
  };
  session.on('shell', (accept) => run({ kind: 'shell' }, accept()));
  session.on('exec', (accept, reject, { command }) => {
    if (command.length > MOST_TEXT || command.includes('\0')) return reject?.();
    run({ kind: 'command', command }, accept());
  });
  session.on('subsystem', (accept, reject, { name }) => {
    if (name !== 'sftp') return reject?.();
    run({ kind: 'sftp' }, accept());
  });
}

const clientOf = (connection: string): string => {
  const [address = '', port = '', , ownPort = ''] = connection.split(' ');
  return `${address} ${port} ${ownPort}`;
};
