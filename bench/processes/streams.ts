/** Clients of large bodies on raw sockets: one at full speed, and many that do not read. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { z } from 'zod';
import { answerAsks } from '../lib/child.ts';

const order = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['take', 'send']), port: z.number(), head: z.string(), bytes: z.number() }),
  z.object({ kind: z.literal('stall'), port: z.number(), head: z.string(), count: z.number() }),
]);

const READ_BUFFER_BYTES = 256 * 1024;
const CHUNK = Buffer.alloc(65_536, 'x');
const HEAD_END = '\r\n\r\n';
const stalled: Socket[] = [];

/** Seconds from the first request byte to the last response byte. */
async function take({ port, head, bytes }: { port: number; head: string; bytes: number }): Promise<number> {
  const whole = Promise.withResolvers<void>();
  /** -1 before the head is complete, which arrives in the first piece. */
  let left = -1;
  const callback = (size: number, buffer: Uint8Array): boolean => {
    if (left >= 0) left -= size;
    else {
      const text = Buffer.from(buffer.buffer, buffer.byteOffset, size).toString('latin1');
      const end = text.indexOf(HEAD_END);
      if (!text.startsWith('HTTP/1.1 200') || end < 0) whole.reject(new Error(`not a 200: ${text.slice(0, 300)}`));
      left = bytes - (size - end - HEAD_END.length);
    }
    if (left === 0) whole.resolve();
    return true;
  };
  const onread = { buffer: Buffer.allocUnsafe(READ_BUFFER_BYTES), callback };
  const socket = connect({ port, host: '127.0.0.1', onread });
  socket.on('error', whole.reject);
  socket.on('close', () => whole.reject(new Error('the connection was closed before the end')));
  const beganMs = performance.now();
  socket.write(head);
  await whole.promise;
  const seconds = (performance.now() - beganMs) / 1000;
  socket.destroy();
  return seconds;
}

async function send({ port, head, bytes }: { port: number; head: string; bytes: number }): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1' });
  const answered = once(socket, 'data');
  answered.catch(() => {});
  const beganMs = performance.now();
  socket.write(head);
  for (let left = bytes; left > 0; left -= CHUNK.length)
    if (!socket.write(left < CHUNK.length ? CHUNK.subarray(0, left) : CHUNK)) await once(socket, 'drain');
  const text = String((await answered)[0]);
  const seconds = (performance.now() - beganMs) / 1000;
  socket.destroy();
  if (!text.startsWith('HTTP/1.1 200') || !text.endsWith(String(bytes))) throw new Error(`not all of it came: ${text}`);
  return seconds;
}

async function stall({ port, head, count }: { port: number; head: string; count: number }): Promise<null> {
  for (let n = 0; n < count; n++) {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.on('error', () => {});
    stalled.push(socket);
    await once(socket, 'connect');
    socket.pause();
    socket.write(head);
  }
  return null;
}

answerAsks(
  async (question) => {
    const wanted = order.parse(question);
    if (wanted.kind === 'stall') return stall(wanted);
    return wanted.kind === 'take' ? take(wanted) : send(wanted);
  },
  async () => {
    for (const socket of stalled) socket.destroy();
  },
);
