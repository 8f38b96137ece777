/**
 * Sizes of the hosts of a region with several. The capacity of such a region is a sum, and an
 * instance runs on one host: a type that fits into the sum may fit on none.
 */
import { capacityOf, type Capacity, type InstanceType } from './catalog.ts';
import { fits } from './placement.ts';

export interface HostSize extends Capacity {
  /** Model of its GPUs; empty without GPUs. */
  gpuName: string;
}

type Sized = Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount' | 'gpuName'>;

const isWithin = (one: HostSize, other: HostSize): boolean =>
  one.cpuMilli <= other.cpuMilli &&
  one.memoryMiB <= other.memoryMiB &&
  one.gpus <= other.gpus &&
  (one.gpus === 0 || one.gpuName === other.gpuName);

/** The sizes that no other host has or exceeds, each once, largest memory first. */
export function largestHosts(hosts: readonly HostSize[]): HostSize[] {
  const largest: HostSize[] = [];
  // A host is within none of the smaller ones.
  const inOrder = hosts.toSorted((a, b) => b.memoryMiB - a.memoryMiB || b.cpuMilli - a.cpuMilli || b.gpus - a.gpus);
  for (const host of inOrder) if (!largest.some((other) => isWithin(host, other))) largest.push(host);
  return largest;
}

/** Null: the region has one host, which its capacity describes. */
export const fitsOneHost = (type: Sized, hosts: readonly HostSize[] | null): boolean =>
  hosts === null ||
  hosts.some((host) => fits(capacityOf(type), host) && (type.gpuCount === 0 || type.gpuName === host.gpuName));

const SHOWN = 3;

/** Example: `2 GPUs (A100)`. */
export const gpusText = (count: number, model: string): string =>
  count === 0 ? 'no GPU' : `${count} ${count === 1 ? 'GPU' : 'GPUs'} (${model})`;

/** Example: `4 CPU cores, 16384 MiB of memory and 1 GPU (A100)`, each host after a semicolon. */
export function hostsText(hosts: readonly HostSize[]): string {
  const texts = hosts.slice(0, SHOWN).map(({ cpuMilli, memoryMiB, gpus, gpuName }) => {
    return `${cpuMilli / 1000} CPU cores, ${memoryMiB} MiB of memory and ${gpusText(gpus, gpuName)}`;
  });
  return texts.join('; ');
}
