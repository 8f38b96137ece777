/** Limits of an instance that follow from its size. */

const PROCESSES = { min: 1_024, max: 65_536 };
const PROCESSES_PER_MIB = 2;
const PROCESSES_PER_PROCESSOR = 512;
const FILES_PER_MIB = 64;
const FILES = { min: 16_384, max: 524_288 };

const within = ({ min, max }: { min: number; max: number }, value: number): number =>
  Math.min(max, Math.max(min, Math.floor(value)));

/**
 * Processes and threads. By memory: over all instances a quarter of what a kernel allows by
 * default. By processors: each process of a fork bomb waits for all others, and what it holds in
 * the kernel meanwhile is held from the whole host.
 */
export const processLimitOf = ({ memoryMiB, cpuMilli }: { memoryMiB: number; cpuMilli: number }): number =>
  within(
    PROCESSES,
    Math.min(memoryMiB * PROCESSES_PER_MIB, PROCESSES.min + (cpuMilli / 1_000) * PROCESSES_PER_PROCESSOR),
  );

/** Open files of one process. */
export const openFileLimitOf = (memoryMiB: number): number => within(FILES, memoryMiB * FILES_PER_MIB);

/** The kernel has 512 for each GiB, and 4,096 (`engines/docker/host/kernel-limits.ts`). */
export const TERMINALS_OF_INSTANCE = 512;
