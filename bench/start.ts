/**
 * The program with 100,000 stored instances: time from spawn to the first correct answer, and idle
 * cost.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { program } from '../scripts/lib/program.mjs';
import { z } from 'zod';
import type { Bench, BenchContext } from './bench.ts';
import { startBerth } from './lib/berth.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { freePort, startProgram, type Started } from './lib/program.ts';
import { alternate } from './lib/rounds.ts';
import { ownerName, seed } from './lib/seed.ts';
import { DOMAIN, PASSWORD, simulated } from './lib/settings.ts';

const ROWS = 100_000;
const OWNER = 42;
const IDLE_MS = 30_000;
const SETTLE_MS = 3_000;
const DEADLINE_MS = 60_000;
/** Clock ticks per second of /proc, on every Linux. */
const TICKS_PER_SECOND = 100;

const page = z.object({
  instances: z.array(z.unknown()).length(10),
  pager: z.object({ totalEntries: z.literal(100) }),
});

/** Resident MB of the process, and CPU seconds so far. */
async function spentBy(pid: number): Promise<{ residentMB: number; cpuS: number }> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const residentKiB = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]);
  return { residentMB: (residentKiB * 1024) / 1e6, cpuS: (Number(ticks[11]) + Number(ticks[12])) / TICKS_PER_SECOND };
}

async function bareStart(): Promise<number> {
  const port = await freePort();
  const code = `require('node:http').createServer((q, s) => s.end('ok')).listen(${port}, '127.0.0.1')`;
  const url = `http://127.0.0.1:${port}/`;
  const bare = await startProgram(['-e', code], {}, async () => (await fetch(url)).ok);
  await bare.end();
  return bare.tookMs;
}

export const start: Bench = {
  title: `the program with ${ROWS.toLocaleString('en')} instances: first answer, and at rest`,
  async run(context) {
    const { folder, flags, say } = context;
    const dataFolder = join(folder, 'data');
    say(`  seeding ${ROWS.toLocaleString('en')} rows`);
    await seed(dataFolder, ROWS, say);
    const berth = await startBerth(simulated(dataFolder));
    const { cookie } = await berth.login(ownerName(OWNER));
    await berth.child.stop();

    const startBerthProgram = async (engine: 'simulated' | 'docker'): Promise<Started> => {
      const [port, gatewayPort] = [await freePort(), await freePort()];
      const env = {
        BERTH_DATA: dataFolder,
        BERTH_LISTEN: `127.0.0.1:${port}`,
        BERTH_GATEWAY_LISTEN: `127.0.0.1:${gatewayPort}`,
        BERTH_DOMAIN: DOMAIN,
        BERTH_ENGINE: engine,
        BERTH_ADMIN_PASSWORD: PASSWORD,
        BERTH_REGISTRY_IMAGES: 'off',
        BERTH_LOG: 'error',
      };
      const headers = { 'content-type': 'application/json', cookie };
      const body = JSON.stringify({ pager: { currentPage: 1, pageSize: 10 } });
      return startProgram(program, env, async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/api/instance/list`, { method: 'POST', headers, body });
        return page.safeParse(await answer.json()).success;
      });
    };
    const once = async (): Promise<number> => {
      const started = await startBerthProgram('simulated');
      await started.end();
      return started.tookMs;
    };
    const rounds = await alternate<number>({
      rounds: flags.has('--short') ? 2 : 9,
      calibrator: { name: 'bare', figure: (ms) => ms },
      say,
      candidates: { bare: bareStart, berth: once },
    });
    const rest = [];
    for (const engine of ['simulated', 'docker'] as const)
      rest.push(await atRest(engine, startBerthProgram, dataFolder, context));

    const ms = median(rounds.of('berth'));
    const rows = rest.map(({ engine, ...one }) => [
      `at rest, ${engine} engine: MB after ${shown(one.seconds)} s, share of a core`,
      `${shown(one.residentMB)} MB, ${shown(one.share * 100)} %`,
    ]);
    return {
      table: [
        ['', 'median'],
        ['bare node:http: spawn to first answer, ms', spread(rounds.of('bare'))],
        ['Berth: spawn to the first page of 10 of 100, ms', spread(rounds.of('berth'))],
        ...rows,
      ],
      verdicts: [
        { asked: 'first correct answer < 1 s', measured: `${shown(ms)} ms`, met: ms < 1000 },
        ...rest.flatMap(({ engine, residentMB, share }) => [
          { asked: `${engine}: resident at rest < 150 MB`, measured: `${shown(residentMB)} MB`, met: residentMB < 150 },
          { asked: `${engine}: < 1 % of a core at rest`, measured: `${shown(share * 100)} %`, met: share < 0.01 },
        ]),
      ],
      notes: [
        `Starts as \`npm run up\` leaves the installation: compiled modules are in Node's cache after the first one, which is not counted. Rounds kept: ${rounds.retained}, dropped because bare Node was more than 15 % off its median: ${rounds.dropped}.`,
        'At rest: from the first answer on, three seconds are let pass; then processor time of all threads is taken over 30 s, in which every timer of Berth has come round at least once, the hourly one aside, and then the resident memory. All instances are stopped ones.',
      ],
    };
  },
};

async function textsWritten(dataFolder: string, engine: string): Promise<void> {
  const database = new DatabaseSync(join(dataFolder, 'berth.db'), { readOnly: true });
  try {
    const written = database.prepare("select value from setting where name like 'texts.%'");
    for (const endMs = performance.now() + DEADLINE_MS; ;) {
      if (String(written.get()?.['value']).includes(`"engine":"${engine}"`)) return;
      if (performance.now() > endMs) throw new Error('the texts were not written anew in time');
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  } finally {
    database.close();
  }
}

async function atRest(
  engine: 'simulated' | 'docker',
  startProgramOn: (engine: 'simulated' | 'docker') => Promise<Started>,
  dataFolder: string,
  { say, flags }: BenchContext,
): Promise<{ engine: string; residentMB: number; share: number; seconds: number }> {
  say(`  at rest, ${engine}`);
  // Instance texts contain the engine: the first start on another one rewrites them in the
  // background.
  const first = await startProgramOn(engine);
  try {
    await textsWritten(dataFolder, engine);
  } finally {
    await first.end();
  }
  const started = await startProgramOn(engine);
  try {
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    const pid = started.process.pid ?? 0;
    const before = await spentBy(pid);
    const idleMs = flags.has('--short') ? IDLE_MS / 3 : IDLE_MS;
    await new Promise((resolve) => setTimeout(resolve, idleMs));
    const after = await spentBy(pid);
    const seconds = idleMs / 1000;
    return { engine, residentMB: after.residentMB, share: (after.cpuS - before.cpuS) / seconds, seconds };
  } finally {
    await started.end();
  }
}
