/**
 * Load generator: a closed loop over keep-alive connections. Written on raw sockets with one read
 * buffer each, to spend little CPU; parses status and length only.
 */
import { connect, type Socket } from 'node:net';
import { z } from 'zod';
import { answerAsks } from '../lib/child.ts';
import { percentile } from '../lib/numbers.ts';

const order = z.object({
  port: z.number(),
  connections: z.number(),
  /** Whole requests, head and body, sent in turn. */
  requests: z.array(z.string()).min(1),
  warmUpMs: z.number(),
  measureMs: z.number(),
});
type Order = z.infer<typeof order>;

const READ_BUFFER_BYTES = 128 * 1024;
const HEAD_END = Buffer.from('\r\n\r\n');

interface Tally {
  tookMs: number[];
  refused: string[];
  measuring: boolean;
  ended: boolean;
  measureMs: number;
}

interface Running {
  tally: Tally;
  failed: Promise<never>;
  loops: Socket[];
}
let running: Running | null = null;

answerAsks(
  async (question) => {
    if (question !== 'measure') return begin(order.parse(question));
    if (!running) throw new Error('asked to measure before it was told what');
    return measure(running);
  },
  async () => {},
);

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Starts the load, and resolves after the warm-up. */
async function begin({ port, connections, requests, warmUpMs, measureMs }: Order): Promise<null> {
  const tally: Tally = { tookMs: [], refused: [], measuring: false, ended: false, measureMs };
  const texts = requests.map((text) => Buffer.from(text));
  let index = 0;
  const next = (): Buffer => texts[index++ % texts.length] ?? Buffer.alloc(0);
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  const loops = Array.from({ length: connections }, () => startReconcileLoop(port, next, tally, failed.reject));
  running = { tally, failed: failed.promise, loops };
  await Promise.race([sleep(warmUpMs), failed.promise]);
  return null;
}

async function measure({ tally, failed, loops }: Running) {
  const beganMs = performance.now();
  const cpu = process.cpuUsage();
  tally.measuring = true;
  await Promise.race([sleep(tally.measureMs), failed]);
  tally.measuring = false;
  const seconds = (performance.now() - beganMs) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  tally.ended = true;
  for (const loop of loops) loop.destroy();
  const { tookMs, refused } = tally;
  if (refused.length > 0) throw new Error(`${refused.length} answers were not 200, such as ${refused[0]}`);
  return {
    count: tookMs.length,
    seconds,
    p50Ms: percentile(tookMs, 0.5),
    p99Ms: percentile(tookMs, 0.99),
    generatorShare: (user + system) / 1e6 / seconds,
  };
}

function startReconcileLoop(port: number, next: () => Buffer, tally: Tally, fail: (error: Error) => void): Socket {
  let sentMs = 0;
  /** Remaining bytes of the response; -1 before its head is complete. */
  let missing = -1;
  let head: Buffer = Buffer.alloc(0);
  const send = (): void => {
    sentMs = performance.now();
    missing = -1;
    socket.write(next());
  };
  const read = (size: number, buffer: Uint8Array): boolean => {
    if (missing >= 0) missing -= size;
    else {
      const chunk = Buffer.from(buffer.buffer, buffer.byteOffset, size);
      head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
      const end = head.indexOf(HEAD_END);
      if (end === -1) {
        head = Buffer.from(head);
        return true;
      }
      const text = head.toString('latin1', 0, end + 2).toLowerCase();
      const at = text.indexOf('content-length: ');
      if (at === -1) {
        fail(new Error(`an answer without a length: ${text}`));
        return false;
      }
      missing = Number.parseInt(text.slice(at + 16, at + 28), 10) - (head.length - end - HEAD_END.length);
      if (!text.startsWith('http/1.1 200')) tally.refused.push(head.toString('utf8').slice(0, 1000));
      head = Buffer.alloc(0);
    }
    if (missing > 0) return true;
    if (tally.measuring) tally.tookMs.push(performance.now() - sentMs);
    if (!tally.ended) send();
    return true;
  };
  const onread = { buffer: Buffer.allocUnsafe(READ_BUFFER_BYTES), callback: read };
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, onread });
  socket.once('connect', send);
  socket.on('error', (error) => {
    if (!tally.ended) fail(error);
  });
  socket.on('close', () => {
    if (!tally.ended) fail(new Error('the server closed a connection under load'));
  });
  return socket;
}
