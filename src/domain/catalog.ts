/** What the operator offers: regions, images, instance types and their prices. */
import type { ImageId, InstanceTypeId, RegionId } from './ids.ts';
import type { Micros } from './money.ts';

/** `interface.md` §4.1, in its order. */
export const chargeModes = ['tidePerHour', 'perHour', 'perDay', 'perWeek', 'perMonth'] as const;
export type ChargeMode = (typeof chargeModes)[number];

export interface Region {
  id: RegionId;
  name: string;
  /** Short machine name; the interface's `regionInfo.value`. */
  value: string;
  location: string;
  /** Host (and port) of the gateway that serves this region's instances. */
  domain: string;
  sshAddress: string;
  engine: 'docker' | 'simulated';
}

export interface Image {
  id: ImageId;
  name: string;
  /** What the engine calls it: `registry/name:tag`, or `berth.local/<recipe>:<hash>` for one built from a recipe. */
  ref: string;
  architecture: string;
  isPublic: boolean;
  tags: string[];
  type: string;
}

export interface InstanceType {
  id: InstanceTypeId;
  regionId: RegionId;
  name: string;
  isSpot: boolean;
  cpuCores: number;
  cpuType: string;
  memoryGB: number;
  gpuCount: number;
  /** '' for a CPU type. */
  gpuName: string;
  rootDiskGB: number;
  /** Base size of `/root/dataDisk`, to which a launch adds `extraDataDiskSizeDB`. */
  dataDiskGB: number;
  pricesMicros: Record<ChargeMode, Micros>;
}

/** What a region can hold and what of it is promised, counted where a launch is decided. CPU in thousandths of a core. */
export interface Capacity {
  cpuMilli: number;
  memoryMiB: number;
  gpus: number;
}

export const capacityOf = (type: Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount'>): Capacity => ({
  cpuMilli: Math.round(type.cpuCores * 1000),
  memoryMiB: Math.round(type.memoryGB * 1024),
  gpus: type.gpuCount,
});
