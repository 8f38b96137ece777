/**
 * One hostile account, administrator or stranger at its allowed rate, with each kind of request:
 * the list of another account beside it, the longest hold of the event loop, and memory.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { ApiError } from '../src/contract/client.ts';
import type { RouteRequest } from '../test/http/server/route-requests.ts';
import type { Bench } from './bench.ts';
import { hostileKinds, isControl, type HostileIds, type Kind, type Sender } from './hostile/kinds.ts';
import { rowsOf, seedHostile } from './hostile/seed.ts';
import { launchBody, startBerth, type Berth } from './lib/berth.ts';
import { startChild } from './lib/child.ts';
import { median, percentile, shown } from './lib/numbers.ts';
import { simulated } from './lib/settings.ts';

const ONLY = '--only=';
const MAX_RATIO = 3;
const MAX_HOLD_MS = 30;
const MAX_GROWTH_MB = 30;
const OTHER_PER_SECOND = 100;
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };
const LIST = '/api/instance/list';
/** A kind is measured at the first rate that is not below its own. */
const RATES = [1, 5, 20, 100, 250, 500, 1_000, 2_000];
const OTHER_ADDRESS = '127.0.0.3';
const HOSTILE_ADDRESS = '127.0.0.2';
/** Many addresses, for memory: the rate of one would take minutes. */
const ADDRESSES = Array.from({ length: 16 }, (_, index) => `127.0.2.${index + 1}`);
const MEMORY_PER_SECOND = 2_000;
const MAX_QUOTA = 1_000_000_000;
const JSON_TYPE = { 'content-type': 'application/json' };

interface Sizes {
  holdRounds: number;
  rounds: number;
  /** Kinds of the load and memory phases, by their cost at their rate. */
  worst: number;
  /** Whether the suspects are measured besides. */
  hasSuspects: boolean;
  measureMs: number;
  memoryRequests: number;
  /** Ends the requests of a kind that takes longer. */
  memoryMs: number;
}
const WHOLE: Sizes = {
  holdRounds: 3,
  rounds: 3,
  worst: 12,
  hasSuspects: true,
  measureMs: 3_000,
  memoryRequests: 10_000,
  memoryMs: 30_000,
};
const SHORT: Sizes = {
  holdRounds: 1,
  rounds: 1,
  worst: 16,
  hasSuspects: false,
  measureMs: 2_000,
  memoryRequests: 300,
  memoryMs: 3_000,
};
const WARM_UP_MS = 500;
const GRACE_MS = 1_000;

const loaded = z.object({
  tookMs: z.array(z.number()),
  statuses: z.record(z.string(), z.number()),
});
type Loaded = z.infer<typeof loaded>;
const longestHold = z.object({ holdMs: z.number(), cpuMs: z.number() });
const cpuUsage = z.object({ user: z.number(), system: z.number() });

interface Held {
  kind: Kind;
  wallMs: number;
  /** Processor time of the thread. */
  holdMs: number;
  cpuMs: number;
  statuses: string;
}

interface Concurrent {
  other: Loaded;
  hostile: Loaded;
}

export const hostile: Bench = {
  title: `POST ${LIST} of an account beside one that is hostile, at its allowed rate`,
  async run({ folder, flags, say }) {
    const sizes = flags.has('--short') ? SHORT : WHOLE;
    const settings = simulated(join(folder, 'store'), { limits: 'default' });
    say('  seeding');
    await seedHostile(settings, say);
    const berth = await startBerth(settings);
    try {
      const actors = await logIn(berth);
      const only = [...flags].find((flag) => flag.startsWith(ONLY))?.slice(ONLY.length) ?? '';
      const wanted = hostileKinds(actors.ids).filter(({ name }) => name.includes(only));
      const kinds = wanted.map((kind) => ({
        ...kind,
        requests: kind.requests.map((request) => actors.as(kind.sender, request)),
      }));
      // An answer would be the 429 that another kind's rows are paid by.
      await actors.setRates(MAX_QUOTA);
      const held = await measureHolds(berth, kinds, sizes, say);
      await actors.setRates(null);
      const chosen = worstOf(held, sizes);
      const loads = await measureLoads(berth, actors, chosen, sizes, say);
      await actors.setRates(MAX_QUOTA);
      const grown = await measureMemory(berth, kinds, chosen, sizes, say);
      return outcomeOf({ held, loads, grown, sizes });
    } finally {
      await berth.child.stop();
    }
  },
};

