/** Devices of Dynamic Resource Allocation as GPUs by name, counted as the scheduler would. */
import { reasonText } from '../../domain/kernel/unknown-error.ts';
import type { DeviceClaim, KubernetesEngineSettings } from '../../domain/regions/kubernetes-settings.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Device, ResourceSlice } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { quantityOf } from '../../kubernetes/quantity.ts';
import type { Probe } from '../contract.ts';
import { reject } from './cluster-faults.ts';
import { byDomain, selectorOf, type DeviceSelector } from './device-selectors.ts';

const MIB = 2 ** 20;

interface DeviceFamily {
  claim: DeviceClaim;
  selectors: readonly DeviceSelector[];
}

export interface ClaimableDevices {
  slices: readonly ResourceSlice[];
  families: readonly DeviceFamily[];
  why?: string;
}

export const noDevices: ClaimableDevices = { slices: [], families: [] };

export async function readDevices(
  cluster: Pick<Cluster, 'list'>,
  { deviceClaims: claims = [] }: Pick<KubernetesEngineSettings, 'deviceClaims'>,
  signal: AbortSignal,
): Promise<ClaimableDevices> {
  if (claims.length === 0) return noDevices;
  try {
    const [classes, slices] = await Promise.all([
      cluster.list(resources.deviceClasses, signal),
      cluster.list(resources.resourceSlices, signal),
    ]);
    const families = claims.map((claim) => {
      const found = classes.find(({ metadata }) => metadata?.name === claim.deviceClass);
      if (found === undefined)
        throw noClass(
          claim,
          classes.map(({ metadata }) => metadata?.name ?? ''),
        );
      const ofClass = (found.spec.selectors ?? []).flatMap(({ cel }) => (cel === undefined ? [] : [cel.expression]));
      const expressions = [...ofClass, ...(claim.selector === undefined ? [] : [claim.selector])];
      return { claim, selectors: expressions.map(compiled) };
    });
    return { slices, families };
  } catch (error) {
    if (isFailure(error, 'absent'))
      throw reject('the cluster has no API resource.k8s.io/v1, which "deviceClaims" need; Kubernetes 1.34 brings it');
    throw error;
  }
}

function compiled(expression: string): DeviceSelector {
  try {
    return selectorOf(expression);
  } catch (error) {
    throw reject(`Berth cannot read the selector ${expression}: ${reasonText(error)}`);
  }
}

const noClass = ({ deviceClass }: DeviceClaim, present: readonly string[]) =>
  reject(`the cluster has no DeviceClass ${deviceClass}; it has ${present.toSorted().join(', ') || 'none'}`);

interface ClaimableGpu {
  claim: DeviceClaim;
  gpu: Probe['devices'][number];
}

/**
 * Devices by the name of their node, each for the first family that it matches. Those that several
 * nodes reach are not counted.
 */
export function devicesByNode({ slices, families }: ClaimableDevices): ReadonlyMap<string, readonly ClaimableGpu[]> {
  const found = new Map<string, ClaimableGpu[]>();
  for (const { spec } of currentSlices(slices))
    for (const device of spec.devices ?? []) {
      const node = device.nodeName ?? spec.nodeName;
      if (node === undefined || isTainted(device)) continue;
      const family = families.find(({ selectors }) => selectors.every((matches) => matches(spec.driver, device)));
      const gpu = family && gpuOf(node, spec.driver, device, family.claim);
      if (gpu) found.set(node, [...(found.get(node) ?? []), { claim: family.claim, gpu }]);
    }
  return found;
}

function currentSlices(slices: readonly ResourceSlice[]): ResourceSlice[] {
  const pools = Map.groupBy(slices, ({ spec }) => `${spec.driver} ${spec.pool.name}`);
  return [...pools.values()].flatMap((ofPool) => {
    const generation = Math.max(...ofPool.map(({ spec }) => spec.pool.generation));
    const current = ofPool.filter(({ spec }) => spec.pool.generation === generation);
    return current.length === current[0]?.spec.pool.resourceSliceCount ? current : [];
  });
}

const isTainted = ({ taints = [] }: Device): boolean =>
  taints.some(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');

function gpuOf(
  node: string,
  driver: string,
  { name, attributes = {}, capacity = {} }: Device,
  { modelAttribute, part }: DeviceClaim,
): Probe['devices'][number] | undefined {
  const [domain = '', attribute = ''] = modelAttribute.split('/');
  const model =
    byDomain(driver, attributes, ({ string }) => string ?? '')
      .get(domain)
      ?.get(attribute) ?? '';
  if (model === '') return undefined;
  const memory =
    byDomain(driver, capacity, ({ value }) => quantityOf(value))
      .get(domain)
      ?.get('memory') ?? 0;
  const memoryMiB = Math.floor(memory / MIB);
  return {
    kind: 'gpu',
    name: part === undefined ? model : `${model} ${part.name}`,
    id: `${node}/${driver}/${name}`,
    memoryMiB: memoryMiB > 0 ? memoryMiB : null,
    ...(part === undefined ? {} : { slice: part.kind, card: model }),
  };
}
