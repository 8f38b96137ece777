/** Capacity of a cluster that grows, by the settings of the region. Pure. */
import { capacityOf, gpusNamed, type Capacity } from '../../domain/regions/catalog.ts';
import { addCapacity, zeroCapacity } from '../../domain/regions/placement.ts';
import type { Autoscaling, NodePool } from '../../domain/regions/kubernetes-settings.ts';

/** Size of a node of the pool. */
export const nodeOf = ({ cpuCores, memoryGB, gpuNum = 0, gpuName = '' }: NodePool): Capacity =>
  capacityOf({ cpuCores, memoryGB, gpuCount: gpuNum, gpuName });

/** The larger of both, for each resource: pools may leave permanent nodes out. */
export function grownCapacity(present: Capacity, { nodePools }: Autoscaling): Capacity {
  const grown = nodePools.map(allNodesOf).reduce(addCapacity, zeroCapacity);
  const names = new Set([...Object.keys(present.gpus), ...Object.keys(grown.gpus)]);
  const most = (name: string): number => Math.max(gpusNamed(present.gpus, name), gpusNamed(grown.gpus, name));
  return {
    cpuMilli: Math.max(present.cpuMilli, grown.cpuMilli),
    memoryMiB: Math.max(present.memoryMiB, grown.memoryMiB),
    gpus: Object.fromEntries([...names].map((name) => [name, most(name)])),
  };
}

const allNodesOf = ({ cpuCores, memoryGB, gpuNum = 0, maxNodes, ...pool }: NodePool): Capacity =>
  nodeOf({
    ...pool,
    cpuCores: cpuCores * maxNodes,
    memoryGB: memoryGB * maxNodes,
    gpuNum: gpuNum * maxNodes,
    maxNodes,
  });