interface Actors {
  ids: HostileIds;
  other: RouteRequest;
  cheapest: Record<Sender, RouteRequest>;
  as(sender: Sender, request: RouteRequest): RouteRequest;
  /** Null: those of an installation without settings. */
  setRates(requestsPerSecond: number | null): Promise<void>;
}

async function logIn(berth: Berth): Promise<Actors> {
  const admin = berth.client((await berth.login('admin')).token);
  const client = berth.client((await berth.login('owner-0')).token);
  const { cookie } = await berth.login('owner-1');
  const keyOf = async (owner: typeof admin): Promise<string> =>
    (await owner.createApiKey({ name: `bench ${randomUUID()}` })).key.fullKey;
  const keys = { account: await keyOf(client), admin: await keyOf(admin) };
  const { userId: accountId } = await client.userInfo({});
  const { userId: adminId } = await admin.userInfo({});
  const { instances } = await client.listInstances({ pager: { currentPage: 1, pageSize: 500 } });
  const second = await client.listInstances({ pager: { currentPage: 2, pageSize: 500 } });
  const [busyInstanceId = ''] = [...instances, ...second.instances]
    .map(({ instanceMetadata: { instanceId } }) => instanceId)
    .toSorted();
  const { instanceId } = await client.launch(launchBody(berth));
  await berth.child.ask({ instanceId, status: 'Running', phase: 'Ready', deadlineMs: 60_000 }, z.null());
  const { volume } = await client.createVolume({
    name: 'bench',
    sizeGB: 1,
    region: berth.example.region,
    volumeType: 'filesystem',
  });
  const list = { method: 'POST', path: LIST, headers: JSON_TYPE, body: JSON.stringify(PAGE) };
  const as = (sender: Sender, request: RouteRequest): RouteRequest =>
    sender === 'unauthenticated' ? request : { ...request, headers: { ...request.headers, 'x-api-key': keys[sender] } };
  const balance = { method: 'GET', path: '/api/balance', headers: {}, body: null };
  const health = { method: 'GET', path: '/healthz', headers: {}, body: null };
  return {
    ids: {
      instanceId,
      busyInstanceId,
      volumeId: volume.id,
      accountId,
      regionId: berth.example.region,
      imageId: berth.example.imageId,
      instanceTypeId: berth.example.instanceTypeId,
      username: 'owner-0',
    },
    other: { ...list, headers: { ...list.headers, cookie } },
    cheapest: { account: as('account', balance), admin: as('admin', balance), unauthenticated: health },
    as,
    async setRates(requestsPerSecond) {
      for (const id of [accountId, adminId])
        await onceAllowed(() => admin.setQuotas({ accountId: id, limits: { requestsPerSecond } }));
    },
  };
}

/** Exports that a kind left may still take from the rate of its account. */
async function onceAllowed<Answer>(send: () => Promise<Answer>): Promise<Answer> {
  for (;;)
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429) throw error;
      await sleep(SETTLE_MS);
    }
}

const portOf = ({ apiPort, gatewayUrl }: Berth, { target }: Pick<Kind, 'target'>): number =>
  target === 'api' ? apiPort : Number(new URL(gatewayUrl).port);

