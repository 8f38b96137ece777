/**
 * The control group of all instances and their Docker daemons. Its settings keep processor, memory
 * and processes for the host's programs; weights, unlike quotas, cost nothing on an idle host. All
 * values follow from the host, so several installations agree. Pure; `cgroups.ts` writes.
 */
export interface GroupHost {
  cgroupVersion: 1 | 2 | null;
  cgroupDriver: 'cgroupfs' | 'systemd' | null;
  memoryBytes: number;
  /** Memory of the host's own programs. */
  reservedBytes: number;
  /** Most processes and threads of the host: the lower of `kernel.pid_max` and `threads-max`. */
  maxProcesses: number;
}

export interface GroupSetting {
  controller: 'cpu' | 'memory' | 'pids' | 'io' | 'blkio';
  file: string;
  value: string;
  /** Kernels without an IO scheduler with weights lack the file. */
  optional?: true;
}

export type InstanceGroup =
  | { driver: 'cgroupfs'; parent: string; version: 1 | 2; settings: GroupSetting[] }
  | { driver: 'systemd'; parent: string; properties: string[] };

const NAME = 'berth';
/** Half of the default: without systemd each thread of the host has the default of its own. */
const SHARES = 512;
const WEIGHT = 50;
/** A quarter of what a slice of the host has. */
const SLICE_WEIGHT = 25;

/** Null: the engine uses no control groups, or they are unknown. */
export function instanceGroupOf(host: GroupHost): InstanceGroup | null {
  const { cgroupVersion: version, cgroupDriver: driver, memoryBytes, reservedBytes, maxProcesses } = host;
  if (version === null || driver === null) return null;
  const memory = String(Math.max(memoryBytes - reservedBytes, Math.floor(memoryBytes / 2)));
  const processes = String(Math.floor((maxProcesses * 3) / 4));
  if (driver === 'systemd') {
    const properties = [
      `CPUWeight=${SLICE_WEIGHT}`,
      `IOWeight=${SLICE_WEIGHT}`,
      `MemoryMax=${memory}`,
      `TasksMax=${processes}`,
    ];
    return { driver, parent: `${NAME}.slice`, properties };
  }
  const pids: GroupSetting = { controller: 'pids', file: 'pids.max', value: processes };
  const settings: GroupSetting[] =
    version === 1
      ? [
          { controller: 'cpu', file: 'cpu.shares', value: String(SHARES) },
          { controller: 'memory', file: 'memory.limit_in_bytes', value: memory },
          pids,
          { controller: 'blkio', file: 'blkio.bfq.weight', value: String(WEIGHT), optional: true },
          { controller: 'blkio', file: 'blkio.weight', value: String(WEIGHT), optional: true },
        ]
      : [
          { controller: 'cpu', file: 'cpu.weight', value: String(WEIGHT) },
          { controller: 'memory', file: 'memory.max', value: memory },
          pids,
          { controller: 'io', file: 'io.bfq.weight', value: String(WEIGHT), optional: true },
          { controller: 'io', file: 'io.weight', value: String(WEIGHT), optional: true },
        ];
  return { driver, parent: `/${NAME}`, version, settings };
}
