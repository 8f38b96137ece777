/** A terminal over a WebSocket in `berth.terminal.v1` (docs/reference/terminal.md). */
import type { WebSocket } from 'ws';
import { closeCodes, terminalClientMessage, type terminalServerMessage } from '../../contract/compute/exec.ts';
import type { AttachedTerminal, TerminalMessage } from '../../control/index.ts';
import type { z } from 'zod';
import { makeSocketConnection, parseMessage } from './socket-connection.ts';
import type { SocketConnection, SocketConnectionDeps } from './socket-connection.ts';

interface TerminalBridgeOptions extends Pick<SocketConnectionDeps, 'endReason' | 'heartbeatMs'> {
  socket: WebSocket;
  name: string;
  attached: AttachedTerminal;
}

/** Resolves when either side ends. */
export function bridgeTerminal({ socket, name, attached, ...heartbeat }: TerminalBridgeOptions): SocketConnection {
  const connection = makeSocketConnection({
    socket,
    badMessage: closeCodes.badMessage,
    ...heartbeat,
    onMessage: (data, isText) =>
      isText ? attached.resize(parseMessage(terminalClientMessage, data, SIZE_FORM)) : attached.type(data),
  });
  void connection.closed.then(() => attached.leave());
  const send = (message: z.output<typeof terminalServerMessage>): Promise<void> =>
    connection.send(JSON.stringify(message));
  const run = async (): Promise<void> => {
    try {
      await send({ type: 'attached', terminal: name, created: attached.created, ...attached.size });
      for await (const message of attached.messages) await forwardMessage(message, connection, send);
    } catch {
      // The socket is closed or closing.
      connection.close(1011, 'the server failed');
    } finally {
      attached.leave();
    }
  };
  void run();
  return connection;
}

async function forwardMessage(
  message: TerminalMessage,
  connection: SocketConnection,
  send: (terminalMessage: z.output<typeof terminalServerMessage>) => Promise<void>,
): Promise<void> {
  switch (message.kind) {
    case 'output':
      return connection.send(message.bytes);
    case 'reset':
      return send({ type: 'reset' });
    case 'size':
      return send({ type: 'size', columns: message.columns, rows: message.rows });
    case 'ended':
      if (message.exitCode === null) return connection.close(closeCodes.ended, message.why);
      await send({ type: 'exit', exitCode: message.exitCode });
      return connection.close(1000, message.why);
    case 'lost':
      return connection.close(closeCodes.lost, message.why);
    default:
      return message satisfies never;
  }
}

const SIZE_FORM = 'a text message must be {"type":"resize","columns":…,"rows":…}, each from 1 to 1000';