/** One request after another on a quiet server: the median of the longest holds, of each round. */
async function measureHolds(
  berth: Berth,
  kinds: Kind[],
  { holdRounds }: Sizes,
  say: (text: string) => void,
): Promise<Held[]> {
  const generator = startChild('hostile.ts', 1);
  const found = new Map(
    kinds.map((kind) => [
      kind,
      { wallMs: [] as number[], holdMs: [] as number[], cpuMs: [] as number[], statuses: new Set<string>() },
    ]),
  );
  try {
    // The first round warms the caches.
    for (let round = 0; round <= holdRounds; round += 1) {
      say(`  holds, round ${round} of ${holdRounds}`);
      for (const [kind, samples] of found) {
        const request = kind.requests[round % kind.requests.length];
        const order = { port: portOf(berth, kind), requests: [request], ...once };
        await berth.child.ask('watch holds', z.null());
        const { statuses } = await generator.ask(order, loaded);
        const { holdMs, cpuMs: heldCpuMs } = await berth.child.ask('longest hold', longestHold);
        const before = await berth.child.ask('cpu', cpuUsage);
        await generator.ask(order, loaded);
        const after = await berth.child.ask('cpu', cpuUsage);
        if (round === 0) continue;
        samples.wallMs.push(holdMs);
        samples.holdMs.push(heldCpuMs);
        samples.cpuMs.push((after.user + after.system - before.user - before.system) / 1_000);
        for (const status of Object.keys(statuses)) samples.statuses.add(status);
      }
    }
  } finally {
    await generator.stop();
  }
  return [...found].map(([kind, { wallMs, holdMs, cpuMs, statuses }]) => ({
    kind,
    wallMs: median(wallMs),
    holdMs: median(holdMs),
    cpuMs: median(cpuMs),
    statuses: [...statuses].join(),
  }));
}
const once = { from: ADDRESSES, perSecond: 1_000, warmUpMs: 0, measureMs: 1_000, count: 1, graceMs: 60_000 };

const shareOf = ({ kind, cpuMs }: Held): number => (kind.perSecond * cpuMs) / 1_000;

function worstOf(held: Held[], { worst, hasSuspects }: Sizes): Kind[] {
  const isSuspect = ({ kind }: Held): boolean => hasSuspects && kind.isSuspect;
  const suspects = held.filter(isSuspect);
  const others = held.filter((one) => !isSuspect(one)).toSorted((a, b) => shareOf(b) - shareOf(a));
  return [...suspects, ...others.slice(0, worst)].map(({ kind }) => kind);
}

const rateOf = ({ perSecond }: Kind): number => RATES.find((rate) => rate >= perSecond) ?? perSecond;

const floorOf = (kind: Kind): string => `${kind.sender} ${rateOf(kind)}`;

async function measureLoads(
  berth: Berth,
  { other, cheapest }: Actors,
  kinds: Kind[],
  { rounds, measureMs }: Sizes,
  say: (text: string) => void,
) {
  const generators = { other: startChild('hostile.ts', 1), hostile: startChild('hostile.ts', 1) };
  const common = { warmUpMs: WARM_UP_MS, measureMs, count: null, graceMs: GRACE_MS };
  const measureConcurrent = async (port: number, requests: RouteRequest[], perSecond: number): Promise<Concurrent> => {
    const [others, hostiles] = await Promise.all([
      generators.other.ask(
        { port: berth.apiPort, from: [OTHER_ADDRESS], requests: [other], perSecond: OTHER_PER_SECOND, ...common },
        loaded,
      ),
      generators.hostile.ask({ port, from: [HOSTILE_ADDRESS], requests, perSecond, ...common }, loaded),
    ]);
    return { other: others, hostile: hostiles };
  };
  const loads = new Map<Kind, Concurrent[]>();
  const floors = new Map<string, Concurrent[]>();
  try {
    for (let round = 0; round < rounds; round += 1) {
      for (const [name, kind] of new Map(kinds.map((one) => [floorOf(one), one]))) {
        const measured = await measureConcurrent(berth.apiPort, [cheapest[kind.sender]], rateOf(kind));
        floors.set(name, [...(floors.get(name) ?? []), measured]);
      }
      for (const [index, kind] of kinds.entries()) {
        say(`  round ${round + 1} of ${rounds}: ${index + 1} of ${kinds.length}, ${kind.name}`);
        const measured = await measureConcurrent(portOf(berth, kind), kind.requests, rateOf(kind));
        loads.set(kind, [...(loads.get(kind) ?? []), measured]);
        await sleep(SETTLE_MS);
      }
    }
  } finally {
    await generators.other.stop();
    await generators.hostile.stop();
  }
  return [...loads].map(([kind, rounds]) => ({ kind, rounds, floor: floors.get(floorOf(kind)) ?? [] }));
}

