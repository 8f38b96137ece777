/** List calls while strangers guess passwords: 50 accounts, 50 addresses, 50 logins a second. */
import { request } from 'node:http';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { launchBody, startBerth, type Berth } from './lib/berth.ts';
import { load, postText, type Load } from './lib/load.ts';
import { median, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';
import { PASSWORD, simulated } from './lib/settings.ts';

const PATH = '/api/instance/list';
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };
const SOURCES = 50;
const PER_SECOND = 50;
const MS_PER_S = 1_000;
const ASKED_RATIO = 1.2;
/** An account refuses after ten wrong passwords: with the warm-up, all are hashed. */
const TIMES = { warmUpMs: 1_000, measureMs: 8_000 };
const SHORT_TIMES = { warmUpMs: 500, measureMs: 2_000 };

interface Sample {
  load: Load;
  /** Wrong logins a second, of those whose password was checked. */
  checkedPerSecond: number;
}

export const loginFlood: Bench = {
  title: `POST ${PATH} during ${PER_SECOND} wrong logins a second, of ${SOURCES} accounts from ${SOURCES} addresses`,
  async run({ folder, flags, say }) {
    const short = flags.has('--short');
    const times = short ? SHORT_TIMES : TIMES;
    const berth = await startBerth(simulated(join(folder, 'store'), { loop: 'off' }), 'any');
    try {
      const { cookie, token } = await berth.login('admin');
      const admin = berth.client(token);
      for (let n = 0; n < PAGE.pager.pageSize; n += 1) await admin.launch(launchBody(berth));
      const requests = [postText(berth.apiPort, PATH, cookie, PAGE)];
      const measured = () => load(berth.child, { port: berth.apiPort, connections: 1, requests, ...times });
      let round = 0;
      const flooded = async (): Promise<Sample> => {
        const names = Array.from({ length: SOURCES }, (_, index) => `account-${round}-${index}`);
        round += 1;
        for (const username of names) await admin.createUser({ username, password: PASSWORD, balance: 0 });
        const flood = startFlood(berth, names);
        const beganMs = performance.now();
        try {
          const sample = await measured();
          const seconds = (performance.now() - beganMs) / MS_PER_S;
          return { load: sample, checkedPerSecond: flood.checked() / seconds };
        } finally {
          await flood.stop();
        }
      };
      const rounds = await alternate<Sample>({
        rounds: short ? 1 : 7,
        calibrator: null,
        say,
        candidates: { quiet: async () => ({ load: await measured(), checkedPerSecond: 0 }), flooded },
      });
      const [quiet, flood] = [rounds.of('quiet'), rounds.of('flooded')];
      const ratios = flood.map(({ load: { p99Ms } }, index) => p99Ms / (quiet[index]?.load.p99Ms ?? Number.NaN));
      const row = (text: string, samples: Sample[]): string[] => [
        text,
        spread(samples.map((sample) => sample.load.p50Ms)),
        spread(samples.map((sample) => sample.load.p99Ms)),
        spread(samples.map((sample) => sample.load.perSecond)),
        spread(samples.map((sample) => sample.checkedPerSecond)),
      ];
      return {
        table: [
          ['', 'p50 ms', 'p99 ms', 'lists/s', 'passwords checked/s'],
          row('quiet', quiet),
          row(`${PER_SECOND} wrong logins a second`, flood),
        ],
        verdicts: [
          {
            asked: `p99 ≤ ${ASKED_RATIO} × quiet, in the median round`,
            measured: `${spread(ratios)} ×`,
            met: median(ratios) <= ASKED_RATIO,
          },
        ],
        notes: [
          'The server is not pinned. One connection lists a page of ten without a pause, so server and generator take one core together. More connections take both cores, and leave none to the hashes.',
          'Each round floods other accounts, whose limit of wrong passwords is not reached within the round: every login costs a hash.',
        ],
      };
    } finally {
      await berth.child.stop();
    }
  },
};

/** Logins at a fixed rate, each on a connection of its own. */
function startFlood({ apiPort }: Berth, names: readonly string[]) {
  let checked = 0;
  let sent = 0;
  const underWay = new Set<Promise<void>>();
  const send = (): void => {
    const index = sent++ % names.length;
    const login = logIn(apiPort, names[index] ?? '', `127.0.1.${index + 1}`).then((status) => {
      if (status === 401) checked += 1;
    });
    underWay.add(login);
    void login.finally(() => underWay.delete(login));
  };
  const timer = setInterval(send, MS_PER_S / PER_SECOND);
  return {
    checked: () => checked,
    async stop() {
      clearInterval(timer);
      await Promise.all(underWay);
    },
  };
}

async function logIn(port: number, username: string, localAddress: string): Promise<number> {
  const body = JSON.stringify({ username, password: 'a wrong password' });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const options = {
    host: '127.0.0.1',
    port,
    path: '/api/user/login',
    method: 'POST',
    headers,
    localAddress,
    agent: false,
  };
  return new Promise((resolve, reject) => {
    const sent = request(options, (answer) => {
      answer.resume();
      answer.once('end', () => resolve(answer.statusCode ?? 0));
    });
    sent.once('error', reject);
    sent.end(body);
  });
}
