/** HTTP that Node's parser refuses behind other requests of its connection. */
import type { Duplex } from 'node:stream';

/** The exchanges of a connection whose responses are not sent yet, in the order of the requests. */
export type PendingExchanges = ReadonlyMap<
  { once(event: 'close', listener: () => void): unknown },
  { complete: boolean }
>;

const waiting = new WeakSet<Duplex>();
const LINGER_MS = 2_000;

/** Lets the client read the answer: closing at once would reset what it still sends. */
export function endLate(socket: Duplex, answer: string | Buffer): void {
  socket.end(answer);
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
