/**
 * Cost of a disk in an image file: fio in one container with a mounted disk and a host folder,
 * measured in sequence. Needs root, loop devices and the container engine.
 */
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import Docker from 'dockerode';
import type { DiskId } from '../src/domain/storage/disk.ts';
import { makeImageFileStorage } from '../src/storage/image-file/image-file.ts';
import { prepareRoot } from '../src/storage/layout.ts';
import type { Bench, BenchContext } from './bench.ts';
import { ensureFio, fio, makeFioImage } from './lib/fio.ts';
import { median, shown, spread } from './lib/numbers.ts';

const ASKED_RATIO = 0.9;
const DISK_GB = 10;
const FILE = '1g';
const SECONDS = 1;
/** A larger difference between two equal folders invalidates the run. */
const OFF_BY = 0.15;
const LEAST_QUIET = 3;
const DEADLINE_MS = 60_000;

/**
 * The disk is measured between two host folders: noise affects both and shows in their difference.
 */
const targets = ['host', 'disk', 'again'] as const;
type Target = (typeof targets)[number];

const timed = ['--time_based', `--runtime=${SECONDS}`];
/** Buffered, as in most programs; writes end with an fsync, reads start uncached. */
const buffered = {
  read: ['--ioengine=psync', '--invalidate=1', ...timed],
  write: ['--ioengine=psync', '--end_fsync=1'],
};
/** Direct, as in databases, sixteen at once. */
const direct = ['--ioengine=libaio', '--iodepth=16', '--direct=1', ...timed];
const sequential = '--bs=1m';
const random = '--bs=4k';

const kinds: Record<string, string[]> = {
  'sequential read, buffered': ['--rw=read', sequential, ...buffered.read],
  'sequential write, buffered, then fsync': ['--rw=write', sequential, '--loops=2', ...buffered.write],
  'random read, 4 KiB, buffered': ['--rw=randread', random, ...buffered.read],
  'random write, 4 KiB, buffered, then fsync': ['--rw=randwrite', random, ...buffered.write],
  'sequential read, direct, 16 at once': ['--rw=read', sequential, ...direct],
  'sequential write, direct, 16 at once': ['--rw=write', sequential, ...direct],
  'random read, 4 KiB, direct, 16 at once': ['--rw=randread', random, ...direct],
  'random write, 4 KiB, direct, 16 at once': ['--rw=randwrite', random, ...direct],
};

/** Blocks are allocated before the measurement. */
const layOut = ['--rw=write', sequential, '--ioengine=psync', '--direct=1', '--end_fsync=1'];

const jobs = (order: readonly Target[], kind: string[]): string[] => [
  `--size=${FILE}`,
  '--fallocate=none',
  '--overwrite=1',
  '--randrepeat=0',
  ...order.flatMap((target) => [`--name=${target}`, '--stonewall', `--filename=/${target}/file`, ...kind]),
];

type Sample = Record<Target, number>;

const hostOf = ({ host, again }: Sample): number => (host + again) / 2;
const isQuiet = ({ host, again }: Sample): boolean => Math.abs(again / host - 1) <= OFF_BY;

async function measure(
  { folder, flags, say }: BenchContext,
  docker: Docker,
  disk: string,
): Promise<Map<string, Sample[]>> {
  const folders = { '/host': join(folder, 'host'), '/again': join(folder, 'again'), '/disk': disk };
  for (const one of [folders['/host'], folders['/again']]) await mkdir(one);
  const run = (order: readonly Target[], kind: string[]) =>
    fio(docker, { args: jobs(order, kind), folders, results: folder });
  await run(targets, layOut);
  const rounds = flags.has('--short') ? 3 : 9;
  const samples = new Map<string, Sample[]>(Object.keys(kinds).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    say(`  round ${round + 1} of ${rounds}`);
    const order = round % 2 === 0 ? targets : targets.toReversed();
    for (const [name, kind] of Object.entries(kinds)) {
      const took = await run(order, kind);
      const of = (target: Target): number => took.get(target) ?? Number.NaN;
      samples.get(name)?.push({ host: of('host'), disk: of('disk'), again: of('again') });
    }
  }
  return samples;
}

export const storageFio: Bench = {
  title: 'a disk in an image file against a folder of the same host, both in one container',
  async run(context) {
    await ensureFio();
    const docker = new Docker();
    const image = await makeFioImage(docker);
    const at = { root: join(context.folder, 'pool'), installation: 'bench' };
    const storage = makeImageFileStorage({ ...at, copies: 'live' });
    const disk: DiskId = { kind: 'volume', id: randomUUID() };
    try {
      await prepareRoot(at);
      await storage.create(disk, DISK_GB, AbortSignal.timeout(DEADLINE_MS));
      const samples = await measure(context, docker, await storage.mount(disk));
      const lines = [...samples].map(([name, all]) => {
        const quiet = all.filter(isQuiet);
        // The mean of both host runs is still valid, with less certainty.
        const retained = quiet.length >= LEAST_QUIET ? quiet : all;
        return {
          name,
          retained,
          quiet,
          rounds: all.length,
          ratios: retained.map((one) => one.disk / hostOf(one)),
        };
      });
      return {
        table: [
          ['', 'host folder, MB/s', 'disk, MB/s', 'ratio', 'quiet rounds'],
          ...lines.map(({ name, retained, quiet, rounds, ratios }) => [
            name,
            spread(retained.map(hostOf)),
            spread(retained.map(({ disk: mbPerSecond }) => mbPerSecond)),
            spread(ratios),
            `${quiet.length} of ${rounds}`,
          ]),
        ],
        verdicts: lines.map(({ name, ratios }) => ({
          asked: `${name}: ≥ ${ASKED_RATIO} of the host folder`,
          measured: shown(median(ratios)),
          met: median(ratios) >= ASKED_RATIO,
        })),
        notes: [
          `Files of 1 GiB, laid out before. Each round of a line is one run of fio in one container: the disk, and before and after it a folder of the host each, ${SECONDS} s or one GiB and more. The ratio is to the mean of the two; rounds in which these differ by more than ${100 * OFF_BY} % are dropped, unless fewer than ${LEAST_QUIET} would be left.`,
          "Each request of a disk passes through a thread of the loop device, and an asynchronous write, when it ends, through one more of the host's file system: where the cores are full, or the device is faster than a thread is woken, that is what small ones cost.",
        ],
      };
    } finally {
      await storage.unmount(disk);
      await storage.destroy(disk);
      await image.remove({ force: true });
    }
  },
};
