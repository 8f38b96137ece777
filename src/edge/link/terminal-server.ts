/** The gateway's server for terminals, which outlive a restart of the API. */
import { createServer, ServerResponse, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import { WebSocketServer } from 'ws';
import { MAX_MESSAGE_BYTES, TERMINAL_PROTOCOL } from '../../contract/exec.ts';
import type { TerminalHost, Log } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { bridgeTerminal } from '../socket/carry-terminal.ts';
import type { SocketConnection } from '../socket/socket-connection.ts';
import { listenAt } from './listen.ts';
import { sendRefusal, sendJson, listQuestion, terminalKey, terminalRequest } from './wire.ts';

export interface TerminalServer {
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
}): Promise<TerminalServer> {
  const connections = new Set<SocketConnection>();
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
        return sendJson(res, await terminals.list(listQuestion.parse(await json(req)).instanceId));
      case 'POST /close':
        await terminals.close(terminalKey.parse(await json(req)));
        return sendJson(res, null);
      default:
        throw new Refusal('not_found', `nothing answers to ${req.method} ${req.url}`);
    }
  }

  async function attach(req: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const url = new URL(req.url ?? '', 'http://berth.invalid');
    if (url.pathname !== '/attach') throw new Refusal('not_found', `nothing answers to an upgrade at ${url.pathname}`);
    const request = terminalRequest.parse(JSON.parse(url.searchParams.get('wish') ?? ''));
    const gone = new AbortController();
    socket.once('close', () => gone.abort());
    const attached = await terminals.attach(request, gone.signal);
    if (socket.destroyed) return attached.leave();
    let isUpgraded = false;
    sockets.handleUpgrade(req, socket, head, (upgraded) => {
      isUpgraded = true;
      const connection = bridgeTerminal({ socket: upgraded, name: request.name, attached });
      connections.add(connection);
      void connection.closed.then(() => connections.delete(connection));
    });
    if (!isUpgraded) attached.leave();
  }

  const server = createServer((req, res) => {
    answer(req, res).catch((error: unknown) => sendRefusal(log, res, error));
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
      sendRefusal(log, res, error);
    });
  });
  await listenAt(server, path);
  return {
    async stop() {
      for (const connection of connections) connection.close(1001, 'the process that holds the terminals stops');
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await Promise.all([closed, ...[...connections].map((connection) => connection.closed)]);
    },
  };
}
