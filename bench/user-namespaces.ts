/**
 * Cost of user namespaces: the same launches on two container engines of the bench's own, one with
 * and one without. Needs root, and uses the ids of user `lp`.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { startOwnEngine, type EngineIds, type OwnEngine } from '../test/docker/e2e/test-engine.ts';
import { copyDefaultImage } from '../test/fixtures/default-images.ts';
import { removeChains } from '../scripts/lib/packet-filter.ts';
import { installationOf } from '../test/fixtures/server-process.ts';
import type { Bench } from './bench.ts';
import { launched, removed, until } from './launch.ts';
import { startBerth } from './lib/berth.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';
import { simulated } from './lib/settings.ts';

/** As many ids as `npm run up` reserves. */
const ids: EngineIds = { user: 'lp', first: 2_300_000_000, count: 1_879_179_264 };
const NODE_PORTS = { with: { first: 28_000, last: 28_099 }, without: { first: 28_100, last: 28_199 } };
const IMAGE_DEADLINE_MS = 600_000;
const ALLOWED_RATIO = 1.15;
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };

interface Took {
  ensureMs: number;
  readyMs: number;
}

interface Candidate {
  launch(): Promise<Took>;
  stop(): Promise<void>;
}

async function makeCandidate(engine: OwnEngine, folder: string, nodePorts: typeof NODE_PORTS.with): Promise<Candidate> {
  const settings = { engine: 'docker', dockerHost: engine.dockerHost, nodePorts } as const;
  const berth = await startBerth(simulated(folder, settings), 'any');
  const { token } = await berth.login('admin');
  const client = berth.client(token);
  const ready = async (): Promise<boolean> => (await client.listImages(PAGE)).images[0]?.state === 'Ready';
  await until(ready, IMAGE_DEADLINE_MS, 200, 'the default image is not Ready');
  // Permanent: keeps the account's network.
  const first = await launched(berth, client);
  return {
    async launch() {
      const { id, readyMs } = await launched(berth, client);
      const ensureMs = await berth.child.ask({ ensured: id }, z.number());
      await removed(berth, client, id);
      return { ensureMs, readyMs };
    },
    async stop() {
      await removed(berth, client, first.id);
      await berth.child.stop();
      await removeChains(installationOf(folder));
    },
  };
}

export const userNamespaces: Bench = {
  title: 'a launch on a container engine with user namespaces, against one without',
  async run({ folder, flags }) {
    const engines: OwnEngine[] = [];
    const candidates: Candidate[] = [];
    const candidate = async (name: keyof typeof NODE_PORTS, options: { ids?: EngineIds }): Promise<Candidate> => {
      const engine = await startOwnEngine(options);
      engines.push(engine);
      await copyDefaultImage(engine.docker, 'notebook');
      const made = await makeCandidate(engine, join(folder, name), NODE_PORTS[name]);
      candidates.push(made);
      return made;
    };
    try {
      const without = await candidate('without', {});
      const remapped = await candidate('with', { ids });
      for (const one of candidates) await one.launch();
      const rounds = await alternate<Took>({
        rounds: flags.has('--short') ? 5 : 30,
        calibrator: null,
        say: () => {},
        candidates: { without: without.launch, with: remapped.launch },
      });
      const row = (text: string, of: (took: Took) => number): string[] => {
        const [a, b] = [rounds.of('without').map(of), rounds.of('with').map(of)];
        return [
          text,
          spread(a),
          spread(b),
          shown(percentile(a, 0.95)),
          shown(percentile(b, 0.95)),
          spread(ratios(a, b)),
        ];
      };
      const readyOf = (name: string): number[] => rounds.of(name).map(({ readyMs }) => readyMs);
      const ratio = median(ratios(readyOf('without'), readyOf('with')));
      return {
        table: [
          ['ms: median [least-most]', 'without', 'with', '95 of 100 within: without', 'with', 'ratio in a round'],
          row('create call to Running', ({ readyMs }) => readyMs),
          row("the engine's `ensure` in it", ({ ensureMs }) => ensureMs),
        ],
        verdicts: [
          {
            asked: `user namespaces cost at most 15 % of a launch: ratio ≤ ${ALLOWED_RATIO}`,
            measured: shown(ratio),
            met: ratio <= ALLOWED_RATIO,
          },
        ],
        notes: [
          `${rounds.retained} rounds in turn, one launch at a time, on two \`dockerd\` that differ in \`--userns-remap\` alone, each with a Berth of its own and the default notebook image. The verdict is the median of the ratios.`,
        ],
      };
    } finally {
      for (const one of candidates) await one.stop();
      for (const one of engines) await one.stop();
    }
  },
};

const ratios = (without: readonly number[], remapped: readonly number[]): number[] =>
  remapped.map((ms, round) => ms / (without[round] ?? Number.NaN));
