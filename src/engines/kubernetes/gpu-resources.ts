/** GPUs of a cluster by name, cards by their model and parts of cards, and what a Pod asks for. */
import type {
  DeviceClaim,
  GpusOfCluster,
  KubernetesEngineSettings,
  NodePlacement,
} from '../../domain/regions/kubernetes-settings.ts';
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

interface ResourceRequest {
  resource: string;
  /** Value of the node's label; null: any. */
  model: string | null;
}

export interface ClaimRequest {
  claim: DeviceClaim;
  model: string;
}

type Gpus = Pick<EngineSpec, 'gpus' | 'gpuName'>;
type Settings = Pick<KubernetesEngineSettings, 'gpus' | 'deviceClaims'>;

export function resourceRequestOf({ gpus: count, gpuName = '' }: Gpus, { gpus }: Settings): ResourceRequest | null {
  if (count === 0 || gpus === undefined) return null;
  for (const { resource, name } of gpus.parts ?? []) {
    if (gpuName === resource) return { resource, model: null };
    if (gpuName.endsWith(` ${name}`)) return { resource, model: modelOf(gpuName, name) };
  }
  return { resource: gpus.resource, model: gpuName === '' || gpuName === gpus.resource ? null : gpuName };
}

export function claimRequestOf({ gpus, gpuName = '' }: Gpus, { deviceClaims = [] }: Settings): ClaimRequest | null {
  if (gpus === 0) return null;
  const claim =
    deviceClaims.find(({ part }) => part !== undefined && gpuName.endsWith(` ${part.name}`)) ??
    deviceClaims.find(({ part }) => part === undefined);
  if (claim === undefined) return null;
  return { claim, model: claim.part === undefined ? gpuName : modelOf(gpuName, claim.part.name) };
}

const modelOf = (gpuName: string, part: string): string => gpuName.slice(0, -part.length - 1);
