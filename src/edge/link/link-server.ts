/** HTTP server on a local socket, for the questions of Berth's other process. */
import { once } from 'node:events';
import { chmod, rm } from 'node:fs/promises';
import { createServer, ServerResponse, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Log } from '../../control/index.ts';
import { sendJson, sendRefusal } from './wire.ts';

interface LinkServerDeps {
  path: string;
  /** Resolves to the JSON of the answer, or answers by itself. */
  answer: (req: IncomingMessage, res: ServerResponse) => Promise<unknown>;
  upgrade?: (req: IncomingMessage, socket: Socket, head: Buffer) => Promise<void>;
  log: Pick<Log, 'error'>;
}

export interface LinkServer {
  stop(): Promise<void>;
}

/** Replaces the socket of a process that died. Only Berth's own user may open the new one. */
export async function serveLinkSocket({ path, answer, upgrade, log }: LinkServerDeps): Promise<LinkServer> {
  const server = createServer((req, res) => {
    answer(req, res)
      .then((body) => res.headersSent || sendJson(res, body))
      .catch((error: unknown) => sendRefusal(log, res, error));
  });
  if (upgrade)
    server.on('upgrade', (req, socket, head) => {
      socket.on('error', () => socket.destroy());
      if (!(socket instanceof Socket)) return void socket.destroy();
      upgrade(req, socket, head).catch((error: unknown) => {
        if (socket.destroyed) return;
        const res = new ServerResponse(req);
        res.shouldKeepAlive = false;
        res.assignSocket(socket);
        res.once('finish', () => socket.destroySoon());
        sendRefusal(log, res, error);
      });
    });
  await rm(path, { force: true });
  await once(server.listen(path), 'listening');
  await chmod(path, 0o600);
  return {
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
