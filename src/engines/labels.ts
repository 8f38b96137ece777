/** Labels and names that make everything of ours findable on an engine, and nothing else mistakable for it. */
import { instanceId, type InstanceId, type UserId } from '../domain/ids.ts';
import type { OwnedObject } from './contract.ts';

export const labels = {
  installation: 'berth.installation',
  kind: 'berth.kind',
  id: 'berth.id',
  owner: 'berth.owner',
  generation: 'berth.generation',
  /** The ref that an instance was made from: an engine forgets it when the name moves on to another image. */
  imageRef: 'berth.image',
} as const;

const CONTAINER_PREFIX = 'berth-';

/** The container of an instance. */
export const containerName = (id: InstanceId): string => `${CONTAINER_PREFIX}${id}`;

/** The container of the Docker daemon beside an instance. */
export const dockerName = (id: InstanceId): string => `${CONTAINER_PREFIX}docker-${id}`;

/** The instance that has a container of this name; null: none has. */
export const instanceIdOfContainer = (name: string): InstanceId | null =>
  name.startsWith(CONTAINER_PREFIX) ? instanceId(name.slice(CONTAINER_PREFIX.length)) : null;

/** The one container that an intent is about; another one with its label is a stray. */
export const isInstanceContainer = ({
  kind,
  id,
  engineName,
}: Pick<OwnedObject, 'kind' | 'id' | 'engineName'>): boolean =>
  kind === 'instance' && engineName === containerName(instanceId(id));

/** The network that an account's instances share, and no other account's. */
export const networkName = (installation: string, owner: UserId): string =>
  `berth-${installation.slice(0, 8)}-${owner}`;
