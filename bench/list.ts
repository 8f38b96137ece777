/**
 * The list of instances, the most frequent request: unchanged pages, changed pages, and the
 * influence of the store's size.
 */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Bench, BenchContext } from './bench.ts';
import { startBerth } from './lib/berth.ts';
import { load, loadOnBare, postText, type Load } from './lib/load.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { freePort } from './lib/program.ts';
import { alternate, type Rounds } from './lib/rounds.ts';
import { ownerName, seed } from './lib/seed.ts';
import { simulated, type ServerSettings } from './lib/settings.ts';

const ROWS = 10_000;
const MILLION = 1_000_000;
const CONNECTIONS = 64;
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };
const PATH = '/api/instance/list';
const OWNER = 42;
/** Owners requested in turn, to exceed the CPU cache. */
const OWNERS_PER_ROUND = 100;

interface Times {
  rounds: number;
  warmUpMs: number;
  measureMs: number;
}

export const list: Bench = {
  title: `POST ${PATH}, page of 10, cookie, ${CONNECTIONS} connections, SQLite, simulated engine at rest`,
  async run(context) {
    const times: Times = context.flags.has('--short')
      ? { rounds: 1, warmUpMs: 500, measureMs: 1000 }
      : { rounds: 7, warmUpMs: 3000, measureMs: 3000 };
    const few = join(context.folder, 'ten-thousand');
    context.say(`  seeding ${ROWS.toLocaleString('en')} rows`);
    // Of another port, each server would rewrite the texts of all rows while it is measured.
    const gatewayPort = await freePort();
    await seed(few, ROWS, context.say, { gatewayPort });
    const against = await againstFixed(context, { seeded: few, gatewayPort }, times);
    const flat = context.flags.has('--million') ? await flatInSize(context, { few, gatewayPort }, times) : null;

    const { bytes, rounds } = against;
    const ratios = (name: string): number[] => {
      const fixed = rounds.of('fixed');
      return rounds.of(name).map((sample, round) => sample.perSecond / (fixed[round]?.perSecond ?? Number.NaN));
    };
    const row = (text: string, of: Rounds<Load>, name: string, ratio: string): string[] => {
      const samples = of.of(name);
      const all = (pick: (sample: Load) => number): number => median(samples.map(pick));
      const milliseconds = `${shown(all((s) => s.p50Ms))}, ${shown(all((s) => s.p99Ms))}`;
      const shares = `${shown(all((s) => s.serverShare))}, ${shown(all((s) => s.generatorShare))}`;
      return [
        text,
        spread(samples.map((s) => s.perSecond)),
        milliseconds,
        shares,
        shown(all((s) => s.serverUs)),
        ratio,
      ];
    };
    /** Rate by CPU time: as if each server had a full core. */
    const byFixed = (name: string): number[] => {
      const fixed = rounds.of('fixed');
      return rounds.of(name).map((sample, round) => (fixed[round]?.serverUs ?? Number.NaN) / sample.serverUs);
    };
    const costs = (name: string) =>
      rounds.of(name).map(({ serverUs, loopUs }, round) => ({
        bare: serverUs / (rounds.of('fixed')[round]?.serverUs ?? Number.NaN),
        loop: serverUs / loopUs,
      }));
    // On a busy machine rates err either way: the worse one counts.
    const judged = (name: string, asked: number) => {
      const [rate, time] = [median(ratios(name)), median(byFixed(name))];
      return {
        measured: `${shown(rate)} by rate, ${shown(time)} by processor time`,
        met: Math.min(rate, time) >= asked,
      };
    };
    const table = [
      ['server', 'requests/s', 'p50, p99 ms', 'cores: server, generator', 'server µs each', 'ratio'],
      row(`bare node:http, one buffer of ${bytes.toLocaleString('en')} bytes`, rounds, 'fixed', '1'),
      row('list, nothing changed', rounds, 'kept', spread(ratios('kept'))),
      row('list, the version moved before each', rounds, 'moved', spread(ratios('moved'))),
      row('list, a durable change before each', rounds, 'written', spread(ratios('written'))),
    ];
    const verdicts = [
      { asked: 'nothing changed: ratio ≥ 0.5', ...judged('kept', 0.5) },
      { asked: 'the page just changed: ratio ≥ 0.2', ...judged('moved', 0.2) },
    ];
    const notes = [
      `Rounds kept: ${rounds.retained}, dropped because the bare server was more than 15 % off its median: ${rounds.dropped}. Owner with 100 of ${ROWS.toLocaleString('en')} rows.`,
      '"Version moved": the server\'s process answers each question for the owner\'s version with a number one higher than before, so that every request reads the totals and the ten rows from SQLite and joins the page anew; what is left out is the write that would have moved it. "Durable change" has that too: one transaction each, grouped with those of the other connections, fsync before the page is read.',
    ];
    if (flat) {
      const pairs = flat.rounds.of('million').map((sample, round) => {
        const small = flat.rounds.of('few')[round];
        return { p50: sample.p50Ms / (small?.p50Ms ?? Number.NaN), p99: sample.p99Ms / (small?.p99Ms ?? Number.NaN) };
      });
      const p50 = median(pairs.map((pair) => pair.p50));
      const p99 = median(pairs.map((pair) => pair.p99));
      table.push(
        row(
          `uncached page 1, ${ROWS.toLocaleString('en')} rows, ${OWNERS_PER_ROUND} owners in turn, 8 connections`,
          flat.rounds,
          'few',
          'time 1',
        ),
        row(
          `the same, ${MILLION.toLocaleString('en')} rows`,
          flat.rounds,
          'million',
          `time ${spread(pairs.map((pair) => pair.p50))}`,
        ),
      );
      verdicts.push({
        asked: `page 1 at ${MILLION.toLocaleString('en')} rows within 1.2 times of ${ROWS.toLocaleString('en')} (p50; p99 ${shown(p99)} times)`,
        measured: shown(p50),
        met: p50 <= 1.2,
      });
      notes.push(
        `A million rows took ${shown(flat.seedSeconds)} s to seed. Each request asks for the first page of another of ${OWNERS_PER_ROUND} owners, spread over the whole file, past the reply cache. Rounds kept: ${flat.rounds.retained}, dropped: ${flat.rounds.dropped}.`,
      );
    } else notes.push('`--million` adds a store of a million rows.');
    const figures = {
      'unchanged, in bare requests': costs('kept').map(({ bare }) => bare),
      'unchanged, in turns of the loop': costs('kept').map(({ loop }) => loop),
      'changed, in bare requests': costs('moved').map(({ bare }) => bare),
      'changed, in turns of the loop': costs('moved').map(({ loop }) => loop),
    };
    return { table, verdicts, notes, figures };
  },
};

