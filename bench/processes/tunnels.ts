/** Clients of upgraded connections on raw sockets: open, echo, and count cuts. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Socket } from 'node:net';
import { z } from 'zod';
import { answerAsks } from '../lib/child.ts';

const order = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('open'), port: z.number(), heads: z.array(z.string()).min(1), count: z.number() }),
  z.object({ kind: z.literal('echo'), bytes: z.number(), warmUpMs: z.number(), measureMs: z.number() }),
  z.object({ kind: z.literal('cut') }),
]);

const AT_ONCE = 32;
const tunnels: Socket[] = [];
let cut = 0;

async function openOne(port: number, head: string): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  socket.write(head);
  const answer: unknown = (await once(socket, 'data'))[0];
  if (!String(answer).startsWith('HTTP/1.1 101')) throw new Error(`no upgrade: ${String(answer).slice(0, 300)}`);
  socket.on('close', () => (cut += 1));
  // Detects the end.
  socket.resume();
  tunnels.push(socket);
}

async function open({ port, heads, count }: { port: number; heads: string[]; count: number }): Promise<null> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await openOne(port, heads[next++ % heads.length] ?? '');
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return null;
}

/** Echoes over each connection, one message at a time; returns the number. */
async function echo({ bytes, warmUpMs, measureMs }: { bytes: number; warmUpMs: number; measureMs: number }) {
  const message = Buffer.alloc(bytes, 'x');
  let received = 0;
  let isOver = false;
  const stops = tunnels.map((socket) => {
    let missing = bytes;
    const onData = (chunk: Buffer): void => {
      missing -= chunk.length;
      if (missing > 0) return;
      received += 1;
      missing = bytes;
      if (!isOver) socket.write(message);
    };
    socket.on('data', onData);
    socket.write(message);
    return () => socket.off('data', onData);
  });
  await sleep(warmUpMs);
  const [beganMs, before, cpu] = [performance.now(), received, process.cpuUsage()];
  await sleep(measureMs);
  const seconds = (performance.now() - beganMs) / 1000;
  const count = received - before;
  const { user, system } = process.cpuUsage(cpu);
  isOver = true;
  await sleep(100);
  for (const stop of stops) stop();
  return { count, seconds, clientShare: (user + system) / 1e6 / seconds };
}

answerAsks(
  async (question) => {
    const wanted = order.parse(question);
    if (wanted.kind === 'open') return open(wanted);
    return wanted.kind === 'echo' ? echo(wanted) : cut;
  },
  async () => process.exit(0),
);
