/** Load on a server of ours: the generator process, and the server's CPU use. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { startChild, type Child } from './child.ts';

const CONTENT = 'content-type: application/json\r\n';

const cpuUsage = z.object({ user: z.number(), system: z.number() });
const figures = z.object({
  count: z.number(),
  seconds: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  generatorShare: z.number(),
});

/** CPU shares of one core, during the measurement. */
export interface Load extends z.infer<typeof figures> {
  perSecond: number;
  serverShare: number;
  /** CPU time of the server per request: shows the rate of a full core, even on a busy machine. */
  serverUs: number;
  /** CPU time of one turn of a fixed loop, just before and after. */
  loopUs: number;
}

const TURNS = 2_000;
const texts = z.record(z.string(), z.string());

/** JSON and a hash in each turn, as of a request. */
function loopUs(): number {
  const began = process.cpuUsage();
  let text = JSON.stringify({ of: 'x'.repeat(500), hash: '' });
  for (let turn = 0; turn < TURNS; turn++) {
    const hash = createHash('sha256').update(text).digest('hex');
    text = JSON.stringify({ ...texts.parse(JSON.parse(text)), hash });
  }
  const { user, system } = process.cpuUsage(began);
  return (user + system) / TURNS;
}

export interface Order {
  port: number;
  connections: number;
  /** Sent in turn. */
  requests: string[];
  warmUpMs: number;
  measureMs: number;
}

/** One measurement with a new generator; `server` must answer `cpu`. */
export async function load(server: Child, order: Order): Promise<Load> {
  const generator = startChild('load.ts', 1);
  try {
    await generator.ask(order, z.null());
    const loopBeforeUs = loopUs();
    const before = await server.ask('cpu', cpuUsage);
    const measured = await generator.ask('measure', figures);
    const after = await server.ask('cpu', cpuUsage);
    const cpuUs = after.user + after.system - before.user - before.system;
    const { count, seconds } = measured;
    return {
      ...measured,
      perSecond: count / seconds,
      serverShare: cpuUs / 1e6 / seconds,
      serverUs: cpuUs / count,
      loopUs: (loopBeforeUs + loopUs()) / 2,
    };
  } finally {
    await generator.stop();
  }
}

/** The same on a bare `node:http` that answers with so many bytes. */
export async function loadOnBare(
  bytes: number,
  requestTo: (port: number) => string,
  order: Omit<Order, 'port' | 'requests'>,
): Promise<Load> {
  const child = startChild('fixed.ts', 0, { bytes });
  try {
    const { port } = await child.ask('about', z.object({ port: z.number() }));
    return await load(child, { port, requests: [requestTo(port)], ...order });
  } finally {
    await child.stop();
  }
}

export const postText = (port: number, path: string, cookie: string, body: unknown): string => {
  const text = JSON.stringify(body);
  const head = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${CONTENT}cookie: ${cookie}\r\n`;
  return `${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};