const nothing = z.unknown();

async function firstPage(url: string, cookie: string): Promise<string> {
  const headers = { 'content-type': 'application/json', cookie };
  const answer = await fetch(`${url}${PATH}`, { method: 'POST', headers, body: JSON.stringify(PAGE) });
  const text = await answer.text();
  const page = z
    .object({ instances: z.array(nothing), pager: z.object({ totalEntries: z.number() }) })
    .parse(JSON.parse(text));
  if (page.instances.length !== 10 || page.pager.totalEntries !== 100)
    throw new Error(`not the page of a seeded owner: ${text.slice(0, 300)}`);
  return text;
}

async function againstFixed(
  { say, folder }: BenchContext,
  { seeded, gatewayPort }: { seeded: string; gatewayPort: number },
  { rounds: count, ...times }: Times,
) {
  const probe = await startBerth(simulated(seeded, { gatewayPort }));
  const { cookie } = await probe.login(ownerName(OWNER));
  const bytes = Buffer.byteLength(await firstPage(probe.apiUrl, cookie));
  await probe.child.stop();
  const ours = (version: ServerSettings['version']) => async (): Promise<Load> => {
    // A change before each list grows the file, so that case uses a copy of the seeded one.
    const dataFolder = version === 'written' ? join(folder, 'written') : seeded;
    if (version === 'written') await cp(seeded, dataFolder, { recursive: true, force: true });
    const berth = await startBerth(simulated(dataFolder, { version, gatewayPort }));
    try {
      await firstPage(berth.apiUrl, cookie);
      const requests = [postText(berth.apiPort, PATH, cookie, PAGE)];
      return await load(berth.child, { port: berth.apiPort, connections: CONNECTIONS, requests, ...times });
    } finally {
      await berth.child.stop();
    }
  };
  const rounds = await alternate({
    rounds: count,
    calibrator: { name: 'fixed', figure: (sample) => sample.perSecond },
    say,
    candidates: {
      fixed: () =>
        loadOnBare(bytes, (port) => postText(port, PATH, cookie, PAGE), { connections: CONNECTIONS, ...times }),
      kept: ours('kept'),
      moved: ours('moved'),
      written: ours('written'),
    },
  });
  return { bytes, rounds };
}

async function flatInSize(
  { say, folder }: BenchContext,
  { few, gatewayPort }: { few: string; gatewayPort: number },
  { rounds: count, ...times }: Times,
) {
  const million = join(folder, 'million');
  say(`  seeding ${MILLION.toLocaleString('en')} rows`);
  const beganMs = performance.now();
  await seed(million, MILLION, say, { gatewayPort });
  const seedSeconds = (performance.now() - beganMs) / 1000;
  const measure = (dataFolder: string, cookies: string[]) => async (): Promise<Load> => {
    const berth = await startBerth(simulated(dataFolder, { version: 'moved', gatewayPort }));
    try {
      const requests = cookies.map((cookie) => postText(berth.apiPort, PATH, cookie, PAGE));
      await firstPage(berth.apiUrl, cookies[0] ?? '');
      return await load(berth.child, { port: berth.apiPort, connections: 8, requests, ...times });
    } finally {
      await berth.child.stop();
    }
  };
  const cookiesOf = async (dataFolder: string, rows: number): Promise<string[]> => {
    const berth = await startBerth(simulated(dataFolder, { gatewayPort }));
    const owners = rows / 100;
    const cookies: string[] = [];
    for (let n = 0; n < OWNERS_PER_ROUND; n++) {
      cookies.push((await berth.login(ownerName(Math.floor((n * owners) / OWNERS_PER_ROUND)))).cookie);
    }
    await berth.child.stop();
    return cookies;
  };
  const fewCookies = await cookiesOf(few, ROWS);
  const millionCookies = await cookiesOf(million, MILLION);
  const rounds = await alternate({
    rounds: count,
    calibrator: { name: 'few', figure: (sample) => sample.perSecond },
    say,
    candidates: {
      few: measure(few, fewCookies),
      million: measure(million, millionCookies),
    },
  });
  return { rounds, seedSeconds };
}
