/** Extended resources of a cluster as GPUs by name: cards by their model, and parts of cards. */
import { gpusByName, type GpuCounts } from '../../domain/regions/catalog.ts';
import type { GpusOfCluster } from '../../domain/regions/kubernetes-settings.ts';
import type { Node } from '../../kubernetes/api-objects.ts';
import { quantityOf } from '../../kubernetes/quantity.ts';
import type { Probe } from '../contract.ts';

type Part = NonNullable<GpusOfCluster['parts']>[number];

/** GPUs of nodes without the label have the name of their resource. */
export function gpusOf({ metadata, status }: Node, gpus: GpusOfCluster | undefined): Probe['devices'] {
  if (gpus === undefined) return [];
  const model = metadata?.labels?.[gpus.nameLabel];
  const devices = (resource: string, name: string, part?: Part): Probe['devices'] =>
    Array.from({ length: quantityOf(status?.allocatable?.[resource] ?? '0') }, (_, at) => ({
      kind: 'gpu',
      name,
      id: `${metadata?.name ?? ''}/${part === undefined ? '' : `${part.name}/`}${at}`,
      ...(part === undefined ? {} : { slice: part.kind, card: model }),
    }));
  const ofParts = (gpus.parts ?? []).flatMap((part) =>
    devices(part.resource, model === undefined ? part.resource : `${model} ${part.name}`, part),
  );
  return [...devices(gpus.resource, model ?? gpus.resource), ...ofParts];
}

export const countsOf = (node: Node, gpus: GpusOfCluster | undefined): GpuCounts => gpusByName(gpusOf(node, gpus));

/** Resource of a Pod by the name in its type; `model`: the node's label, null: any. */
export function resourceOf(gpuName: string, gpus: GpusOfCluster): { resource: string; model: string | null } {
  for (const { resource, name } of gpus.parts ?? []) {
    if (gpuName === resource) return { resource, model: null };
    if (gpuName.endsWith(` ${name}`)) return { resource, model: gpuName.slice(0, -name.length - 1) };
  }
  return { resource: gpus.resource, model: gpuName === '' || gpuName === gpus.resource ? null : gpuName };
}
