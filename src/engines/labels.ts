/** Labels and names that make everything of ours findable on an engine, and nothing else mistakable for it. */
import type { InstanceId, UserId } from '../domain/ids.ts';

export const labels = {
  installation: 'berth.installation',
  kind: 'berth.kind',
  id: 'berth.id',
  owner: 'berth.owner',
  generation: 'berth.generation',
  /** The ref that an instance was made from: an engine forgets it when the name moves on to another image. */
  imageRef: 'berth.image',
} as const;

/** The container of an instance. */
export const containerName = (id: InstanceId): string => `berth-${id}`;

/** The network that an account's instances share, and no other account's. */
export const networkName = (installation: string, owner: UserId): string =>
  `berth-${installation.slice(0, 8)}-${owner}`;
