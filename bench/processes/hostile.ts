/**
 * Generator of hostile requests, and of those of the other account: an open loop, which sends at
 * a rate, whatever the answers take. A latency counts from the moment the request was due.
 */
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { answerAsks } from '../lib/child.ts';

const order = z.object({
  port: z.number(),
  /** Local addresses, in turn. */
  from: z.array(z.string()).min(1),
  requests: z
    .array(
      z.object({
        method: z.string(),
        path: z.string(),
        headers: z.record(z.string(), z.string()),
        body: z.string().nullable(),
      }),
    )
    .min(1),
  perSecond: z.number(),
  /** Requests are counted, and their latencies kept, for this time after the warm-up. */
  warmUpMs: z.number(),
  measureMs: z.number(),
  /** Ends after so many requests, or the time. */
  count: z.number().nullable(),
  /** Answers that are not there so long after the end count as if they came then. */
  graceMs: z.number(),
});
type Order = z.infer<typeof order>;

const TICK_MS = 5;
const CONNECTIONS = 400;
/** An answer that does not end, as of an event stream, is cut after this. */
const ENDLESS_MS = 100;
const MS_PER_S = 1_000;

type Sent = Order['requests'][number];

/** Resolves with the status; 0 where no answer came. */
const send = (port: number, agent: Agent, { method, path, headers, body }: Sent): Promise<number> =>
  new Promise((resolve) => {
    const length = body === null ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const sent = request({ host: '127.0.0.1', port, method, path, agent, headers: { ...headers, ...length } });
    sent.once('error', () => resolve(0));
    sent.once('upgrade', (_answer, socket) => {
      socket.destroy();
      resolve(101);
    });
    sent.once('response', (answer) => {
      const isEndless = answer.headers['content-type'] === 'text/event-stream';
      const cut = isEndless ? setTimeout(() => answer.destroy(), ENDLESS_MS) : undefined;
      answer.on('error', () => {});
      answer.once('close', () => {
        clearTimeout(cut);
        resolve(answer.statusCode ?? 0);
      });
      answer.resume();
    });
    sent.end(body ?? undefined);
  });

async function run({ port, from, requests, perSecond, warmUpMs, measureMs, count, graceMs }: Order) {
  const agents = from.map((localAddress) => new Agent({ keepAlive: true, maxSockets: CONNECTIONS, localAddress }));
  const tookMs: number[] = [];
  const statuses = new Map<number, number>();
  const underWay = new Set<Promise<void>>();
  const pendingDueMs = new Set<number>();
  let hasEnded = false;
  const beganMs = performance.now();
  const endMs = warmUpMs + measureMs;
  let due = 0;
  const one = async (index: number): Promise<void> => {
    const dueMs = (index * MS_PER_S) / perSecond;
    const agent = agents[index % agents.length];
    const chosen = requests[index % requests.length];
    if (!agent || !chosen) return;
    pendingDueMs.add(dueMs);
    const status = await send(port, agent, chosen);
    pendingDueMs.delete(dueMs);
    if (dueMs < warmUpMs || hasEnded) return;
    tookMs.push(performance.now() - beganMs - dueMs);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  };
  for (;;) {
    const nowMs = performance.now() - beganMs;
    if (nowMs >= endMs || (count !== null && due >= count)) break;
    for (; (due * MS_PER_S) / perSecond <= nowMs && due < (count ?? Infinity); due += 1) {
      // An account that has used up its connections sends no more.
      if (underWay.size >= CONNECTIONS) continue;
      const sent = one(due);
      underWay.add(sent);
      void sent.finally(() => underWay.delete(sent));
    }
    await sleep(TICK_MS);
  }
  await Promise.race([Promise.all(underWay), sleep(graceMs)]);
  hasEnded = true;
  for (const dueMs of pendingDueMs) {
    if (dueMs < warmUpMs) continue;
    tookMs.push(performance.now() - beganMs - dueMs);
    statuses.set(0, (statuses.get(0) ?? 0) + 1);
  }
  for (const agent of agents) agent.destroy();
  return {
    // None where all connections waited.
    tookMs,
    statuses: Object.fromEntries(statuses),
  };
}

answerAsks(
  async (question) => run(order.parse(question)),
  async () => process.exit(0),
);
