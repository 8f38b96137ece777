/**
 * # WebSockets of the API
 *
 * Authorization, validation and the start of the command precede the handshake: a refusal is an
 * ordinary HTTP answer. Other upgrades are served as plain requests.
 */
import { ServerResponse, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { WebSocketServer, type WebSocket } from 'ws';
import type { z } from 'zod';
import { closeCodes, MAX_MESSAGE_BYTES } from '../../contract/compute/exec.ts';
import { BASE_PATH, routeNames, routeOf } from '../../contract/routes.ts';
import type { SocketRoute } from '../../contract/route.ts';
import type { Caller } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { SocketConnection, SocketConnectionDeps } from '../socket/socket-connection.ts';
import { isCheckSocket, openAndClose } from '../proxy-check.ts';
import { rowOptions, type StreamParts } from './mount.ts';
import { queryOf } from './request.ts';
import { pathOf } from './refusal-reply.ts';
import { plainAddress } from './request-path.ts';
import { makeValidate } from './validate.ts';

const PATHS: ReadonlySet<string> = new Set(
  routeNames.map(routeOf).flatMap(({ kind, path }) => (kind === 'socket' ? [BASE_PATH + path] : [])),
);
const TOKEN = /^[!#$%&'*+.^_`|~\w-]+$/;
const KEY = /^[+/0-9A-Za-z]{22}==$/;
/** Wait for close frames when the server stops. */
const STOP_MS = 1_000;

/** `shouldUpgradeCallback` of the HTTP server. */
export const isSocketRequest = ({ method, url = '', headers }: IncomingMessage, prefix: string): boolean =>
  method === 'GET' &&
  headers.upgrade?.toLowerCase() === 'websocket' &&
  isSocketPath(plainAddress(url, prefix)) &&
  headers['content-length'] === undefined &&
  headers['transfer-encoding'] === undefined;

const isSocketPath = (address: string): boolean => PATHS.has(pathOf(address)) || isCheckSocket(address);

export interface OpenedSocket {
  serve(socket: WebSocket, heartbeat: Pick<SocketConnectionDeps, 'endReason' | 'heartbeatMs'>): SocketConnection;
  /** Called if the handshake failed. */
  abandon(): void;
}

export interface SocketHandler<Query> {
  route: SocketRoute<z.ZodType<Query>>;
  /** Throws the refusal without starting anything. */
  check(caller: Caller, query: Query): Promise<void>;
  /** Throws a refusal. `gone` aborts when the client disconnects. */
  open(caller: Caller, query: Query, gone: AbortSignal): Promise<OpenedSocket>;
}

export type MountSocket = <Query>(handler: SocketHandler<Query>) => void;

export function mountSockets(
  app: FastifyInstance,
  { logins, authorize, recordRequest }: Pick<StreamParts, 'logins' | 'authorize' | 'recordRequest'>,
  { heartbeatMs, prefix = '' }: { heartbeatMs: number | undefined; prefix: string | undefined },
): MountSocket {
  const upgrades = new WeakMap<IncomingMessage, { socket: Socket; head: Buffer }>();
  const open = new Map<WebSocket, SocketConnection>();
  const protocols = new Set<string>();
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES,
    handleProtocols: (offered) => [...protocols].find((one) => offered.has(one)) ?? false,
  });

  app.server.on('upgrade', (request: IncomingMessage, socket, head: Buffer) => {
    socket.on('error', () => socket.destroy());
    if (!(socket instanceof Socket)) return void socket.destroy();
    if (isCheckSocket(plainAddress(request.url ?? '', prefix)))
      return openAndClose(socket, request.headers['sec-websocket-key']);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    try {
      response.assignSocket(socket);
    } catch {
      // Pipelined behind an unanswered request: must not write into that response.
      return void socket.destroy();
    }
    response.once('finish', () => socket.destroySoon());
    upgrades.set(request, { socket, head });
    app.routing(request, response);
  });
  let stopping = false;
  app.addHook('preClose', async () => {
    stopping = true;
    for (const line of open.values()) line.close(1001, 'the server is stopping');
    const all = Promise.all([...open.values()].map(({ closed }) => closed));
    await Promise.race([all, new Promise((resolve) => setTimeout(resolve, STOP_MS).unref())]);
    for (const socket of open.keys()) socket.terminate();
  });

  return ({ route, ...handler }) => {
    const validate = makeValidate(route.query, { unknown: 'refuse' });
    protocols.add(route.protocol);
    app.route({
      ...rowOptions(route),
      async handler(request, reply) {
        const caller = await authorize(request, route, reply);
        const query = validate(queryOf(request, route.query));
        const upgrade = upgrades.get(request.raw);
        if (upgrade === undefined) {
          // Browsers hide why a WebSocket failed; the same request without upgrade shows it.
          await handler.check(caller, query);
          throw new Refusal('field_value', `this is a WebSocket: ${HOW(route.protocol)}`);
        }
        checkHandshake(request, route.protocol);
        const { socket, head } = upgrade;
        const gone = new AbortController();
        socket.once('close', () => gone.abort(new Refusal('unavailable', 'the caller has disconnected')));
        let line: SocketConnection | undefined;
        const holder = { request, caller };
        const unwatch = logins.watch(holder, (why) => {
          if (line) line.close(closeCodes.loginEnded, why);
          else gone.abort(new Refusal('not_logged_in', why));
        });
        const begun = await handler.open(caller, query, gone.signal).catch((error: unknown) => {
          unwatch();
          gone.signal.throwIfAborted();
          throw error;
        });
        try {
          await recordRequest(request, reply);
        } catch (error) {
          unwatch();
          begun.abandon();
          throw error;
        }
        if (stopping || socket.destroyed || gone.signal.aborted) {
          unwatch();
          begun.abandon();
          gone.signal.throwIfAborted();
          throw new Refusal('unavailable', 'the server is stopping', { retryAfterS: 1 });
        }
        reply.hijack();
        reply.raw.detachSocket(socket);
        server.handleUpgrade(request.raw, socket, head, (made) => {
          const carried = begun.serve(made, {
            heartbeatMs,
            async endReason() {
              const why = await logins.whyEnded(holder);
              return why === null ? null : { code: closeCodes.loginEnded, why };
            },
          });
          line = carried;
          open.set(made, carried);
          void carried.closed.then(() => {
            unwatch();
            open.delete(made);
          });
        });
        if (line) return;
        unwatch();
        begun.abandon();
      },
    });
  };
}

const HOW = (protocol: string): string =>
  `send the headers "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key" and "Sec-WebSocket-Protocol: ${protocol}"`;

function checkHandshake({ headers }: FastifyRequest, protocol: string): void {
  const offered = headers['sec-websocket-protocol']?.split(',').map((one) => one.trim()) ?? [];
  const isGood =
    offered.includes(protocol) &&
    offered.every((one) => TOKEN.test(one)) &&
    new Set(offered).size === offered.length &&
    headers['sec-websocket-version'] === '13' &&
    KEY.test(headers['sec-websocket-key'] ?? '');
  if (!isGood) throw new Refusal('field_value', `this is not a handshake of ${protocol}: ${HOW(protocol)}`);
}
