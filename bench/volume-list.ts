/**
 * Volume lists, page by page, of accounts with ten and ten thousand volumes: influence of their
 * number and of page depth.
 */
import { join } from 'node:path';
import { z } from 'zod';
import type { Bench } from './bench.ts';
import { startBerth } from './lib/berth.ts';
import { postText } from './lib/load.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { openConnection, type Connection } from './lib/one-connection.ts';
import { seedVolumes } from './lib/seed-volumes.ts';
import { simulated } from './lib/settings.ts';

const FEW = 10;
const MANY = 10_000;
const PAGE_SIZE = 10;
const PAGES = MANY / PAGE_SIZE;
/** Number of pages at either end. */
const NEAR = 10;
const PATH = '/api/storage/volume/list';
const ASKED_RATIO = 1.2;
const WARM_UP = 3_000;

const pageBody = (currentPage: number) => ({ pager: { currentPage, pageSize: PAGE_SIZE } });
const pagesFrom = (first: number, count: number): number[] => Array.from({ length: count }, (_, n) => first + n);

type Account = 'few' | 'many';

/** Pages in turn, by candidate, with the account of that size. */
const candidates: Record<'few' | 'first' | 'all' | 'last', { account: Account; pages: number[]; text: string }> = {
  few: { account: 'few', pages: [1], text: `of ${FEW} volumes, the one page` },
  first: { account: 'many', pages: pagesFrom(1, NEAR), text: `of ${MANY.toLocaleString('en')}, the first ${NEAR}` },
  all: {
    account: 'many',
    pages: pagesFrom(1, PAGES),
    text: `of ${MANY.toLocaleString('en')}, all ${PAGES.toLocaleString('en')} in turn`,
  },
  last: {
    account: 'many',
    pages: pagesFrom(PAGES - NEAR + 1, NEAR),
    text: `of ${MANY.toLocaleString('en')}, the last ${NEAR}`,
  },
};

type Candidate = keyof typeof candidates;
const names: Candidate[] = ['few', 'first', 'all', 'last'];

const answered = z.object({ volumeList: z.array(z.object({ id: z.string() })) });

/** Milliseconds of each page, by candidate: one request each in turn, until all pages were read. */
async function walk(
  connection: Connection,
  requests: Record<Candidate, string[]>,
): Promise<Record<Candidate, number[]>> {
  const tookMs: Record<Candidate, number[]> = { few: [], first: [], all: [], last: [] };
  const seen = new Set<string>();
  for (let round = 0; round < PAGES; round++) {
    for (const name of names) {
      const beganMs = performance.now();
      const body = await connection.ask(requests[name][round % requests[name].length] ?? '');
      tookMs[name].push(performance.now() - beganMs);
      if (name === 'all') for (const { id } of answered.parse(JSON.parse(body)).volumeList) seen.add(id);
    }
  }
  if (seen.size !== MANY) throw new Error(`${seen.size} volumes were on the pages, and not ${MANY}`);
  return tookMs;
}

export const volumeList: Bench = {
  title: `POST ${PATH}, pages of ${PAGE_SIZE}, one connection, uncached, SQLite`,
  async run({ folder, flags, say }) {
    const rounds = flags.has('--short') ? 1 : 7;
    const dataFolder = join(folder, 'data');
    say(`  seeding ${MANY.toLocaleString('en')} volumes`);
    await seedVolumes(dataFolder, { few: FEW, many: MANY });
    const walks: Record<Candidate, number>[] = [];
    for (let round = 0; round < rounds; round++) {
      say(`  round ${round + 1} of ${rounds}`);
      const berth = await startBerth(simulated(dataFolder, { loop: 'off', version: 'moved' }));
      const connection = await openConnection(berth.apiPort);
      try {
        const cookies = { few: (await berth.login('few')).cookie, many: (await berth.login('many')).cookie };
        const asks = (name: Candidate): string[] => {
          const { account, pages } = candidates[name];
          return pages.map((page) => postText(berth.apiPort, PATH, cookies[account], pageBody(page)));
        };
        const requests = { few: asks('few'), first: asks('first'), all: asks('all'), last: asks('last') };
        for (let index = 0; index < WARM_UP; index++) await connection.ask(requests.few[0] ?? '');
        const { few, first, all, last } = await walk(connection, requests);
        walks.push({ few: median(few), first: median(first), all: median(all), last: median(last) });
      } finally {
        connection.close();
        await berth.child.stop();
      }
    }
    const ratios = (name: Candidate): number[] => walks.map((one) => one[name] / one.few);
    return {
      table: [
        ['pages', 'ms each', 'ratio'],
        ...names.map((name) => [
          candidates[name].text,
          spread(walks.map((one) => one[name])),
          name === 'few' ? '1' : spread(ratios(name)),
        ]),
      ],
      verdicts: names
        .filter((name) => name !== 'few')
        .map((name) => ({
          asked: `${candidates[name].text}: ≤ ${ASKED_RATIO} of the page of ${FEW}`,
          measured: shown(median(ratios(name))),
          met: median(ratios(name)) <= ASKED_RATIO,
        })),
      notes: [
        `${rounds} rounds, each on a fresh process that has answered ${WARM_UP.toLocaleString('en')} requests for the page of ${FEW} before: one request of each line in turn, over one connection, until each of the ${PAGES.toLocaleString('en')} pages has been asked for once; medians of these. All accounts lie in one store, and all ${MANY.toLocaleString('en')} volumes are found on the pages. The server finds another version of the owner each time, so that every request reads its page from SQLite.`,
      ],
    };
  },
};
