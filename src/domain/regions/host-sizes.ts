/**
 * Sizes of the hosts of a region with several. The capacity of such a region is a sum, and an
 * instance runs on one host: a type that fits into the sum may fit on none.
 */
import { capacityOf, countGpus, gpusNamed, type Capacity, type InstanceType } from './catalog.ts';

type Sized = Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount' | 'gpuName' | 'rootDiskGB'>;

export interface Host extends Capacity {
  /** Space for root disks; absent: no limit. */
  rootDiskGB?: number;
}

/** Names count here: a node is chosen by the name of its GPUs. */
const isWithin = (one: Host, other: Host): boolean =>
  one.cpuMilli <= other.cpuMilli &&
  one.memoryMiB <= other.memoryMiB &&
  (one.rootDiskGB ?? Infinity) <= (other.rootDiskGB ?? Infinity) &&
  Object.entries(one.gpus).every(([name, count]) => count <= gpusNamed(other.gpus, name));

/** The sizes that no other host has or exceeds, each once, largest memory first. */
export function largestHosts(hosts: readonly Host[]): Host[] {
  const largest: Host[] = [];
  // A host is within none of the smaller ones.
  const inOrder = hosts.toSorted(
    (a, b) =>
      b.memoryMiB - a.memoryMiB ||
      b.cpuMilli - a.cpuMilli ||
      countGpus(b.gpus) - countGpus(a.gpus) ||
      (b.rootDiskGB ?? Number.MAX_VALUE) - (a.rootDiskGB ?? Number.MAX_VALUE),
  );
  for (const host of inOrder) if (!largest.some((other) => isWithin(host, other))) largest.push(host);
  return largest;
}

/** Null: the region has one host, which its capacity describes. */
export const fitsOneHost = (type: Sized, hosts: readonly Host[] | null): boolean =>
  hosts === null || hosts.some((host) => isWithin({ ...capacityOf(type), rootDiskGB: type.rootDiskGB }, host));

const SHOWN = 3;

/** Example: `2 GPUs (A100)`. */
export const gpusText = (count: number, model: string): string =>
  count === 0 ? 'no GPU' : `${count} ${count === 1 ? 'GPU' : 'GPUs'} (${model})`;

/** Example: `4 CPU cores, 16384 MiB of memory and no GPU`, each host after a semicolon. */
export function hostsText(hosts: readonly Host[]): string {
  const texts = hosts.slice(0, SHOWN).map(({ cpuMilli, memoryMiB, rootDiskGB, gpus }) => {
    const disk = rootDiskGB === undefined ? [] : [`${rootDiskGB} GB for root disks`];
    const sizes = [`${cpuMilli / 1000} CPU cores`, `${memoryMiB} MiB of memory`, ...disk].join(', ');
    const cards = Object.entries(gpus).map(([name, count]) => gpusText(count, name));
    return `${sizes} and ${cards.join(' and ') || gpusText(0, '')}`;
  });
  return texts.join('; ');
}
