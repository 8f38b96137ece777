/** Large bodies through the gateway: throughput, memory in use, and memory of unread bodies. */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Bench } from './bench.ts';
import { startChild, type Child } from './lib/child.ts';
import { launchMany, startApart, type Region } from './lib/deployed.ts';
import type { Served } from './lib/external-server.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { servedBy } from './lib/peers.ts';
import { alternate, type Rounds } from './lib/rounds.ts';
import { cpuUsOf, residentBytes } from './lib/cpu-time.ts';

const MIB = 1024 ** 2;
const GB = 1e9;
const MB = 1e6;
const KB = 1024;
const BODY_BYTES = 100 * MB;
const BODIES = 5;
const LONG_BYTES = 10 * GB;
const LONG_BYTES_SHORT = 1 * GB;
/** The first transfer grows the process to its final size. */
const SETTLE_BYTES = 1 * GB;
const SAMPLE_MS = 100;
const STALLED = 400;
/** Time until back-pressure stops unread transfers. */
const STALL_MS = 4_000;
const PORT = 8000;

export const gatewayStreams: Bench = {
  title: `bodies of ${BODY_BYTES / MB} MB and ${LONG_BYTES / GB} GB`,
  async run({ folder, flags, say }) {
    const short = flags.has('--short');
    const region = await launchMany(`${folder}/data`, 10, 1);
    const inside = await servedBy('inside.ts', 1, null);
    const client = startChild('streams.ts', 1);
    try {
      const given = { region, inside: inside.port, client, say };
      const speed = await speeds(given, short ? 1 : 7);
      const memory = await withGateway(given, (gateway) =>
        holds(given, gateway, short ? LONG_BYTES_SHORT : LONG_BYTES),
      );
      const stalledBytes = await withGateway(given, (gateway) => stalls(given, gateway));
      return outcome(speed, memory, stalledBytes);
    } finally {
      await client.stop();
      await inside.stop();
    }
  },
};

interface Given {
  region: Region;
  inside: number;
  client: Child;
  say: (text: string) => void;
}

async function withGateway<T>({ region, inside }: Given, fn: (gateway: Served) => Promise<T>): Promise<T> {
  const gateway = await startApart(region, inside);
  try {
    return await fn(gateway);
  } finally {
    await gateway.stop();
  }
}

const below = ({ region }: Given): string => `/forward/${region.ids[0]}/${PORT}`;

const getHead = (prefix: string, bytes: number, token: string): string =>
  `GET ${prefix}/bytes/${bytes} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n\r\n`;
const postHead = (prefix: string, bytes: number, token: string): string =>
  `POST ${prefix}/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\nContent-Length: ${bytes}\r\n\r\n`;

interface Speed {
  takeMBs: number;
  takeSecondsPerGB: number;
  sendMBs: number;
  sendSecondsPerGB: number;
}

function speeds(given: Given, rounds: number): Promise<Rounds<Speed>> {
  const { region, inside, client, say } = given;
  const over = (start: () => Promise<Served>, prefix: string) => async (): Promise<Speed> => {
    const served = await start();
    try {
      const each = async (kind: 'take' | 'send') => {
        const head = (kind === 'take' ? getHead : postHead)(prefix, BODY_BYTES, region.token);
        const order = { kind, port: served.port, head, bytes: BODY_BYTES };
        await client.ask(order, z.number());
        const before = await cpuUsOf(served.pid);
        const took: number[] = [];
        for (let n = 0; n < BODIES; n++) took.push(await client.ask(order, z.number()));
        const cpuS = ((await cpuUsOf(served.pid)) - before) / 1e6;
        return [BODY_BYTES / MB / median(took), cpuS / ((BODIES * BODY_BYTES) / GB)] as const;
      };
      const [takeMBs, takeSecondsPerGB] = await each('take');
      const [sendMBs, sendSecondsPerGB] = await each('send');
      return { takeMBs, takeSecondsPerGB, sendMBs, sendSecondsPerGB };
    } finally {
      await served.stop();
    }
  };
  return alternate<Speed>({
    rounds,
    calibrator: null,
    say,
    candidates: {
      pipe: over(() => servedBy('fixed.ts', 0, { pipeTo: inside }), ''),
      gateway: over(() => startApart(region, inside), below(given)),
    },
  });
}

interface StreamMemory {
  leastBytes: number;
  mostBytes: number;
  sampled: number;
}

