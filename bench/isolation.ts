/**
 * One account attacks what instances share, with every bomb at once, while another works: its list
 * and its launches, against the same on a quiet machine. Needs root; see `exhaustion.ts`.
 */
import { release } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeExhaustion, useNames, type Exhaustion, type Use } from '../test/docker/e2e/exhaustion.ts';
import { makeSshUser } from '../test/fixtures/ssh-user.ts';
import { bombs, keepKernelLimits } from '../test/fixtures/bombs.ts';
import { startServerProcess } from '../test/fixtures/server-process.ts';
import type { Bench } from './bench.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';
import { openConnection } from './lib/one-connection.ts';

const LISTS = 500;
const ROUNDS = 10;
const ATTACK_SECONDS = 120;
/** Bombs need a while to use up their limits. */
const WARM_UP_MS = 10_000;
const PAGE = JSON.stringify({ pager: { currentPage: 1, pageSize: 10 } });

interface Work {
  listMs: number[];
  /** Milliseconds of each use. */
  ms: Record<Use, number[]>;
  failures: string[];
}

/** Lists on one connection, spread over rounds of all other uses. */
async function work({ uses, token }: Exhaustion, apiUrl: string): Promise<Work> {
  const { host, port } = new URL(apiUrl);
  const connection = await openConnection(Number(port));
  const request = [
    'POST /api/instance/list HTTP/1.1',
    `host: ${host}`,
    `authorization: Bearer ${token}`,
    'content-type: application/json',
    `content-length: ${PAGE.length}`,
    '',
    PAGE,
  ].join('\r\n');
  const done: Work = {
    listMs: [],
    ms: { list: [], launch: [], exec: [], ssh: [], cell: [], fsync: [], host: [] },
    failures: [],
  };
  for (let round = 0; round < ROUNDS; round++) {
    for (let list = 0; list < LISTS / ROUNDS; list++) {
      const beganMs = performance.now();
      await connection.ask(request);
      done.listMs.push(performance.now() - beganMs);
    }
    for (const name of useNames) {
      const beganMs = performance.now();
      await uses[name]().catch((error: unknown) => done.failures.push(`${name}: ${String(error)}`));
      done.ms[name].push(performance.now() - beganMs);
    }
  }
  connection.close();
  return done;
}

export const isolation: Bench = {
  title: `one account with ${bombs.length} bombs at once (${bombs.join(', ')}), and the work of another`,
  async run({ flags, say }) {
    const restoreLimits = await keepKernelLimits();
    const user = await makeSshUser();
    const server = await startServerProcess({
      nodePorts: '32380-32399',
      settings: { BERTH_KERNEL_LIMITS: 'raise' },
    });
    const pairs: { quiet: Work; attacked: Work }[] = [];
    try {
      const exhaustion = await makeExhaustion(server, user);
      await work(exhaustion, server.apiUrl);
      for (let run = 0; run < (flags.has('--short') ? 1 : 3); run++) {
        const quiet = await work(exhaustion, server.apiUrl);
        await exhaustion.attack(ATTACK_SECONDS);
        await sleep(WARM_UP_MS);
        const attacked = await work(exhaustion, server.apiUrl);
        say(
          `  run ${run + 1}: p99 of the list ${shown(percentile(quiet.listMs, 0.99))} and ${shown(percentile(attacked.listMs, 0.99))} ms`,
        );
        await exhaustion.end();
        pairs.push({ quiet, attacked });
      }
    } finally {
      await server.stop();
      await user.remove();
      await restoreLimits();
    }
    const p99 = ({ listMs }: Work): number => percentile(listMs, 0.99);
    const row = (text: string, of: (done: Work) => number): string[] => {
      const [quiet, attacked] = [pairs.map((pair) => of(pair.quiet)), pairs.map((pair) => of(pair.attacked))];
      return [text, spread(quiet), spread(attacked), spread(ratios(of))];
    };
    const ratios = (of: (done: Work) => number): number[] =>
      pairs.map(({ quiet, attacked }) => of(attacked) / of(quiet));
    const medianOf =
      (use: Use) =>
      (done: Work): number =>
        median(done.ms[use]);
    const [listRatio, launchRatio] = [median(ratios(p99)), median(ratios(medianOf('launch')))];
    const failures = pairs.flatMap(({ quiet, attacked }) => [...quiet.failures, ...attacked.failures]);
    const count = pairs.length * ROUNDS;
    return {
      table: [
        ['ms', 'quiet', 'attacked', 'ratio in a run'],
        row(`list, p99 of ${LISTS} on one connection`, p99),
        row('launch until Running', medianOf('launch')),
        row('command', medianOf('exec')),
        row('ssh with a terminal', medianOf('ssh')),
        row('notebook cell in a new kernel', medianOf('cell')),
        row('1 MiB to a volume, with fsync', medianOf('fsync')),
        row("the host's own program", medianOf('host')),
      ],
      verdicts: [
        { asked: "another account's list p99 ≤ 3 × quiet", measured: shown(listRatio), met: listRatio <= 3 },
        { asked: 'its launch ≤ 2 × quiet', measured: shown(launchRatio), met: launchRatio <= 2 },
        {
          asked: `0 failures of ${count} each of launch, command, ssh, cell, write and program, and of ${pairs.length * LISTS} lists`,
          measured: failures.length === 0 ? '0' : `${failures.length}: ${failures.join('; ').slice(0, 300)}`,
          met: failures.length === 0,
        },
      ],
      notes: [
        `${pairs.length} runs; medians of a run, then median over the runs [least-most]. Each bomb runs ${ATTACK_SECONDS} s in an instance of 1 CPU and 2 GB, two in some. Nothing is pinned: server, client and instances share the cores. Kernel ${release()}.`,
      ],
    };
  },
};
