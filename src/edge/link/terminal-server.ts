/** The gateway's server for terminals, which outlive a restart of the API. */
import { createServer, ServerResponse, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import { WebSocketServer } from 'ws';
import { MAX_MESSAGE_BYTES, TERMINAL_PROTOCOL } from '../../contract/exec.ts';
import type { TerminalHost, Log } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { carryTerminal } from '../socket/carry-terminal.ts';
import type { Line } from '../socket/socket-connection.ts';
import { listenAt } from './listen.ts';
import { refuse, say } from './replies.ts';
import { listQuestion, terminalPlace, terminalWish } from './wire.ts';

export interface ServedTerminals {
  stop(): Promise<void>;
}

export async function serveTerminals({
  path,
  terminals,
  log,
}: {
  /** Socket path. The socket of a process that died is replaced. */
  path: string;
  terminals: TerminalHost;
  log: Log;
}): Promise<ServedTerminals> {
  const lines = new Set<Line>();
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES,
    handleProtocols: () => TERMINAL_PROTOCOL,
  });

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    switch (`${req.method} ${req.url}`) {
      case 'POST /list':
        return say(res, await terminals.list(listQuestion.parse(await json(req)).instanceId));
      case 'POST /close':
        await terminals.close(terminalPlace.parse(await json(req)));
        return say(res, null);
      default:
        throw new Refusal('not_found', `nothing answers to ${req.method} ${req.url}`);
    }
  }

  async function attach(req: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const asked = new URL(req.url ?? '', 'http://berth.invalid');
    if (asked.pathname !== '/attach')
      throw new Refusal('not_found', `nothing answers to an upgrade at ${asked.pathname}`);
    const wish = terminalWish.parse(JSON.parse(asked.searchParams.get('wish') ?? ''));
    const gone = new AbortController();
    socket.once('close', () => gone.abort());
    const attached = await terminals.attach(wish, gone.signal);
    if (socket.destroyed) return attached.leave();
    let isUpgraded = false;
    sockets.handleUpgrade(req, socket, head, (made) => {
      isUpgraded = true;
      const line = carryTerminal({ socket: made, name: wish.name, attached });
      lines.add(line);
      void line.closed.then(() => lines.delete(line));
    });
    if (!isUpgraded) attached.leave();
  }

  const server = createServer((req, res) => {
    answer(req, res).catch((error: unknown) => refuse(log, res, error));
  });
  server.on('upgrade', (req, socket, head) => {
    socket.on('error', () => socket.destroy());
    if (!(socket instanceof Socket)) return void socket.destroy();
    attach(req, socket, head).catch((error: unknown) => {
      if (socket.destroyed) return;
      const res = new ServerResponse(req);
      res.shouldKeepAlive = false;
      res.assignSocket(socket);
      res.once('finish', () => socket.destroySoon());
      refuse(log, res, error);
    });
  });
  await listenAt(server, path);
  return {
    async stop() {
      for (const line of lines) line.close(1001, 'the process that holds the terminals stops');
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await Promise.all([closed, ...[...lines].map((line) => line.closed)]);
    },
  };
}