interface Load {
  kind: Kind;
  rounds: Concurrent[];
  /** The same rounds with the cheapest requests. */
  floor: Concurrent[];
}

const latencies = (rounds: readonly Concurrent[]): number[] => rounds.flatMap(({ other }) => other.tookMs);
const p99Of = (rounds: readonly Concurrent[]): number => percentile(latencies(rounds), 0.99);
/** Of all rounds together: one wait for the disk delays as many answers as decide p99 of one. */
const ratioOf = ({ rounds, floor }: Load): number => p99Of(rounds) / p99Of(floor);

/** Lets the server end what the generator left. */
const SETTLE_MS = 1_000;

/** Threads that hash passwords end when they are idle. */
const LINGER_MS = 15_000;

/** Growth by each chosen kind, and by all others in turn. */
async function measureMemory(
  berth: Berth,
  kinds: Kind[],
  chosen: Kind[],
  { memoryRequests: count, memoryMs: measureMs }: Sizes,
  say: (text: string) => void,
): Promise<{ name: string; grownMB: number }[]> {
  const generator = startChild('hostile.ts', 1);
  const grown: { name: string; grownMB: number }[] = [];
  const rest = kinds
    .filter((kind) => !chosen.includes(kind) && kind.target === 'api')
    .flatMap(({ requests }) => requests);
  const all = [
    ...chosen.map((kind) => ({ name: kind.name, port: portOf(berth, kind), requests: kind.requests })),
    ...(rest.length > 0 ? [{ name: 'all other kinds, in turn', port: berth.apiPort, requests: rest }] : []),
  ];
  try {
    let beforeMB = await berth.child.ask('settled memory', z.number());
    for (const [index, { name, port, requests }] of all.entries()) {
      say(`  memory: ${index + 1} of ${all.length}, ${name}`);
      const pace = { from: ADDRESSES, perSecond: MEMORY_PER_SECOND, warmUpMs: 0, measureMs, count, graceMs: GRACE_MS };
      await generator.ask({ port, requests, ...pace }, loaded);
      let afterMB = await berth.child.ask('settled memory', z.number());
      if (afterMB - beforeMB > MAX_GROWTH_MB) {
        await sleep(LINGER_MS);
        afterMB = await berth.child.ask('settled memory', z.number());
      }
      grown.push({ name, grownMB: afterMB - beforeMB });
      beforeMB = afterMB;
    }
  } finally {
    await generator.stop();
  }
  return grown;
}

const SHOWN = 30;

