/**
 * Limits of the kernel that all users of a host share. Root inside is uid 0 of the host, so an
 * instance that used one up would take epoll watches, say, from Berth and every other instance. The
 * kernel charges most of these objects to an instance's memory: a limit of the host's memory
 * divided by the charge is never reached. Others get a share of memory. Pure; `sysctls.ts` writes.
 */
export interface KernelLimit {
  /** Name for sysctl(8). */
  name: string;
  /** Least value that keeps the promise on a host of this memory. */
  needed(memoryBytes: number): number;
  /** The kernel takes 0 as no limit. */
  zeroIsUnlimited?: boolean;
}

const INT_MAX = 2 ** 31 - 1;
const GIB = 2 ** 30;

/** Charges are lower bounds over kernel versions. */
const charged =
  (bytes: number, max = Number.MAX_SAFE_INTEGER) =>
  (memoryBytes: number): number =>
    Math.min(max, Math.ceil(memoryBytes / bytes));

const PTYS_OF_HOST = 4_096;
const PTYS_PER_GIB = 512;
const THREADS_OF_HOST = 16_384;

export const kernelLimits: readonly KernelLimit[] = [
  // struct epitem; measured: 211 bytes a watch.
  { name: 'fs.epoll.max_user_watches', needed: charged(128) },
  // struct fsnotify_group; measured: 1,012 bytes with its file.
  { name: 'fs.inotify.max_user_instances', needed: charged(256, INT_MAX) },
  { name: 'fs.inotify.max_user_watches', needed: charged(80, INT_MAX) },
  // Two events of 32 bytes in the ring of a context; measured: 64.
  { name: 'fs.aio-max-nr', needed: charged(64) },
  // struct pipe_buffer. Past the limit an unprivileged pipe holds 2 pages instead of 16.
  { name: 'fs.pipe-user-pages-soft', needed: charged(40), zeroIsUnlimited: true },
  // struct file. Only programs without rights on the host are refused past the limit.
  { name: 'fs.file-max', needed: charged(184) },
  { name: 'kernel.pid_max', needed: () => 4_194_304 },
  // Twice the process limits (`domain/compute/instance-limits.ts`), for Docker inside.
  { name: 'kernel.threads-max', needed: (memory) => Math.ceil(memory / (256 * 1024)) + THREADS_OF_HOST },
  // Charged 3 KiB, but takes another 24 KiB: 1.2 % of memory.
  { name: 'kernel.pty.max', needed: (memory) => Math.ceil(memory / GIB) * PTYS_PER_GIB + PTYS_OF_HOST },
  // Not charged: 320 bytes an entry. A 64th of memory.
  { name: 'net.netfilter.nf_conntrack_max', needed: charged(320 * 64) },
  // Not charged: 512 bytes an entry. One table for all networks; each instance fills 253 entries.
  { name: 'net.ipv4.neigh.default.gc_thresh3', needed: charged(512 * 64, INT_MAX) },
];

export interface LowLimit {
  name: string;
  value: number;
  needed: number;
}

/** Limits that are too low. A kernel may lack some. */
export function lowLimits(values: ReadonlyMap<string, number>, memoryBytes: number): LowLimit[] {
  return kernelLimits.flatMap(({ name, needed, zeroIsUnlimited = false }) => {
    const value = values.get(name);
    if (value === undefined || (zeroIsUnlimited && value === 0)) return [];
    const least = needed(memoryBytes);
    return value >= least ? [] : [{ name, value, needed: least }];
  });
}

export const raiseCommand = (low: readonly LowLimit[]): string =>
  `sysctl -w ${low.map(({ name, needed }) => `${name}=${needed}`).join(' ')}`;
