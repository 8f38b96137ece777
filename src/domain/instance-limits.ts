/** Limits of an instance that follow from its size. */

const PROCESSES_PER_MIB = 2;
const PROCESSES = { min: 1_024, max: 65_536 };
const FILES_PER_MIB = 64;
const FILES = { min: 16_384, max: 524_288 };

const within = ({ min, max }: { min: number; max: number }, value: number): number =>
  Math.min(max, Math.max(min, Math.floor(value)));

/** Processes and threads; over all instances a quarter of what a kernel allows by default. */
export const processLimitOf = (memoryMiB: number): number => within(PROCESSES, memoryMiB * PROCESSES_PER_MIB);

/** Open files of one process. */
export const openFileLimitOf = (memoryMiB: number): number => within(FILES, memoryMiB * FILES_PER_MIB);
