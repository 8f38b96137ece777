/**
 * Half-open connections: the time of a list and of a request to an instance, each on a new
 * connection of another address, beside thousands of half-sent requests at both listeners.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { z } from 'zod';
import type { Bench, BenchContext } from './bench.ts';
import { startBerth } from './lib/berth.ts';
import { startChild, type Child } from './lib/child.ts';
import { launchMany, type Region } from './lib/deployed.ts';
import { postText } from './lib/load.ts';
import { openFiles } from './lib/machine.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';
import { servedBy } from './lib/peers.ts';
import { alternate } from './lib/rounds.ts';
import { simulated } from './lib/settings.ts';

const HALF_OPEN = 10_000;
/** Files of the process that holds the half-open connections, for itself. */
const OWN_FILES = 100;
const TARGET_MS = 50;
const DEADLINE_MS = 30_000;
const WARM_UP = 100;
const BYTES = 1024;
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };
const CLIENT_ADDRESS = '127.0.0.2';
const FLOOD_ADDRESSES = Array.from({ length: 100 }, (_, n) => `127.0.1.${n + 1}`);

const listeners = ['api', 'gateway'] as const;

interface Sample {
  /** p99 of each listener. */
  ms: Record<(typeof listeners)[number], number>;
  /** Half-open connections at both listeners during the measurement. */
  open: number;
  retries: number;
}

const counted = z.object({ open: z.number(), retries: z.number() });

export const connections: Bench = {
  title: `requests on new connections, beside ${HALF_OPEN.toLocaleString('en')} half-open ones at each listener`,
  async run(context) {
    const short = context.flags.has('--short');
    const region = await launchMany(`${context.folder}/data`, 1, 1);
    const inside = await servedBy('inside.ts', 1, null);
    try {
      const requests = short ? 50 : 500;
      const halfOpen = Math.min(short ? HALF_OPEN / 10 : HALF_OPEN, openFiles() - OWN_FILES);
      const measure = (count: number) => () => measured(context, { region, inside: inside.port, requests, count });
      const rounds = await alternate<Sample>({
        rounds: short ? 1 : 5,
        calibrator: null,
        say: context.say,
        candidates: { quiet: measure(0), flooded: measure(halfOpen) },
      });
      return outcome(rounds.of('quiet'), rounds.of('flooded'), { requests, halfOpen });
    } finally {
      await inside.stop();
    }
  },
};

async function measured(
  { say }: BenchContext,
  { region, inside, requests, count }: { region: Region; inside: number; requests: number; count: number },
): Promise<Sample> {
  const { dataFolder, gatewayPort, token, ids } = region;
  const berth = await startBerth(simulated(dataFolder, { loop: 'off', dialTo: inside, gatewayPort }));
  const floods: Child[] = [];
  try {
    for (const port of count > 0 ? [berth.apiPort, gatewayPort] : []) {
      const flood = startChild('half-open.ts', 1);
      floods.push(flood);
      await flood.ask({ kind: 'open', port, count, addresses: FLOOD_ADDRESSES }, z.null());
    }
    const list = postText(berth.apiPort, '/api/instance/list', `AccessToken=${token}`, PAGE);
    const forwarded = `GET /notebook/${ids[0]}/bytes/${BYTES} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${token}\r\n\r\n`;
    const ms = {
      api: await p99Of(requests, berth.apiPort, list),
      gateway: await p99Of(requests, gatewayPort, forwarded),
    };
    const counts = await Promise.all(floods.map((flood) => flood.ask({ kind: 'count' }, counted)));
    const sum = (pick: (one: z.infer<typeof counted>) => number) => counts.map(pick).reduce((a, b) => a + b, 0);
    const sample = { ms, open: sum(({ open }) => open), retries: sum(({ retries }) => retries) };
    say(`    ${sample.open.toLocaleString('en')} open, p99 ${shown(ms.api)} and ${shown(ms.gateway)} ms`);
    return sample;
  } finally {
    for (const flood of floods) await flood.stop();
    await berth.child.stop();
  }
}

async function p99Of(count: number, port: number, request: string): Promise<number> {
  const tookMs: number[] = [];
  for (let n = 0; n < WARM_UP + count; n += 1) tookMs.push(await timed(port, request));
  return percentile(tookMs.slice(WARM_UP), 0.99);
}

/** Milliseconds from the connect call to the first bytes of the answer. */
async function timed(port: number, request: string): Promise<number> {
  const beganMs = performance.now();
  const socket = connect({ port, host: '127.0.0.1', localAddress: CLIENT_ADDRESS, noDelay: true });
  try {
    socket.write(request);
    const [answer] = await once(socket, 'data', { signal: AbortSignal.timeout(DEADLINE_MS) });
    const tookMs = performance.now() - beganMs;
    if (!String(answer).startsWith('HTTP/1.1 200')) throw new Error(`not a 200: ${String(answer).slice(0, 300)}`);
    return tookMs;
  } finally {
    socket.destroy();
  }
}

function outcome(quiet: Sample[], flooded: Sample[], { requests, halfOpen }: { requests: number; halfOpen: number }) {
  const names = { api: 'API: a list', gateway: 'gateway: 1 KB of an instance' };
  const of = (samples: Sample[], listener: keyof typeof names) => samples.map(({ ms }) => ms[listener]);
  const ratio = (listener: keyof typeof names): number =>
    median(flooded.map(({ ms }, round) => ms[listener] / (quiet[round]?.ms[listener] ?? Number.NaN)));
  const many = halfOpen.toLocaleString('en');
  return {
    table: [
      ['', 'p99 ms, quiet', `p99 ms beside ${many} at each listener`, 'ratio'],
      ...listeners.map((one) => [names[one], spread(of(quiet, one)), spread(of(flooded, one)), shown(ratio(one))]),
    ],
    verdicts: listeners.map((one) => {
      const ms = median(of(flooded, one));
      return {
        asked: `${names[one]} within ${TARGET_MS} ms beside ${HALF_OPEN.toLocaleString('en')} half-open connections`,
        measured: `p99 ${shown(ms)} ms beside ${many}, ${shown(ratio(one))} × quiet`,
        met: ms <= TARGET_MS,
      };
    }),
    notes: [
      `${requests} requests to each listener in a round, after ${WARM_UP} to warm up, one after the other, each on a new connection of an address without others; with the time to connect. API and gateway are one process. The half-open connections come from ${FLOOD_ADDRESSES.length} addresses of two processes of low priority, and one that the server closes is opened again after a second. Open at both listeners: ${spread(flooded.map(({ open }) => open))}; opened again: ${spread(flooded.map(({ retries }) => retries))}. The limit of open files is ${openFiles().toLocaleString('en')}.`,
    ],
  };
}
