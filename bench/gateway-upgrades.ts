/**
 * Upgraded connections through the gateway: throughput, memory of idle ones, and survival of an API
 * restart.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { shareFiles } from '../src/main/open-files.ts';
import type { Bench, BenchContext } from './bench.ts';
import { startChild, type Child } from './lib/child.ts';
import { launchMany, startApart, type Apart, type Region } from './lib/deployed.ts';
import type { Served } from './lib/external-server.ts';
import { openFiles } from './lib/machine.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { servedBy } from './lib/peers.ts';
import { alternate, type Rounds } from './lib/rounds.ts';
import { cpuUsOf, residentBytes } from './lib/cpu-time.ts';

const BUSY = 64;
const MESSAGE_BYTES = 1024;
const IDLE = 10_000;
const IDLE_SHORT = 1_000;
/** Connections reserved for other requests. */
const OTHERS = 16;
const INSTANCES = 100;
const KB = 1024;
const MB = 1e6;
const SETTLE_MS = 5_000;
/** Longer than the half minute between access checks. */
const AFTER_RESTART_MS = 35_000;
const AFTER_RESTART_SHORT_MS = 3_000;

export const gatewayUpgrades: Bench = {
  title: `upgraded connections: ${BUSY} that talk, ${IDLE.toLocaleString('en')} idle, and a restart of the API`,
  async run(context) {
    const short = context.flags.has('--short');
    const region = await launchMany(`${context.folder}/data`, INSTANCES, INSTANCES);
    const inside = await servedBy('inside.ts', 1, null);
    try {
      const rounds = await talking(context, region, inside.port, short);
      const asked = short ? IDLE_SHORT : IDLE;
      const count = Math.min(asked, shareFiles(openFiles(), 'gateway').gatewayConnections - OTHERS);
      context.say(`  ${count.toLocaleString('en')} idle`);
      const gateway = await startApart(region, inside.port);
      const client = startChild('tunnels.ts', 1);
      try {
        const waitMs = short ? AFTER_RESTART_SHORT_MS : AFTER_RESTART_MS;
        const idle = await idling({ gateway, client, region, count, waitMs, say: context.say });
        return outcome(rounds, idle);
      } finally {
        await client.stop();
        await gateway.stop();
      }
    } finally {
      await inside.stop();
    }
  },
};

const headOf = (path: string, token: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';

const headsOf = ({ ids, token }: Region): string[] => ids.map((id) => headOf(`/notebook/${id}/api/kernels`, token));

interface Talk {
  perSecond: number;
  serverUs: number;
  clientShare: number;
}

const echoed = z.object({ count: z.number(), seconds: z.number(), clientShare: z.number() });

function talking({ say }: BenchContext, region: Region, inside: number, short: boolean): Promise<Rounds<Talk>> {
  const order = { kind: 'echo', bytes: MESSAGE_BYTES, warmUpMs: 500, measureMs: short ? 1_000 : 3_000 };
  const over = (start: () => Promise<Served>) => async (): Promise<Talk> => {
    const served = await start();
    const client = startChild('tunnels.ts', 1);
    try {
      await client.ask({ kind: 'open', port: served.port, heads: headsOf(region), count: BUSY }, z.null());
      const asking = client.ask(order, echoed);
      await sleep(order.warmUpMs);
      const before = await cpuUsOf(served.pid);
      const { count, seconds, clientShare } = await asking;
      const serverUs = ((await cpuUsOf(served.pid)) - before) / count;
      return { perSecond: count / seconds, serverUs, clientShare };
    } finally {
      await client.stop();
      await served.stop();
    }
  };
  return alternate<Talk>({
    rounds: short ? 1 : 7,
    calibrator: null,
    say,
    candidates: {
      pipe: over(() => servedBy('peer.ts', 0, { kind: 'net', to: inside })),
      gateway: over(() => startApart(region, inside)),
    },
  });
}

interface Idle {
  count: number;
  eachBytes: number;
  wholeBytes: number;
  awayMs: number;
  waitedMs: number;
  cut: number;
}

async function idling(given: {
  gateway: Apart;
  client: Child;
  region: Region;
  count: number;
  waitMs: number;
  say: (text: string) => void;
}): Promise<Idle> {
  const { gateway, client, region, count, waitMs, say } = given;
  const heads = headsOf(region);
  const before = await residentBytes(gateway.pid);
  await client.ask({ kind: 'open', port: gateway.port, heads, count }, z.null());
  await sleep(SETTLE_MS);
  const wholeBytes = await residentBytes(gateway.pid);
  say('  the API restarts');
  const awayMs = await gateway.restartApi();
  await sleep(waitMs);
  const cut = await client.ask({ kind: 'cut' }, z.number());
  return { count, eachBytes: (wholeBytes - before) / count, wholeBytes, awayMs, waitedMs: waitMs, cut };
}

function outcome(rounds: Rounds<Talk>, idle: Idle) {
  const row = (text: string, name: string): string[] => [
    text,
    spread(rounds.of(name).map(({ perSecond }) => perSecond)),
    spread(rounds.of(name).map(({ serverUs }) => serverUs)),
    shown(median(rounds.of(name).map(({ clientShare }) => clientShare))),
  ];
  const ratio = (by: (ours: Talk, pipe: Talk) => number): number =>
    median(rounds.of('gateway').map((ours, n) => by(ours, rounds.of('pipe')[n] ?? ours)));
  const rate = ratio((ours, pipe) => ours.perSecond / pipe.perSecond);
  const time = ratio((ours, pipe) => pipe.serverUs / ours.serverUs);
  const many = idle.count.toLocaleString('en');
  const wholeAtAskedMB = (idle.wholeBytes + (IDLE - idle.count) * idle.eachBytes) / MB;
  return {
    table: [
      [`${BUSY} connections, ${MESSAGE_BYTES} bytes there and back`, 'a second', 'proxy µs each', 'core of the client'],
      row('node:net, client and instance piped', 'pipe'),
      row('gateway', 'gateway'),
    ],
    verdicts: [
      {
        asked: 'upgraded connections ≥ 0.9 of bare pipes',
        measured: `${shown(rate)} by rate, ${shown(time)} by processor time`,
        met: Math.min(rate, time) >= 0.9,
      },
      {
        asked: '≤ 16 KB for each idle one',
        measured: `${shown(idle.eachBytes / KB)} KB, ${many} open`,
        met: idle.eachBytes <= 16 * KB,
      },
      {
        asked: `${IDLE.toLocaleString('en')} idle ones < 250 MB`,
        measured:
          idle.count === IDLE
            ? `${shown(idle.wholeBytes / MB)} MB`
            : `${shown(idle.wholeBytes / MB)} MB with ${many}, so ${shown(wholeAtAskedMB)} MB`,
        met: wholeAtAskedMB < 250,
      },
      {
        asked: 'a restart of the API cuts none',
        measured: `${idle.cut} of ${many} within ${shown(idle.waitedMs / 1000)} s after; the API was away for ${shown(idle.awayMs)} ms`,
        met: idle.cut === 0,
      },
    ],
    notes: [
      `${rounds.retained} rounds. Client and instance are Node as well and share a core: where the client’s share is near half, they and not the proxy are the limit, and the processor time of the proxy tells.`,
      `Memory is the resident memory of the gateway’s process (role \`gateway\`), ${SETTLE_MS / 1000} s after the last was opened, over ${INSTANCES} instances, with a check of the owner’s token for each. As many as the limit of open files allows (${openFiles().toLocaleString('en')} here, of which a part is kept for ssh).`,
    ],
  };
}
