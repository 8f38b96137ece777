/** Reads and raises limits of the kernel (`kernel-limits.ts`). */
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { kernelLimits, lowLimits, type LowLimit } from './kernel-limits.ts';

const SYSCTLS = '/proc/sys';

/** `check` only reads. */
export type KernelLimitsMode = 'raise' | 'check';

export interface KernelLimitsState {
  /** With their earlier value. */
  raised: LowLimit[];
  low: LowLimit[];
}

/** Raises limits that are too low, never lowers one. */
export async function ensureKernelLimits(
  memoryBytes: number,
  mode: KernelLimitsMode,
  folder = SYSCTLS,
): Promise<KernelLimitsState> {
  const before = lowLimits(await readLimits(folder), memoryBytes);
  if (mode === 'check' || before.length === 0) return { raised: [], low: before };
  await Promise.all(before.map(({ name, needed }) => writeFile(fileOf(folder, name), String(needed)).catch(() => {})));
  const low = lowLimits(await readLimits(folder), memoryBytes);
  return { raised: before.filter(({ name }) => low.every((still) => still.name !== name)), low };
}

async function readLimits(folder: string): Promise<Map<string, number>> {
  const read = async ({ name }: { name: string }): Promise<[string, number][]> => {
    const text = await readFile(fileOf(folder, name), 'utf8').catch(() => null);
    return text === null ? [] : [[name, Number(text)]];
  };
  return new Map((await Promise.all(kernelLimits.map(read))).flat());
}

const fileOf = (folder: string, name: string): string => path.join(folder, ...name.split('.'));
