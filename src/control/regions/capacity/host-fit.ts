/** Types that one host of a region can hold: launches of others are refused before they wait. */
import {
  capacityOf,
  type Capacity,
  type InstanceType,
  type Region,
  type Supply,
} from '../../../domain/regions/catalog.ts';
import { fitsOneHost, gpusText, hostsText, type Host } from '../../../domain/regions/host-sizes.ts';
import { nearestType, timesFit } from '../../../domain/regions/placement.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import type { CatalogSnapshot, RegionDrivers } from '../../kernel/ports.ts';

type Drivers = Pick<RegionDrivers, 'health' | 'cpuOvercommit' | 'hostMemoryMiB'>;

/** Null where capacity alone decides: one host, no usable host, or no answer of the engine yet. */
export function hostsOf({ health: { probe }, cpuOvercommit, hostMemoryMiB }: Drivers): Host[] | null {
  if (probe?.hosts === undefined || probe.hosts.length === 0) return null;
  return probe.hosts.map((host) => forInstances(host, { cpuOvercommit, hostMemoryMiB }));
}

/** Present hosts, where an autoscaler may add more; null: the capacity counts no others. */
export const presentOf = ({ health: { probe }, ...rules }: Drivers): Capacity | null =>
  probe?.present === undefined ? null : forInstances(probe.present, rules);

const forInstances = <Size extends Capacity>(
  host: Size,
  { cpuOvercommit, hostMemoryMiB }: Omit<Drivers, 'health'>,
): Size => ({
  ...host,
  cpuMilli: Math.floor(host.cpuMilli * cpuOvercommit),
  memoryMiB: host.memoryMiB - hostMemoryMiB,
});

export interface OpenCapacity {
  free: Supply;
  nodePorts: number;
}

/** Instances of the type that could start; `open` is null where none can. */
export const timesFitNow = (type: InstanceType, open: OpenCapacity | null, hosts: readonly Host[] | null): number =>
  open !== null && fitsOneHost(type, hosts) ? Math.min(open.nodePorts, timesFit(capacityOf(type), open.free)) : 0;

/** The catalog without types of the region that none of its hosts can hold: no hint names them. */
export function catalogWithinHosts(
  catalog: CatalogSnapshot,
  drivers: Drivers & Pick<RegionDrivers, 'regionId'>,
): CatalogSnapshot {
  const hosts = hostsOf(drivers);
  if (hosts === null) return catalog;
  const isOffered = (type: InstanceType): boolean => type.regionId !== drivers.regionId || fitsOneHost(type, hosts);
  return { ...catalog, types: new Map([...catalog.types].filter(([, type]) => isOffered(type))) };
}

export function refuseOverHosts(
  type: InstanceType,
  { region, catalog, drivers }: { region: Region; catalog: CatalogSnapshot; drivers: Drivers },
): void {
  const hosts = hostsOf(drivers);
  if (hosts === null || fitsOneHost(type, hosts)) return;
  const others = [...catalog.types.values()].filter(
    (other) => other.regionId === region.id && other.isSpot === type.isSpot && fitsOneHost(other, hosts),
  );
  const total = catalog.regions.get(region.id)?.total;
  const nearest = total && nearestType(type, others, total);
  const instead = nearest ? `${nearest.name} (${nearest.id}) would fit` : 'no other type would fit';
  const disk = hosts.some(({ rootDiskGB }) => rootDiskGB !== undefined) ? `, a root disk of ${type.rootDiskGB} GB` : '';
  const needs = `${type.cpuCores} CPU cores, ${type.memoryGB} GB of memory${disk} and ${gpusText(type.gpuCount, type.gpuName)}`;
  throw new Refusal(
    'no_capacity',
    `instance type ${type.name} (${needs}) fits on no host of region ${region.name}, whose largest have ${hostsText(hosts)}; ${instead}`,
  );
}
