/** Processor time of forwarded addresses and the check of proxies, for a request of the API. */
import { makeTrustedProxies, takeForwarded } from '../src/edge/address-list.ts';
import { isCheck } from '../src/edge/proxy-check.ts';
import type { Bench } from './bench.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';

const LIMIT_US = 0.2;
const PROXY = '127.0.0.1';
const CLIENTS = 10_000;
const PATH = '/api/instance/list';
const proxies = makeTrustedProxies([PROXY, '10.0.0.0/8']);

/** Header of each client in turn, as bytes: a server makes a text of them for each request. */
type Traffic = Buffer[];

const from = (clients: number, proxies: string): Buffer[] =>
  Array.from({ length: clients }, (_, nth) => Buffer.from(`203.0.${nth >> 8}.${nth & 255}${proxies}`));

const traffic: Record<string, Traffic> = {
  'without a proxy': [],
  'one hop': from(100, ''),
  'three hops': from(100, ', 10.1.2.3, 10.1.2.4'),
  [`one hop, ${CLIENTS.toLocaleString('en')} clients`]: from(CLIENTS, ''),
};

/** Microseconds of processor time of a request. */
function run(list: Traffic, count: number, reads: boolean): number {
  let trusted = 0;
  const before = process.cpuUsage();
  for (let nth = 0; nth < count; nth += 1) {
    const text = list[nth % list.length]?.toString('latin1');
    const headers = text === undefined ? { host: 'h' } : { host: 'h', 'x-forwarded-for': text };
    if (reads) {
      // Asked by the API, and again by fastify; the header that is left has the client alone.
      if (proxies.includes(PROXY)) takeForwarded(headers, proxies);
      if (proxies.includes(PROXY)) trusted += 1;
      if (isCheck(PATH)) trusted = Number.NaN;
    } else trusted += headers.host.length;
  }
  const { user, system } = process.cpuUsage(before);
  if (trusted !== count) throw new Error('an address of a proxy is not trusted');
  return (user + system) / count;
}

export const forwarded: Bench = {
  title: 'forwarded addresses and the check of proxies, of a request',
  async run({ flags, say }) {
    const short = flags.has('--short');
    const count = short ? 100_000 : 2_000_000;
    const measured = (one: Traffic) => () => run(one, count, true) - run(one, count, false);
    for (const one of Object.values(traffic)) measured(one)();
    const rounds = await alternate<number>({
      rounds: short ? 1 : 9,
      calibrator: null,
      say,
      candidates: Object.fromEntries(Object.entries(traffic).map(([name, one]) => [name, async () => measured(one)()])),
    });
    const names = Object.keys(traffic);
    return {
      table: [
        ['request', 'µs', 'of the limit'],
        ...names.map((name) => [name, spread(rounds.of(name)), shown(median(rounds.of(name)) / LIMIT_US)]),
      ],
      verdicts: names.map((name, nth) => {
        const us = median(rounds.of(name));
        const met = nth === names.length - 1 ? null : us <= LIMIT_US;
        return { asked: `${name}: at most ${LIMIT_US} µs`, measured: `${shown(us)} µs`, met };
      }),
      notes: [
        `${count.toLocaleString('en')} requests a round, less the same loop without the reading: the header, which is a new text each time, which addresses are trusted, and whether the path is of the check. A hundred clients in turn; the results of 1,000 headers are stored, so that those of ${CLIENTS.toLocaleString('en')} clients in turn are parsed each time.`,
      ],
    };
  },
};