function outcomeOf({
  held,
  loads,
  grown,
  sizes,
}: {
  held: Held[];
  loads: Load[];
  grown: { name: string; grownMB: number }[];
  sizes: Sizes;
}) {
  const byKind = new Map(held.map((one) => [one.kind, one]));
  const grownBy = new Map(grown.map(({ name, grownMB }) => [name, grownMB]));
  const measured = loads.toSorted((a, b) => ratioOf(b) - ratioOf(a));
  const slowest = held.toSorted((a, b) => b.holdMs - a.holdMs);
  const judged = measured.filter(({ kind }) => !isControl(kind));
  const most = judged[0];
  const longest = slowest[0];
  const grewMost = grown.toSorted((a, b) => b.grownMB - a.grownMB)[0];
  const sum = grown.reduce((total, { grownMB }) => total + grownMB, 0);
  const rows = [...judged.slice(0, SHOWN), ...measured.filter(({ kind }) => isControl(kind))].map((load) => {
    const { kind, rounds, floor } = load;
    const one = byKind.get(kind);
    const answered = median(
      rounds.map(({ hostile: { tookMs, statuses } }) => 1 - (statuses['429'] ?? 0) / Math.max(1, tookMs.length)),
    );
    const ofRounds = rounds.map((round, nth) => p99Of([round]) / p99Of(floor.slice(nth, nth + 1)));
    return [
      kind.name,
      kind.sender,
      shown(rateOf(kind)),
      `${shown(answered * 100)} %`,
      shown(percentile(latencies(rounds), 0.5)),
      shown(p99Of(rounds)),
      `${shown(ratioOf(load))} [${shown(Math.min(...ofRounds))}-${shown(Math.max(...ofRounds))}]`,
      shown(one?.cpuMs ?? Number.NaN),
      shown(one?.holdMs ?? Number.NaN),
      shown(one?.wallMs ?? Number.NaN),
      shown(grownBy.get(kind.name) ?? Number.NaN),
    ];
  });
  const over = (values: boolean[]): string => `${values.filter(Boolean).length} of ${values.length} kinds above`;
  return {
    table: [
      [
        'kind',
        'by',
        'sent/s',
        'not 429',
        'list p50 ms',
        'list p99 ms',
        'p99 ratio',
        'CPU ms',
        'hold ms',
        'by the clock',
        'MB more',
      ],
      ...rows,
    ],
    verdicts: [
      {
        asked: `list p99 ≤ ${MAX_RATIO} × that beside the cheapest requests`,
        measured: `${most ? `${shown(ratioOf(most))} × by ${most.kind.name}` : '-'}; ${over(judged.map((load) => ratioOf(load) > MAX_RATIO))}`,
        met: judged.every((load) => ratioOf(load) <= MAX_RATIO),
      },
      {
        asked: `no hold above ${MAX_HOLD_MS} ms by a request`,
        measured: `${shown(longest?.holdMs ?? Number.NaN)} ms by ${longest?.kind.name}; ${over(held.map(({ holdMs }) => holdMs > MAX_HOLD_MS))}`,
        met: held.every(({ holdMs }) => holdMs <= MAX_HOLD_MS),
      },
      {
        asked: `within ${MAX_GROWTH_MB} MB after ${sizes.memoryRequests.toLocaleString('en')} requests of a kind`,
        measured: `${shown(grewMost?.grownMB ?? Number.NaN)} MB by ${grewMost?.name}; ${shown(sum)} MB by all`,
        met: grown.every(({ grownMB }) => grownMB <= MAX_GROWTH_MB),
      },
    ],
    notes: [
      `${held.length} kinds; holds: ${slowest
        .slice(0, 12)
        .map(({ kind, holdMs, statuses }) => `${kind.name} ${shown(holdMs)} ms (${statuses})`)
        .join(', ')}; median of all ${shown(
        percentile(
          held.map(({ holdMs }) => holdMs),
          0.5,
        ),
      )} ms.`,
      `The hostile account has 900 instances of 32 labels, ${Object.entries(rowsOf)
        .map(([name, rows]) => `${rows.toLocaleString('en')} ${name}`)
        .join(
          ', ',
        )}. Rates and quotas are those of an installation without settings. The other account asks for ${OTHER_PER_SECOND} pages of ten a second; a latency counts from the moment the request was due. The rate of a kind is what its cost leaves of the rate of account or address, rounded up; the cheapest requests (the balance, or /healthz) are sent at the same rate in the same round, and once more as "control", whose ratios are what the machine alone does. p50 and p99 are of the answers of all rounds together; the ratios of single rounds are in brackets.`,
      'Hold: the processor time of the longest turn of the event loop during one request on a server that does nothing else, the median of the rounds; by the clock, it counts waits for the disk and other programs too. CPU: of a request, with all threads. All kinds are held to it; load and memory are measured with those that take the most CPU time at their rate, and with the suspects. Memory: after collections of garbage, with higher rates, from many addresses; above the limit once more after 15 s, when idle threads have ended.',
    ],
  };
}
