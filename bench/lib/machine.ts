/** Description of the machine, and the cost of one `fdatasync`, the floor under durable figures. */
import { spawnSync } from 'node:child_process';
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { median } from './numbers.ts';

const PAGE_BYTES = 8192;
const FLOOR_SYNCS = 1_500;
const US_PER_MS = 1000;

export const canPin = cpus().length > 1 && spawnSync('taskset', ['--version'], { stdio: 'ignore' }).status === 0;

/** A single core, or `any` for external programs with all cores. */
export type Core = 0 | 1 | 'any';

/** Command prefix that pins to the core; empty where unsupported. */
export const pinned = (core: Core): string[] => (canPin && core !== 'any' ? ['taskset', '-c', String(core)] : []);

/** Median microseconds of a durable 8 KB write at a moving offset, in the folder of the stores. */
export function fsyncFloorUs(folder: string): number {
  const file = join(folder, 'fsync-floor');
  const descriptor = openSync(file, 'w', 0o600);
  const page = Buffer.alloc(PAGE_BYTES, 7);
  const tookUs: number[] = [];
  try {
    for (let n = 0; n < FLOOR_SYNCS; n++) {
      const beganMs = performance.now();
      writeSync(descriptor, page, 0, PAGE_BYTES, (n % 256) * PAGE_BYTES);
      fdatasyncSync(descriptor);
      tookUs.push((performance.now() - beganMs) * US_PER_MS);
    }
  } finally {
    closeSync(descriptor);
    rmSync(file);
  }
  return median(tookUs);
}

export function machineFacts(folder: string): string[] {
  const model = cpus()[0]?.model ?? 'unknown processor';
  const memoryGiB = Math.round(totalmem() / 1024 ** 3);
  return [
    `${cpus().length} cores (${model}), ${memoryGiB} GiB, Linux ${release()}, Node ${process.version}`,
    `fdatasync of 8 KB: ${fsyncFloorUs(folder).toFixed(0)} µs (median of ${FLOOR_SYNCS}, before the first round)`,
    canPin
      ? 'a server under load is pinned to core 0, the load generator to core 1'
      : 'not pinned: taskset or a second core is missing',
  ];
}

/** Limit of open files; Node raises its own to the maximum. */
export function openFiles(): number {
  const { stdout } = spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' });
  return Number(stdout) || Infinity;
}
