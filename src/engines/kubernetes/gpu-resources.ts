/** GPUs of a cluster by name, cards by their model and parts of cards, and what a Pod asks for. */
import type { DeviceClaim, GpusOfCluster, KubernetesEngineSettings } from '../../domain/regions/kubernetes-settings.ts';
import type { NodePlacement } from '../../domain/regions/node-placement.ts';
import type { Node } from '../../kubernetes/api-objects.ts';
import { quantityOf } from '../../kubernetes/quantity.ts';
import type { EngineSpec, Probe } from '../contract.ts';

type Part = NonNullable<GpusOfCluster['parts']>[number];

/** GPUs of nodes without the label have the name of their resource. */
export function gpusOf({ metadata, status }: Node, gpus: GpusOfCluster | undefined): Probe['devices'] {
  if (gpus === undefined || !isPlacedOn(metadata?.labels, gpus)) return [];
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

export function isPlacedOn(
  labels: Readonly<Record<string, string>> = {},
  { nodeSelector = {}, nodeAffinity = [] }: NodePlacement,
): boolean {
  const holds = ({ key, operator, values = [] }: (typeof nodeAffinity)[number]): boolean => {
    const value = labels[key];
    if (operator === 'Exists') return value !== undefined;
    if (operator === 'DoesNotExist') return value === undefined;
    return (value !== undefined && values.includes(value)) === (operator === 'In');
  };
  return Object.entries(nodeSelector).every(([key, value]) => labels[key] === value) && nodeAffinity.every(holds);
}

export type GpuRequest = ResourceRequest | ClaimRequest;

interface ResourceRequest {
  kind: 'resource';
  resource: string;
  nodes: NodePlacement;
}

export interface ClaimRequest {
  kind: 'claim';
  claim: DeviceClaim;
  model: string;
  nodes: NodePlacement;
}

/** Null: no GPUs, or the region names none of this name. */
export function gpuRequestOf(
  { gpus: count, gpuName = '' }: Pick<EngineSpec, 'gpus' | 'gpuName'>,
  { gpus, deviceClaims = [] }: Pick<KubernetesEngineSettings, 'gpus' | 'deviceClaims'>,
): GpuRequest | null {
  if (count === 0) return null;
  return gpus === undefined ? claimRequestOf(gpuName, deviceClaims) : resourceRequestOf(gpuName, gpus);
}

function resourceRequestOf(gpuName: string, gpus: GpusOfCluster): ResourceRequest {
  const ofModel = (resource: string, model: string): ResourceRequest => {
    const nodeSelector = { ...gpus.nodeSelector, [gpus.nameLabel]: model };
    return { kind: 'resource', resource, nodes: { ...gpus, nodeSelector } };
  };
  for (const { resource, name } of gpus.parts ?? []) {
    if (gpuName === resource) return { kind: 'resource', resource, nodes: gpus };
    if (gpuName.endsWith(` ${name}`)) return ofModel(resource, modelOf(gpuName, name));
  }
  if (gpuName === '' || gpuName === gpus.resource) return { kind: 'resource', resource: gpus.resource, nodes: gpus };
  return ofModel(gpus.resource, gpuName);
}

function claimRequestOf(gpuName: string, claims: readonly DeviceClaim[]): ClaimRequest | null {
  const claim =
    claims.find(({ part }) => part !== undefined && gpuName.endsWith(` ${part.name}`)) ??
    claims.find(({ part }) => part === undefined);
  if (claim === undefined) return null;
  const model = claim.part === undefined ? gpuName : modelOf(gpuName, claim.part.name);
  return { kind: 'claim', claim, model, nodes: claim };
}

const modelOf = (gpuName: string, part: string): string => gpuName.slice(0, -part.length - 1);
