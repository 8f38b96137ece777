/** Load on a server of ours: the generator's process, and what a server process spends under it. */
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

/** Shares are of one core, while it was measured. */
export interface Load extends z.infer<typeof figures> {
  perSecond: number;
  serverShare: number;
  /** Processor time of the server for one request: tells where a full core would end, also on a machine that is not quiet. */
  serverUs: number;
}

export interface Order {
  port: number;
  connections: number;
  /** Sent in turn. */
  requests: string[];
  warmUpMs: number;
  measureMs: number;
}

/** One measurement by a generator of its own; `server` answers `cpu`. */
export async function load(server: Child, order: Order): Promise<Load> {
  const generator = startChild('load.ts', 1);
  try {
    await generator.ask(order, z.null());
    const before = await server.ask('cpu', cpuUsage);
    const measured = await generator.ask('measure', figures);
    const after = await server.ask('cpu', cpuUsage);
    const cpuUs = after.user + after.system - before.user - before.system;
    const { count, seconds } = measured;
    return { ...measured, perSecond: count / seconds, serverShare: cpuUs / 1e6 / seconds, serverUs: cpuUs / count };
  } finally {
    await generator.stop();
  }
}

export const postText = (port: number, path: string, cookie: string, body: unknown): string => {
  const text = JSON.stringify(body);
  const head = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${CONTENT}cookie: ${cookie}\r\n`;
  return `${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};
