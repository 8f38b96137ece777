/**
 * WebSockets of commands, `berth.exec.v1`, and of terminals, `berth.terminal.v1`
 * (docs/reference/terminal.md). A disconnect kills a command.
 */
import { drained } from '../../../async/abort.ts';
import type { Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { z } from 'zod';
import { channels, closeCodes, signalMessage, terminalSize } from '../../../contract/compute/exec.ts';
import { routes } from '../../../contract/routes.ts';
import type { Control, OpenExec, Log } from '../../../control/index.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { BadMessage, makeSocketConnection, parseMessage } from '../../socket/socket-connection.ts';
import type { SocketConnection, SocketConnectionDeps } from '../../socket/socket-connection.ts';
import type { SocketHandler } from '../sockets.ts';
import { bridgeTerminal } from '../../socket/carry-terminal.ts';

export const execSocket = (
  { commands }: Control,
  log: Pick<Log, 'warn'>,
): SocketHandler<z.output<(typeof routes)['openExec']['query']>> => ({
  route: routes.openExec,
  check: (caller, { instanceId }) => commands.check(caller, instanceId),
  async open(caller, { terminal, columns, rows, timeoutSeconds, ...command }, gone) {
    const size = terminal ? { columns, rows } : null;
    const running = await commands.open(caller, { ...command, terminal: size }, gone);
    const kill = (): void =>
      void running.kill().catch((error: unknown) => log.warn({ err: error }, 'a command could not be killed'));
    return {
      abandon: kill,
      serve: (socket, heartbeat) => serve(running, kill, timeoutSeconds, socket, heartbeat),
    };
  },
});

type Heartbeat = Pick<SocketConnectionDeps, 'endReason' | 'heartbeatMs'>;

function serve(
  running: OpenExec,
  kill: () => void,
  limitSeconds: number | undefined,
  socket: WebSocket,
  heartbeat: Heartbeat,
): SocketConnection {
  const onMessage = (data: Buffer, isText: boolean) => handleMessage(running, data, isText);
  const line = makeSocketConnection({ socket, badMessage: closeCodes.badMessage, ...heartbeat, onMessage });
  let timedOut = false;
  const onTimeout = (): void => {
    timedOut = true;
    kill();
  };
  const timer = limitSeconds === undefined ? undefined : setTimeout(onTimeout, limitSeconds * 1_000);
  void line.closed.then(() => {
    clearTimeout(timer);
    for (const stream of [running.stdout, running.stderr]) stream.destroy();
    kill();
  });
  const toItsEnd = async (): Promise<void> => {
    await Promise.all([pump(running.stdout, channels.stdout, line), pump(running.stderr, channels.stderr, line)]);
    const exitCode = await running.exited;
    await line.send(Buffer.from(JSON.stringify({ exitCode })), Buffer.of(channels.exit));
    if (timedOut) line.close(closeCodes.timedOut, 'the command was killed at its time limit');
    else line.close(1000, 'the command ended');
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
  if (isText) throw new BadMessage('messages must be binary, with the channel as the first byte');
  const rest = data.subarray(1);
  switch (data[0]) {
    case channels.stdin:
      return writeStdin(running, rest);
    case channels.resize:
      // The exit reports a failure.
      return running.resize(parseMessage(terminalSize, rest, SIZE_FORM)).catch(() => {});
    case channels.signal:
      return running.kill(parseMessage(signalMessage, rest, SIGNAL_FORM).signal).catch((error: unknown) => {
        throw error instanceof EngineFault ? new BadMessage(error.message) : error;
      });
    default:
      throw new BadMessage('the first byte of a message must be 0 (stdin), 4 (resize) or 5 (signal)');
  }
}

/** An empty message closes stdin. Input after the end is dropped. */
function writeStdin({ stdin }: OpenExec, bytes: Buffer): Promise<void> | void {
  if (stdin.destroyed || stdin.writableEnded) return;
  if (bytes.length === 0) return void stdin.end();
  if (!stdin.write(bytes)) return drained(stdin);
}

const SIZE_FORM = 'this message must be {"columns":…,"rows":…}, each from 1 to 1000';
const SIGNAL_FORM = 'this message must be {"signal":"TERM"}, or another signal of docs/reference/terminal.md';

export const terminalSocket = ({
  terminals,
  commands,
}: Control): SocketHandler<z.output<(typeof routes)['openTerminal']['query']>> => ({
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
