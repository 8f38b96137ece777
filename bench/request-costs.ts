/** What the edge adds to each request: the check of a token, known or new, and the rate limits. */
import { z } from 'zod';
import type { Bench } from './bench.ts';
import { startChild } from './lib/child.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';

const WARM_UPS = 5;
const ASKED_KNOWN_US = 1.5;
const ASKED_NEW_RATIO = 1.5;
const ASKED_RATES_US = 2;

const figures = z.object({
  cryptoUs: z.number(),
  signatureUs: z.number(),
  newUs: z.number(),
  knownUs: z.number(),
  oneUs: z.number(),
  manyUs: z.number(),
});
type Figures = z.infer<typeof figures>;

export const requestCosts: Bench = {
  title: 'what each request pays for its token and its rate limits',
  async run({ folder, flags, say }) {
    const rounds = await alternate<Figures>({
      rounds: flags.has('--short') ? 1 : 9,
      calibrator: { name: 'server', figure: ({ cryptoUs }) => cryptoUs },
      say,
      candidates: {
        async server() {
          const child = startChild('request-costs.ts', 0, { folder });
          try {
            for (let n = 0; n < WARM_UPS; n += 1) await child.ask('measure', figures);
            return await child.ask('measure', figures);
          } finally {
            await child.stop();
          }
        },
      },
    });
    const all = rounds.of('server');
    const ratiosOf = (pick: (one: Figures) => number): number[] => all.map((one) => pick(one) / one.cryptoUs);
    const row = (text: string, pick: (one: Figures) => number, hasRatio: boolean): string[] => [
      text,
      spread(all.map(pick)),
      hasRatio ? spread(ratiosOf(pick)) : '-',
    ];
    const knownUs = median(all.map((one) => one.knownUs));
    const newRatio = median(ratiosOf((one) => one.newUs));
    const ratesUs = Math.max(median(all.map((one) => one.oneUs)), median(all.map((one) => one.manyUs)));
    return {
      table: [
        ['', 'µs', 'ratio in a round'],
        ["node:crypto's verification of the signature", spread(all.map((one) => one.cryptoUs)), '1'],
        row('a new token: signature and claims', (one) => one.signatureUs, true),
        row('a new token, with its login in the store', (one) => one.newUs, true),
        row('a known token', (one) => one.knownUs, false),
        row('rate limits of address and account, one of each', (one) => one.oneUs, false),
        row('the same, 40,000 of each in turn', (one) => one.manyUs, false),
      ],
      verdicts: [
        {
          asked: `a known token: ≤ ${ASKED_KNOWN_US} µs`,
          measured: `${shown(knownUs)} µs`,
          met: knownUs <= ASKED_KNOWN_US,
        },
        {
          asked: `a new token: ≤ ${ASKED_NEW_RATIO} × node:crypto's verification`,
          measured: `${shown(newRatio)} ×`,
          met: newRatio <= ASKED_NEW_RATIO,
        },
        {
          asked: `rate limits: < ${ASKED_RATES_US} µs a request`,
          measured: `${shown(ratesUs)} µs`,
          met: ratesUs < ASKED_RATES_US,
        },
      ],
      notes: [
        `One call after another in one process; a figure is CPU time of all threads, the median over 50 batches. Known: 2,000 calls a batch, from the Authorization header to the caller; a token is looked up in the store once a second. Rate limits: with both pairs of headers on a reply of Fastify. Rounds kept: ${rounds.retained}, dropped because node:crypto was more than 15 % off its median: ${rounds.dropped}.`,
      ],
    };
  },
};
