/**
 * A planted fault is hunted in a copy of the source and of the simulation, in a folder of its own that is gone afterwards. Only what the
 * simulation says of a run counts: a copy that does not load, or a thread that dies, is no find but an error.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { PlantedFault } from './planted-faults.ts';
import { runAll } from './worker-pool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** All that a thread of the simulation loads; `package.json` says that these are modules. */
const copied = ['package.json', 'src', 'test/simulation'];

/** However it is wrapped and indented. */
const patternOf = ({ find }: PlantedFault): RegExp => {
  const words = find.trim().split(/\s+/);
  return new RegExp(words.map((word) => word.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('\\s+'), 'g');
};

/** Why it can't be planted in today's source; null: it can. */
export function whyNotPlanted(fault: PlantedFault): string | null {
  const { name, file, find, replace } = fault;
  if (find.trim() === replace.trim()) return `${name} changes nothing`;
  const times = [...readFileSync(join(root, 'src', file), 'utf8').matchAll(patternOf(fault))].length;
  return times === 1 ? null : `${name}: what it changes is ${times} times in src/${file}; the source has moved on`;
}

export interface Copy {
  /** The module that a thread of the simulation runs. */
  worker: URL;
  remove(): void;
}

/** Null: nothing is planted in it. */
export function makeCopy(fault: PlantedFault | null): Copy {
  const why = fault && whyNotPlanted(fault);
  if (why) throw new Error(why);
  const folder = mkdtempSync(join(tmpdir(), 'berth-planted-'));
  for (const name of copied) cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  if (fault) {
    const file = join(folder, 'src', fault.file);
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace(patternOf(fault), () => fault.replace),
    );
  }
  return {
    worker: pathToFileURL(join(folder, 'test/simulation/worker.ts')),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export interface Find {
  seed: number;
  wrong: string;
}

/** The first of so many seeds in which something is wrong; null when there is none. */
export async function firstWrong({ worker }: Copy, seeds: { from: number; count: number }): Promise<Find | null> {
  let found: Find | null = null;
  const numbers = Array.from({ length: seeds.count }, (_, at) => seeds.from + at);
  const names = numbers.map((seed) => `seed:${seed}`);
  await runAll(
    names,
    ({ name, wrong }) => {
      if (wrong !== null) found = { seed: Number(name.slice('seed:'.length)), wrong };
      return wrong === null;
    },
    { threads: 1, worker },
  );
  return found;
}

/** Looks for it in the seeds from 0 on. One in which something is wrong without the fault too is no find. */
export async function hunt(fault: PlantedFault, sound: Copy, mostSeeds: number): Promise<Find | null> {
  const planted = makeCopy(fault);
  try {
    for (let from = 0; from < mostSeeds;) {
      const found = await firstWrong(planted, { from, count: mostSeeds - from });
      if (!found || !(await firstWrong(sound, { from: found.seed, count: 1 }))) return found;
      from = found.seed + 1;
    }
    return null;
  } finally {
    planted.remove();
  }
}
