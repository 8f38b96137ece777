/**
 * Changes of an instance after its launch: type, volumes and node ports. A request stores them as
 * `pending`; the next start or restart applies them to the spec. Where the engine cannot change the
 * existing container, `oldContainer` records what that container has: the reconciler saves the root
 * disk as an image, removes the container, and creates the new one from the image.
 */
import { gpuCountOf, type ChargeMode, type InstanceType, type Micros } from '../regions/catalog.ts';
import { dataDiskGB } from './instance-disks.ts';
import {
  lostGpuOf,
  type ContainerShape,
  type Instance,
  type InstanceSpec,
  type Mount,
  type NodePort,
  type PendingChange,
} from './instance.ts';
import { SSH_PORT } from '../access/port-access.ts';

export type RootDiskLimit = 'hard' | 'ends' | 'none';

/** Ports of an instance: those asked for, and always ssh. */
export const withSsh = (ports: readonly number[]): number[] => [SSH_PORT, ...ports.filter((port) => port !== SSH_PORT)];

export const shapeOf = ({ spec, nodePorts }: Pick<Instance, 'spec' | 'nodePorts'>, limit: RootDiskLimit) => ({
  mounts: spec.mounts,
  nodePorts,
  gpus: gpuCountOf(spec),
  ...(gpuCountOf(spec) === 0 ? {} : { gpuName: spec.type.gpuName }),
  runtime: spec.type.runtime ?? '',
  rootDiskGB: limit === 'hard' ? spec.type.rootDiskGB : 0,
});

export function isSameShape(one: ContainerShape, other: ContainerShape): boolean {
  const text = ({ mounts, nodePorts, gpus, gpuName, runtime, rootDiskGB }: ContainerShape): string =>
    JSON.stringify([
      mountTexts(mounts),
      nodePorts.map((one) => `${one.port}:${one.nodePort}`).toSorted(),
      gpus,
      gpuName,
      runtime,
      rootDiskGB,
    ]);
  return text(one) === text(other);
}

const mountTexts = (mounts: readonly Mount[]): string[] =>
  mounts.map(({ volumeId, mountPath }) => `${volumeId} ${mountPath}`).toSorted();

export const isSameMounts = (one: readonly Mount[], other: readonly Mount[]): boolean =>
  mountTexts(one).join('\n') === mountTexts(other).join('\n');

export const isSamePorts = (one: readonly number[], other: readonly number[]): boolean =>
  one.toSorted().join() === other.toSorted().join();

/** Mounts whose volumes can't be deleted: current, pending, and of the old container. */
export const heldMounts = ({ spec, pending, oldContainer }: Instance): Mount[] => {
  const all = [...spec.mounts, ...(pending?.mounts ?? []), ...(oldContainer?.mounts ?? [])];
  return [...new Map(all.map((mount) => [`${mount.volumeId} ${mount.mountPath}`, mount])).values()];
};

/** Node ports that an instance holds of its region's. */
export const heldPortCount = ({
  nodePorts,
  pending,
  oldContainer,
}: Pick<Instance, 'nodePorts' | 'pending' | 'oldContainer'>): number =>
  Math.max(nodePorts.length, pending?.ports?.length ?? 0, oldContainer?.nodePorts.length ?? 0);

/** The type of a launch in a region with these devices. */
export function typeOfSpec(
  { regionId: _region, pricesMicros: _prices, ...type }: InstanceType,
  devices: readonly { name: string; share?: number | undefined }[] = [],
): InstanceSpec['type'] {
  const { share = 1 } = devices.find(({ name }) => name === type.gpuName) ?? {};
  return type.gpuCount === 0 || share === 1 ? type : { ...type, gpuShare: share };
}

/** The type of a resized instance: disks keep at least their size, because they cannot shrink. */
export function resizedSpec(spec: InstanceSpec, type: InstanceSpec['type']): InstanceSpec {
  const rootDiskGB = Math.max(spec.type.rootDiskGB, type.rootDiskGB);
  // A data disk that was asked to be smaller than the type's keeps its size.
  const dataGB = spec.extraDataDiskGB < 0 ? dataDiskGB(spec) : Math.max(dataDiskGB(spec), type.dataDiskGB);
  const extraDataDiskGB = dataGB - type.dataDiskGB;
  return { ...spec, type: { ...type, rootDiskGB }, extraDataDiskGB };
}

export const pendingOrNull = (pending: PendingChange): PendingChange | null =>
  Object.keys(pending).length === 0 ? null : pending;

interface ApplyOptions {
  cpuOnlyPriceMicros: number | null;
  rootDiskLimit: RootDiskLimit;
  /** Without it nothing of the container is left to save. */
  keepsRootDisk: boolean;
}

/** Applies the pending change, and a start with or without GPUs. */
export function applyPending(
  instance: Instance,
  { cpuOnlyPriceMicros, rootDiskLimit, keepsRootDisk }: ApplyOptions,
): Instance {
  const { pending, spec, oldContainer, everEnsured, observed } = instance;
  const resized = pending?.resize ? resizedSpec(spec, pending.resize.type) : spec;
  const known = [...instance.nodePorts, ...(oldContainer?.nodePorts ?? [])];
  const portOf = (port: number): NodePort => known.find((one) => one.port === port) ?? { port, nodePort: 0 };
  const next: Instance = {
    ...instance,
    spec: { ...resized, mounts: pending?.mounts ?? spec.mounts, cpuOnlyPriceMicros },
    priceMicros: pending?.resize ? BigInt(pending.resize.priceMicros) : instance.priceMicros,
    nodePorts: pending?.ports?.map(portOf) ?? instance.nodePorts,
    pending: null,
  };
  const before = oldContainer ?? shapeOf(instance, rootDiskLimit);
  const hasContainer = everEnsured && observed.status !== 'Archived';
  const isSame = isSameShape(before, shapeOf(next, rootDiskLimit));
  return { ...next, oldContainer: hasContainer && keepsRootDisk && !isSame ? before : null };
}

export const currentPriceMicros = (instance: Instance): Micros =>
  BigInt(lostGpuOf(instance)?.priceMicros ?? instance.spec.cpuOnlyPriceMicros ?? instance.priceMicros);

/**
 * Price of a start without GPUs: the cores of the type at the lowest price per core among the CPU
 * types of its region and family, at most its own price. Returns why not, as the end of a sentence.
 */
export function cpuOnlyPrice(
  type: Pick<InstanceType, 'name' | 'gpuCount' | 'cpuCores' | 'isSpot'>,
  chargeMode: ChargeMode,
  ownMicros: Micros,
  offered: readonly InstanceType[],
): number | string {
  if (type.gpuCount === 0) return `instance type ${type.name} has no GPU; leave the field out`;
  if (chargeMode !== 'perHour' && chargeMode !== 'tidePerHour')
    return `the instance is charged ${chargeMode}, a period that includes its GPUs; leave the field out`;
  const perCore = offered
    .filter(({ gpuCount, isSpot, cpuCores }) => gpuCount === 0 && isSpot === type.isSpot && cpuCores > 0)
    .map(({ pricesMicros, cpuCores }) => Number(pricesMicros[chargeMode]) / cpuCores);
  if (perCore.length === 0)
    return `the region offers no ${type.isSpot ? 'spot ' : ''}type without GPUs to take a price per core from; leave the field out, or ask the operator to offer one`;
  return Math.min(Math.ceil(Math.min(...perCore) * type.cpuCores), Number(ownMicros));
}
