/**
 * Creating volumes of 100 GB in image files, alone and eight at once, against the bare mkfs. Needs
 * root and loop devices.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rm, statfs, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { DiskId } from '../src/domain/storage/disk.ts';
import { makeImageFileStorage } from '../src/storage/image-file/image-file.ts';
import { prepareRoot } from '../src/storage/layout.ts';
import type { Bench } from './bench.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';

const SIZE_GB = 100;
const GB = 1024 ** 3;
const AT_ONCE = 8;
const ASKED_MS = 500;
const DEADLINE_MS = 60_000;

const run = promisify(execFile);
const freshVolume = (): DiskId => ({ kind: 'volume', id: randomUUID() });

async function timed(fn: () => Promise<unknown>): Promise<number> {
  const beganMs = performance.now();
  await fn();
  return performance.now() - beganMs;
}

export const volumeCreate: Bench = {
  title: `a volume of ${SIZE_GB} GB in an image file, from the call to when it can be mounted`,
  async run({ folder, flags, say }) {
    const rounds = flags.has('--short') ? 3 : 30;
    const at = { root: join(folder, 'pool'), installation: 'bench' };
    await prepareRoot(at);
    const storage = makeImageFileStorage({ ...at, copies: 'live' });
    const create = (disk: DiskId): Promise<number> =>
      timed(() => storage.create(disk, SIZE_GB, AbortSignal.timeout(DEADLINE_MS)));
    /** Checks the size of the created disk. */
    const check = async (disk: DiskId): Promise<void> => {
      const { bsize, bfree } = await statfs(await storage.mount(disk));
      if (bsize * bfree < SIZE_GB * GB) throw new Error(`the new volume has ${bsize * bfree} bytes, not ${SIZE_GB} GB`);
      await storage.unmount(disk);
    };
    const bareFile = join(folder, 'bare');
    const bare = async (): Promise<number> => {
      await writeFile(bareFile, '');
      await truncate(bareFile, SIZE_GB * GB);
      const tookMs = await timed(() => run('mkfs.xfs', ['-q', '-K', bareFile]));
      await rm(bareFile);
      return tookMs;
    };
    const took: Record<'bare' | 'alone' | 'together', number[]> = { bare: [], alone: [], together: [] };
    try {
      for (let round = 0; round < rounds; round++) {
        if (round % 10 === 0) say(`  round ${round + 1} of ${rounds}`);
        took.bare.push(await bare());
        const one = freshVolume();
        took.alone.push(await create(one));
        await check(one);
        const several = Array.from({ length: AT_ONCE }, freshVolume);
        took.together.push(...(await Promise.all(several.map(create))));
        for (const disk of [one, ...several]) await storage.destroy(disk);
      }
    } finally {
      for (const disk of await storage.listOwned()) await storage.destroy(disk);
    }
    const row = (text: string, tookMs: number[]): string[] => [text, spread(tookMs), shown(percentile(tookMs, 0.95))];
    const worst = (tookMs: number[]): number => percentile(tookMs, 0.95);
    return {
      table: [
        ['', 'ms: median [least-most]', '95 of 100 within'],
        row(`bare mkfs.xfs of ${SIZE_GB} GB`, took.bare),
        row('created alone', took.alone),
        row(`created ${AT_ONCE} at once, each`, took.together),
      ],
      verdicts: [
        {
          asked: `a volume of ${SIZE_GB} GB in < ${ASKED_MS} ms, 95 of 100`,
          measured: `${shown(worst(took.alone))} ms, median ${shown(median(took.alone))}`,
          met: worst(took.alone) < ASKED_MS,
        },
        {
          asked: `${AT_ONCE} at once, each`,
          measured: `${shown(worst(took.together))} ms, median ${shown(median(took.together))}`,
          met: null,
        },
      ],
      notes: [
        `${rounds} rounds. Timed at the storage: the call, its transaction and its reconcile are in other benches (\`create\`, \`settle\`). Each one made alone is mounted and found to have ${SIZE_GB} GB free; all are destroyed after their round.`,
      ],
    };
  },
};
