/**
 * Hunts a planted fault in a temporary copy of source and simulation. Only a failed run counts as
 * found; a copy that does not load, or a dead thread, is an error.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { PlantedFault } from './planted-faults.ts';
import { runAll } from './worker-pool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** `package.json` makes these files modules. */
const copied = ['package.json', 'src', 'test/simulation', 'test/fixtures', 'test/oracle'];

/** Ignores wrapping and indentation. */
const patternOf = ({ find }: PlantedFault): RegExp => {
  const words = find.trim().split(/\s+/);
  return new RegExp(words.map((word) => word.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('\\s+'), 'g');
};

/** Reason why the fault does not fit the current source, or null. */
export function whyNotPlanted(fault: PlantedFault): string | null {
  const { name, file, find, replace } = fault;
  if (find.trim() === replace.trim()) return `${name} changes nothing`;
  const times = [...readFileSync(join(root, 'src', file), 'utf8').matchAll(patternOf(fault))].length;
  return times === 1 ? null : `${name}: what it changes is ${times} times in src/${file}; the source has moved on`;
}

export interface Copy {
  worker: URL;
  remove(): void;
}

/** Null: an unchanged copy. */
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

/** First failed seed, or null. */
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

/** Tries seeds from 0. A seed that also fails without the fault does not count. */
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
