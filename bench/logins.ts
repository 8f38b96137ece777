/**
 * A login while 150 connections from the same address log in to another account with its right
 * password. Most of these are refused: their rate is over the limit of an account.
 */
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { startBerth, type Berth } from './lib/berth.ts';
import { postText } from './lib/load.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';
import { openConnection } from './lib/one-connection.ts';
import { alternate } from './lib/rounds.ts';
import { PASSWORD, simulated } from './lib/settings.ts';

const PATH = '/api/user/login';
const CONNECTIONS = 150;
const BUSY = 'busy';
/** Each logs in once per sample, so that none meets the limit of an account. */
const ACCOUNTS = Array.from({ length: 25 }, (_, index) => `account-${index}`);
/** Logins at once that an account may have, and more. */
const ANSWERS_BEFORE = 40;
const ASKED_RATIO = 2;

interface Sample {
  tookMs: number[];
  /** Answers to the busy account during the sample. */
  busyAnswers: number;
  seconds: number;
}

export const logins: Bench = {
  title: `POST ${PATH} while ${CONNECTIONS} connections log in to another account`,
  async run({ folder, flags, say }) {
    const berth = await startBerth(simulated(join(folder, 'store'), { loop: 'off' }), 'any');
    try {
      const { token } = await berth.login('admin');
      const admin = berth.client(token);
      for (const username of [BUSY, ...ACCOUNTS]) await admin.createUser({ username, password: PASSWORD, balance: 0 });
      const rounds = await alternate<Sample>({
        rounds: flags.has('--short') ? 1 : 3,
        calibrator: null,
        say,
        candidates: { quiet: () => logInOnce(berth, () => 0), busy: () => logInWhileBusy(berth) },
      });
      const [quiet, busy] = [rounds.of('quiet'), rounds.of('busy')];
      const ratios = quiet.map(({ tookMs }, round) => median(busy[round]?.tookMs ?? []) / median(tookMs));
      const row = (text: string, samples: Sample[]): string[] => {
        const all = samples.flatMap(({ tookMs }) => tookMs);
        const perSecond = samples.map(({ busyAnswers, seconds }) => busyAnswers / seconds);
        return [text, spread(all), shown(percentile(all, 0.95)), shown(median(perSecond))];
      };
      return {
        table: [
          ['', 'login ms', 'p95 ms', 'answers/s to the busy account'],
          row('quiet', quiet),
          row(`${CONNECTIONS} connections log in to another account`, busy),
        ],
        verdicts: [
          {
            asked: `median ≤ ${ASKED_RATIO} × quiet, in the median round`,
            measured: `${spread(ratios)} ×`,
            met: median(ratios) <= ASKED_RATIO,
          },
        ],
        notes: [
          'The server is not pinned: the hash of a password runs on another core than the event loop.',
          `The busy account has used up its ${ANSWERS_BEFORE} first answers before a sample begins.`,
        ],
      };
    } finally {
      await berth.child.stop();
    }
  },
};

const loginText = ({ apiPort }: Berth, username: string): string =>
  postText(apiPort, PATH, '', { username, password: PASSWORD });

/** One login of each account, one after another, on one connection. */
async function logInOnce(berth: Berth, busyAnswers: () => number): Promise<Sample> {
  const connection = await openConnection(berth.apiPort);
  const tookMs: number[] = [];
  const beganMs = performance.now();
  const before = busyAnswers();
  for (const username of ACCOUNTS) {
    const sentMs = performance.now();
    await connection.ask(loginText(berth, username));
    tookMs.push(performance.now() - sentMs);
  }
  connection.close();
  return { tookMs, busyAnswers: busyAnswers() - before, seconds: (performance.now() - beganMs) / 1_000 };
}

async function logInWhileBusy(berth: Berth): Promise<Sample> {
  let answers = 0;
  let ended = false;
  const warm = Promise.withResolvers<void>();
  const logInAgain = async (): Promise<void> => {
    const connection = await openConnection(berth.apiPort);
    while (!ended) {
      // A refusal counts as well.
      await connection.ask(loginText(berth, BUSY)).catch(() => {});
      answers += 1;
      if (answers >= ANSWERS_BEFORE) warm.resolve();
    }
    connection.close();
  };
  const all = Promise.all(Array.from({ length: CONNECTIONS }, logInAgain));
  await Promise.race([warm.promise, all]);
  const sample = await logInOnce(berth, () => answers);
  ended = true;
  // The queue is empty once all have their answer.
  await all;
  return sample;
}
