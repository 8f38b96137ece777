/**
 * Labels and names of engine objects: every object of this installation is found by them, no other.
 */
import { instanceId, isInstanceId, type InstanceId, type UserId } from '../domain/kernel/ids.ts';
import type { OwnedObject } from './contract.ts';

export const labels = {
  installation: 'berth.installation',
  kind: 'berth.kind',
  id: 'berth.id',
  owner: 'berth.owner',
  generation: 'berth.generation',
  /** Ref an instance was created with: an engine forgets the ref once it names another image. */
  imageRef: 'berth.image',
  /** Ids of a container's GPUs, comma-separated: not every runtime's inspect reports them. */
  gpus: 'berth.gpus',
} as const;

type Label = (typeof labels)[keyof typeof labels];

/** Label of every object of the installation, as a filter. */
export const installationLabel = (installation: string): string => `${labels.installation}=${installation}`;

export interface LabelledObject extends Pick<OwnedObject, 'id' | 'ownerId' | 'generation'> {
  kind: OwnedObject['kind'] | 'tools' | 'helper' | 'control';
  imageRef?: string;
  gpuIds?: readonly string[];
}

/** Sets every label, if only empty: a container inherits the rest from its image. */
export const labelsOf = (
  installation: string,
  { kind, id, ownerId, generation, imageRef = '', gpuIds = [] }: LabelledObject,
): Record<Label, string> => ({
  [labels.installation]: installation,
  [labels.kind]: kind,
  [labels.id]: id,
  [labels.owner]: ownerId,
  [labels.generation]: String(generation),
  [labels.imageRef]: imageRef,
  [labels.gpus]: gpuIds.join(','),
});

const CONTAINER_PREFIX = 'berth-';

export const containerName = (id: InstanceId): string => `${CONTAINER_PREFIX}${id}`;

/** Name of the container of an instance's Docker daemon. */
export const dockerName = (id: InstanceId): string => `${CONTAINER_PREFIX}docker-${id}`;

/** Names of an instance's main object: a container, or in a cluster its StatefulSet. */
export const namesOfInstance = (id: InstanceId): readonly string[] => [containerName(id), id];

/** Null when no instance's main object has this name. */
export const instanceIdOfContainer = (name: string): InstanceId | null =>
  name.startsWith(CONTAINER_PREFIX)
    ? instanceId(name.slice(CONTAINER_PREFIX.length))
    : isInstanceId(name)
      ? name
      : null;

/** Whether this is the instance's main object; another one with its label is an orphan. */
export const isInstanceContainer = ({
  kind,
  id,
  engineName,
}: Pick<OwnedObject, 'kind' | 'id' | 'engineName'>): boolean =>
  kind === 'instance' && namesOfInstance(instanceId(id)).includes(engineName);

/** Name of the network shared by the instances of one account. */
export const networkName = (installation: string, owner: UserId): string =>
  `berth-${installation.slice(0, 8)}-${owner}`;
