/**
 * Clients that send half a request head and then nothing, from several addresses. A connection that
 * the server closes is opened again after a pause.
 */
import { connect, type Socket } from 'node:net';
import { constants, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { answerAsks } from '../lib/child.ts';

const order = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('open'), port: z.number(), count: z.number(), addresses: z.array(z.string()).min(1) }),
  z.object({ kind: z.literal('count') }),
]);

const HALF_A_HEAD = 'GET /healthz HTTP/1.1\r\nHost: h\r\nX-Half: ';
const AT_ONCE = 50;
const PAUSE_MS = 25;
const RETRY_MS = 1_000;

const open = new Set<Socket>();
let retries = 0;

function openOne(port: number, localAddress: string): void {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  socket.on('error', () => {}).resume();
  socket.once('connect', () => open.add(socket));
  socket.once('close', () => {
    open.delete(socket);
    setTimeout(() => {
      retries += 1;
      openOne(port, localAddress);
    }, RETRY_MS);
  });
  socket.write(HALF_A_HEAD);
}

// Low priority: the load on the server is measured, not the load on the machine.
setPriority(constants.priority.PRIORITY_LOW);

answerAsks(
  async (question) => {
    const wanted = order.parse(question);
    if (wanted.kind === 'count') return { open: open.size, retries };
    const { port, count, addresses } = wanted;
    for (let n = 0; n < count; n += 1) {
      openOne(port, addresses[n % addresses.length] ?? '');
      if (n % AT_ONCE === AT_ONCE - 1) await sleep(PAUSE_MS);
    }
    return null;
  },
  async () => process.exit(0),
);
