/** The gateway's server for terminals, which outlive a restart of the API. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { json } from 'node:stream/consumers';
import { WebSocketServer } from 'ws';
import { MAX_MESSAGE_BYTES, TERMINAL_PROTOCOL } from '../../contract/compute/exec.ts';
import type { TerminalHost, Log } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { bridgeTerminal } from '../socket/carry-terminal.ts';
import type { SocketConnection } from '../socket/socket-connection.ts';
import type { LinkAddress } from './link-address.ts';
import { serveLinkAt, type LinkServer } from './link-server.ts';
import { listQuestion, terminalKey, terminalRequest } from './wire.ts';

interface TerminalServerDeps {
  address: LinkAddress;
  terminals: TerminalHost;
  log: Log;
}

export async function serveTerminals({ address, terminals, log }: TerminalServerDeps): Promise<LinkServer> {
  const connections = new Set<SocketConnection>();
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES,
    handleProtocols: () => TERMINAL_PROTOCOL,
  });

  async function answer(req: IncomingMessage): Promise<unknown> {
    switch (`${req.method} ${req.url}`) {
      case 'POST /list':
        return terminals.list(listQuestion.parse(await json(req)).instanceId);
      case 'POST /close':
        await terminals.close(terminalKey.parse(await json(req)));
        return null;
      default:
        throw new Refusal('not_found', `nothing answers to ${req.method} ${req.url}`);
    }
  }

  async function upgrade(req: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const url = new URL(req.url ?? '', 'http://berth.invalid');
    if (url.pathname !== '/attach') throw new Refusal('not_found', `nothing answers to an upgrade at ${url.pathname}`);
    const request = terminalRequest.parse(JSON.parse(url.searchParams.get('request') ?? ''));
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

  const server = await serveLinkAt({ address, answer, upgrade, log });
  return {
    async stop() {
      for (const connection of connections) connection.close(1001, 'the process that holds the terminals is stopping');
      await Promise.all([server.stop(), ...[...connections].map((connection) => connection.closed)]);
    },
  };
}
