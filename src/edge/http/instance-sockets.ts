/**
 * `GET /api/instance/exec`, protocol `berth.exec.v1` (docs/reference/terminal.md). A disconnect
 * kills.
 */
import { drained } from '../../async/abort.ts';
import type { Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { z } from 'zod';
import { channels, closeCodes, signalMessage, terminalSize } from '../../contract/exec.ts';
import { routes } from '../../contract/routes.ts';
import type { Commands, OpenExec, Log, Terminals } from '../../control/index.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import {
  BadMessage,
  makeSocketConnection,
  type SocketConnection,
  type SocketConnectionDeps,
} from '../socket/socket-connection.ts';
import type { SocketHandler } from './sockets.ts';
import { bridgeTerminal } from '../socket/carry-terminal.ts';

interface ExecDeps {
  commands: Pick<Commands, 'open' | 'check'>;
  log: Pick<Log, 'warn'>;
}

export const execSocket = ({
  commands,
  log,
}: ExecDeps): SocketHandler<z.output<(typeof routes)['openExec']['query']>> => ({
  route: routes.openExec,
  check: (caller, { instanceId }) => commands.check(caller, instanceId),
  async open(caller, { terminal, columns, rows, timeoutSeconds, ...command }, gone) {
    const size = terminal ? { columns, rows } : null;
    const running = await commands.open(caller, { ...command, terminal: size }, gone);
    const kill = (): void =>
      void running.kill().catch((error: unknown) => log.warn({ err: error }, 'a command could not be killed'));
    return {
      abandon: kill,
      serve: (socket, heartbeat) => serve({ socket, heartbeat, running, kill, timeoutSeconds }),
    };
  },
});

interface ServedExec {
  socket: WebSocket;
  heartbeat: Pick<SocketConnectionDeps, 'endReason' | 'heartbeatMs'>;
  running: OpenExec;
  kill: () => void;
  timeoutSeconds: number | undefined;
}

function serve({ socket, heartbeat, running, kill, timeoutSeconds }: ServedExec): SocketConnection {
  const line = makeSocketConnection({
    socket,
    badMessage: closeCodes.badMessage,
    ...heartbeat,
    onMessage: (data, isText) => handleMessage(running, data, isText),
  });
  let timedOut = false;
  const timer =
    timeoutSeconds === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true;
          kill();
        }, timeoutSeconds * 1_000);
  void line.closed.then(() => {
    clearTimeout(timer);
    for (const stream of [running.stdout, running.stderr]) stream.destroy();
    kill();
  });
  const toItsEnd = async (): Promise<void> => {
    await Promise.all([pump(running.stdout, channels.stdout, line), pump(running.stderr, channels.stderr, line)]);
    const exitCode = await running.exited;
    await line.send(Buffer.from(JSON.stringify({ exitCode })), Buffer.of(channels.exit));
    line.close(
      timedOut ? closeCodes.timedOut : 1000,
      timedOut ? 'it was killed at its time limit' : 'the command ended',
    );
  };
  toItsEnd().catch((error: unknown) => {
    if (!(error instanceof EngineFault)) return line.close(1011, 'the server failed');
    line.close(error.kind === 'unreachable' ? closeCodes.lost : closeCodes.ended, error.message);
  });
  return line;
}

async function pump(stream: Readable, channel: number, line: SocketConnection): Promise<void> {
  for await (const chunk of stream) await line.send(chunk, Buffer.of(channel));
}

function handleMessage(running: OpenExec, data: Buffer, isText: boolean): Promise<void> | void {
  if (isText) throw new BadMessage('messages are binary, and their first byte is the channel');
  const rest = data.subarray(1);
  switch (data[0]) {
    case channels.stdin:
      return writeStdin(running, rest);
    case channels.resize:
      return resize(running, parsed(terminalSize, rest, '{"columns":…,"rows":…}, each from 1 to 1000'));
    case channels.signal:
      return signal(
        running,
        parsed(signalMessage, rest, '{"signal":"TERM"}, or another that docs/reference/terminal.md names'),
      );
    default:
      throw new BadMessage('the first byte of a message is 0 (stdin), 4 (resize) or 5 (signal)');
  }
}

/** An empty message closes stdin. Input after the end is dropped. */
function writeStdin({ stdin }: OpenExec, bytes: Buffer): Promise<void> | void {
  if (stdin.destroyed || stdin.writableEnded) return;
  if (bytes.length === 0) return void stdin.end();
  if (!stdin.write(bytes)) return drained(stdin);
}

async function resize(running: OpenExec, size: z.output<typeof terminalSize>): Promise<void> {
  await running.resize(size).catch(() => {}); // the exit reports the failure
}

async function signal(running: OpenExec, { signal: name }: z.output<typeof signalMessage>): Promise<void> {
  await running.kill(name).catch((error: unknown) => {
    throw error instanceof EngineFault ? new BadMessage(error.message) : error;
  });
}

function parsed<Schema extends z.ZodType>(schema: Schema, bytes: Buffer, words: string): z.output<Schema> {
  try {
    return schema.parse(JSON.parse(bytes.toString('utf8')));
  } catch {
    throw new BadMessage(`this message is ${words}`);
  }
}

/** WebSocket of terminals, `berth.terminal.v1` (docs/reference/terminal.md). */
interface TerminalDeps {
  terminals: Pick<Terminals, 'attach'>;
  commands: Pick<Commands, 'check'>;
}

export const terminalSocket = ({
  terminals,
  commands,
}: TerminalDeps): SocketHandler<z.output<(typeof routes)['openTerminal']['query']>> => ({
  route: routes.openTerminal,
  check: (caller, { instanceId }) => commands.check(caller, instanceId),
  async open(caller, { instanceId, terminal: name, columns, rows }, gone) {
    const attached = await terminals.attach(caller, { instanceId, name, size: { columns, rows } }, gone);
    return {
      abandon: () => attached.leave(),
      serve: (socket, heartbeat) => bridgeTerminal({ socket, name, attached, ...heartbeat }),
    };
  },
});
