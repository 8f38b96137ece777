/** HTTP that Node's parser refuses behind other requests of its connection. */
import type { Duplex } from 'node:stream';

/** The exchanges of a connection whose responses are not sent yet, in the order of the requests. */
export type PendingExchanges = ReadonlyMap<
  { once(event: 'close', listener: () => void): unknown },
  { complete: boolean }
>;

const waiting = new WeakSet<Duplex>();
const refused = new WeakSet<Duplex>();
const LINGER_MS = 2_000;

/** Lets the client read the answer: closing at once would reset what it still sends. */
export function endLate(socket: Duplex, answer: string | Buffer): void {
  socket.end(answer);
  destroyLate(socket);
}

function destroyLate(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('end', () => socket.destroy()).once('close', () => clearTimeout(timer));
}

/**
 * Calls `answer` once the responses to all complete requests are sent. A request whose body is
 * malformed is still pending then. Each further packet is an error too, and is ignored.
 */
export function answerInTurn(socket: Duplex, pending: PendingExchanges, answer: () => void): void {
  if (waiting.has(socket)) return;
  const before = [...pending].findLast(([, request]) => request.complete);
  if (before === undefined) return answer();
  waiting.add(socket);
  before[0].once('close', () => {
    if (socket.writable) answer();
  });
}

/** SETTINGS, then RST_STREAM of stream 1 with the code HTTP_1_1_REQUIRED (RFC 9113, section 7). */
const HTTP_1_1_REQUIRED = Buffer.from('0000000400000000000000040300000000010000000d', 'hex');

interface ParseError extends NodeJS.ErrnoException {
  rawPacket?: unknown;
}

/**
 * Asks a client whose connection begins with HTTP/2 for HTTP/1.1, which curl then sends. The client
 * closes: an end behind the frames would hide them from it.
 */
export function refuseHttp2(socket: Duplex, { code, rawPacket }: ParseError): boolean {
  if (code !== 'HPE_PAUSED_H2_UPGRADE') return false;
  if (refused.has(socket)) return true;
  if (!Buffer.isBuffer(rawPacket) || Reflect.get(socket, 'bytesRead') !== rawPacket.length) return false;
  refused.add(socket);
  socket.write(HTTP_1_1_REQUIRED);
  destroyLate(socket);
  return true;
}
