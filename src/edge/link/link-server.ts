/** HTTP server of a link, for the questions of Berth's other process. */
import { once } from 'node:events';
import { chmod, rm } from 'node:fs/promises';
import { ServerResponse, type IncomingMessage, type Server } from 'node:http';
import { Socket } from 'node:net';
import type { Log } from '../../control/index.ts';
import { makeLinkListener, type LinkAddress } from './link-address.ts';
import { sendJson, sendRefusal } from './wire.ts';

interface LinkServerDeps {
  address: LinkAddress;
  /** Resolves to the JSON of the answer, or answers by itself. */
  answer: (req: IncomingMessage, res: ServerResponse) => Promise<unknown>;
  upgrade?: (req: IncomingMessage, socket: Socket, head: Buffer) => Promise<void>;
  log: Pick<Log, 'error'>;
}

export interface LinkServer {
  stop(): Promise<void>;
}

/** Serves a link until `stop`. */
export async function serveLinkAt({ address, answer, upgrade, log }: LinkServerDeps): Promise<LinkServer> {
  const serve = (req: IncomingMessage, res: ServerResponse): void => {
    answer(req, res)
      .then((body) => res.headersSent || sendJson(res, body))
      .catch((error: unknown) => sendRefusal(log, res, error));
  };
  const server = makeLinkListener(address, serve, log);
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
  await listen(server, address);
  return {
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Replaces the socket of a process that died. Only Berth's own user may open the new one. */
async function listen(server: Server, address: LinkAddress): Promise<void> {
  if (typeof address !== 'string') {
    const { host, port } = address;
    return void (await once(server.listen({ host, port }), 'listening'));
  }
  await rm(address, { force: true });
  await once(server.listen(address), 'listening');
  await chmod(address, 0o600);
}
