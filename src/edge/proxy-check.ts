/**
 * Answers to a check of the proxies in front of the API, the gateway and hosts of ports: how a
 * request arrived, a stream, a body and a WebSocket. They need no login, and tell nothing else.
 */
import { createHash } from 'node:crypto';
import type { Duplex } from 'node:stream';
import {
  CHECK_BODY_BYTES,
  CHECK_PATHS,
  CHECK_STREAM_MS,
  CLAIMED_ADDRESS,
  type SeenRequest,
} from '../contract/proxy-check.ts';
import type { AddressMatcher } from './address-list.ts';
import type { ClientRequest, ClientResponse } from './gateway/client-exchange.ts';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const CLOSE_NORMALLY = Buffer.from([0x88, 2, 0x03, 0xe8]);
const JSON_TYPE = 'application/json; charset=utf-8';
/** Read of a body that is refused, so that its sender reads the answer. */
const MAX_READ_BYTES = 8 * CHECK_BODY_BYTES;

export const isCheck = (url: string): boolean => url.startsWith(CHECK_PATHS.request);

export const isCheckSocket = (url: string): boolean => url === CHECK_PATHS.socket;

interface Arrival {
  listener: SeenRequest['listener'];
  /** Client's address. */
  address: string;
  scheme: string;
  host: string | undefined;
  tls: boolean;
  isForwarded: boolean;
  isTrusted: boolean;
  isProxy: AddressMatcher;
}

/** Addresses of the gateway and of a port's host. */
export function gatewayAddresses({ gatewayOrigin, portDomain }: GatewayPlace): string[] {
  if (!portDomain) return [gatewayOrigin];
  return [gatewayOrigin, `${new URL(gatewayOrigin).protocol}//check.${portDomain}`];
}

export interface GatewayPlace {
  gatewayOrigin: string;
  portDomain?: string | null;
}

export const seenRequest = ({
  listener,
  address,
  scheme,
  host = '',
  tls,
  isForwarded,
  isTrusted,
  isProxy,
}: Arrival): SeenRequest => ({
  listener,
  scheme,
  host,
  tls,
  forwarded: isForwarded ? (isTrusted ? 'counts' : 'ignored') : 'none',
  client: address === CLAIMED_ADDRESS ? 'claimed' : isProxy(address) ? 'proxy' : 'other',
});

/** Opens the WebSocket and closes it. */
export function openAndClose(socket: Duplex, key: string | undefined): void {
  const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64');
  const head = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade'];
  socket.on('error', () => socket.destroy());
  socket.end(
    Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`), CLOSE_NORMALLY]),
  );
  socket.resume();
}

export function serveCheck(req: ClientRequest, res: ClientResponse, url: string, seen: SeenRequest): void {
  const send = (status: number, body: object): void => {
    begin(res, status, JSON_TYPE);
    res.end(Buffer.from(JSON.stringify(body)));
  };
  switch (url) {
    case CHECK_PATHS.request:
      return send(200, seen);
    case CHECK_PATHS.stream:
      return holdStream(res);
    case CHECK_PATHS.body:
      return countBody(req, res, send);
    case CHECK_PATHS.socket:
      return send(400, { message: 'this is a WebSocket: send "Connection: Upgrade" and "Upgrade: websocket"' });
    default:
      return send(404, { message: `the paths of the check are ${Object.values(CHECK_PATHS).join(', ')}` });
  }
}

/** Pages of the console ask the gateway as well. */
const CHECK_HEADERS = {
  'Cache-Control': 'no-store',
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Headers': '*',
  'X-Content-Type-Options': 'nosniff',
};

const begin = (res: ClientResponse, status: number, type: string): unknown =>
  res.writeHead(status, undefined, Object.entries({ ...CHECK_HEADERS, 'Content-Type': type }).flat());

function holdStream(res: ClientResponse): void {
  begin(res, 200, 'text/event-stream');
  res.write(Buffer.from('data: first\n\n'));
  const timer = setTimeout(() => res.end(Buffer.from('data: last\n\n')), CHECK_STREAM_MS);
  res.once('close', () => clearTimeout(timer));
}

function countBody(req: ClientRequest, res: ClientResponse, send: (status: number, body: object) => void): void {
  let bytes = 0;
  req.on('data', (chunk) => {
    bytes += chunk.length;
    if (bytes > MAX_READ_BYTES) req.destroy();
    else if (bytes > CHECK_BODY_BYTES && !res.headersSent)
      send(413, { message: `the body is too large: at most ${CHECK_BODY_BYTES} bytes are read` });
  });
  req.on('end', () => {
    if (!res.headersSent) send(200, { bytes });
  });
  req.resume();
}