/** Resident memory during a long body, after its start. */
async function holds(given: Given, gateway: Served, bytes: number): Promise<StreamMemory> {
  const { client, region, say } = given;
  say(`  ${bytes / GB} GB`);
  const order = (size: number) => ({
    kind: 'take',
    port: gateway.port,
    head: getHead(below(given), size, region.token),
    bytes: size,
  });
  await client.ask(order(SETTLE_BYTES), z.number());
  let [isOver, leastBytes, mostBytes, sampled] = [false, Infinity, 0, 0];
  const whole = client.ask(order(bytes), z.number()).finally(() => (isOver = true));
  while (!isOver) {
    const now = await residentBytes(gateway.pid);
    leastBytes = Math.min(leastBytes, now);
    mostBytes = Math.max(mostBytes, now);
    sampled += 1;
    await sleep(SAMPLE_MS);
  }
  await whole;
  return { leastBytes, mostBytes, sampled };
}

/** Growth per client that requests a large body and does not read. */
async function stalls(given: Given, gateway: Served): Promise<number> {
  const { client, region, say } = given;
  say(`  ${STALLED} that don't read`);
  const head = getHead(below(given), BODY_BYTES, region.token);
  // Warm-up: compiles the code and allocates stream buffers.
  await client.ask({ kind: 'take', port: gateway.port, head, bytes: BODY_BYTES }, z.number());
  const before = await residentBytes(gateway.pid);
  await client.ask({ kind: 'stall', port: gateway.port, head, count: STALLED }, z.null());
  await sleep(STALL_MS);
  return ((await residentBytes(gateway.pid)) - before) / STALLED;
}

function outcome(rounds: Rounds<Speed>, memory: StreamMemory, stalledBytes: number) {
  const row = (text: string, name: string): string[] => {
    const all = (pick: (one: Speed) => number): string => spread(rounds.of(name).map(pick));
    return [
      text,
      all((one) => one.takeMBs),
      all((one) => one.takeSecondsPerGB),
      all((one) => one.sendMBs),
      all((one) => one.sendSecondsPerGB),
    ];
  };
  const ratio = (by: (ours: Speed, pipe: Speed) => number): number =>
    median(rounds.of('gateway').map((ours, n) => by(ours, rounds.of('pipe')[n] ?? ours)));
  const take = ratio((ours, pipe) => ours.takeMBs / pipe.takeMBs);
  const send = ratio((ours, pipe) => ours.sendMBs / pipe.sendMBs);
  const takeTime = ratio((ours, pipe) => pipe.takeSecondsPerGB / ours.takeSecondsPerGB);
  const sendTime = ratio((ours, pipe) => pipe.sendSecondsPerGB / ours.sendSecondsPerGB);
  const spanMiB = (memory.mostBytes - memory.leastBytes) / MIB;
  return {
    table: [
      ['', 'down, MB/s', 'processor s/GB', 'up, MB/s', 'processor s/GB'],
      row('bare node:http, request and pipe', 'pipe'),
      row('gateway', 'gateway'),
    ],
    verdicts: [
      {
        asked: '100 MB down ≥ 0.95 of the pipe',
        measured: `${shown(take)} by rate, ${shown(takeTime)} by processor time`,
        met: Math.max(take, takeTime) >= 0.95,
      },
      {
        asked: '100 MB up ≥ 0.95 of the pipe',
        measured: `${shown(send)} by rate, ${shown(sendTime)} by processor time`,
        met: Math.max(send, sendTime) >= 0.95,
      },
      {
        asked: 'memory flat (± 32 MB) over 10 GB',
        measured: `± ${shown(spanMiB / 2)} MB around ${shown((memory.mostBytes + memory.leastBytes) / 2 / MIB)} MB, ${memory.sampled} samples`,
        met: spanMiB / 2 <= 32,
      },
      {
        asked: 'a slow reader holds ≤ 256 KB',
        measured: `${shown(stalledBytes / KB)} KB each of ${STALLED}`,
        met: stalledBytes <= 256 * KB,
      },
    ],
    notes: [
      `Each line: ${BODIES} bodies one after another on connections of their own, after one that is not counted, the median; ${rounds.retained} rounds. Client and instance share a core: where that is the limit, the rate is the same for all, and the processor time of the proxy tells.`,
      'Memory is the resident memory of the gateway’s process (role `gateway`): over one body of 10 GB, after 1 GB that is not counted; and for readers, what it grew by when each had asked for 100 MB and read nothing of it for some seconds.',
    ],
  };
}
