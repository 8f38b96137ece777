/** Load by wrk, written in C: generator and upstream share one core without limiting the result. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { Need } from '../../scripts/lib/apt.mjs';
import type { Served } from './external-server.ts';
import { pinned } from './machine.ts';
import { cpuUsOf } from './cpu-time.ts';

const SCRIPT = join(import.meta.dirname, '../processes/paths.lua');
const US_PER_S = 1e6;
const US_PER_MS = 1e3;

export const wrkNeed: Need = { apt: 'wrk', programs: ['wrk'], why: 'generates load' };

const run = promisify(execFile);

const figures = z.object({
  count: z.number(),
  tookUs: z.number(),
  failed: z.number(),
  p50Us: z.number(),
  p99Us: z.number(),
  spentUs: z.number(),
});

export interface Wanted {
  connections: number;
  paths: string[];
  headers: Record<string, string>;
  warmUpS: number;
  measureS: number;
  /** Folder for a temporary file. */
  folder: string;
}

export interface Flood {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** CPU time of the server per request: shows the rate of a full core, even on a busy machine. */
  serverUs: number;
  serverShare: number;
  generatorShare: number;
}

/** One measurement; throws on any response but 2xx or 3xx. */
export async function flood({ pid, port }: Pick<Served, 'pid' | 'port'>, wanted: Wanted): Promise<Flood> {
  const { connections, paths, headers, warmUpS, measureS, folder } = wanted;
  const file = join(folder, 'paths');
  await writeFile(file, paths.map((path) => `${path}\n`).join(''));
  const wrk = async (seconds: number): Promise<z.infer<typeof figures>> => {
    const given = Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]);
    const args = ['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`, ...given];
    const command = [...pinned(1), 'wrk', ...args, '--script', SCRIPT, `http://127.0.0.1:${port}`, '--', file];
    const { stdout } = await run(command[0] ?? '', command.slice(1));
    const found = figures.parse(JSON.parse(stdout.trim().split('\n').at(-1) ?? ''));
    if (found.failed > 0 || found.count === 0) throw new Error(`${found.failed} of ${found.count} failed: ${stdout}`);
    return found;
  };
  if (warmUpS > 0) await wrk(warmUpS);
  const beforeUs = await cpuUsOf(pid);
  const { count, tookUs, p50Us, p99Us, spentUs } = await wrk(measureS);
  const serverUs = (await cpuUsOf(pid)) - beforeUs;
  return {
    perSecond: (count * US_PER_S) / tookUs,
    p50Ms: p50Us / US_PER_MS,
    p99Ms: p99Us / US_PER_MS,
    serverUs: serverUs / count,
    serverShare: serverUs / tookUs,
    generatorShare: spentUs / tookUs,
  };
}
