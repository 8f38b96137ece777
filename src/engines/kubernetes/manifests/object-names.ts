/**
 * Names, labels and annotations. Labels are what selectors need; values that labels can't hold are
 * annotations.
 */
import type { InstanceId, UserId } from '../../../domain/kernel/ids.ts';
import type { ObjectMeta } from '../../../kubernetes/api-objects.ts';
import { labels, networkName } from '../../labels.ts';

export const MAIN_CONTAINER = 'main';

/** StatefulSet, whose name makes the host name `<id>-0`; Secret of control files; Service. */
export const objectName = (id: InstanceId): string => id;
export const podName = (id: InstanceId): string => `${id}-0`;
export const portsName = (id: InstanceId): string => `${id}-ports`;
export const pullSecretName = (id: InstanceId): string => `${id}-pull`;
export const accountPolicyName = (installation: string, owner: UserId): string => networkName(installation, owner);

export const annotations = {
  generation: labels.generation,
  imageRef: labels.imageRef,
  nodePorts: 'berth.node-ports',
  /** Digest of the control files. */
  files: 'berth.files',
  /** Start and end of the last run, once its Pod is gone. */
  lastRun: 'berth.last-run',
  /** Last lines of a run that ended by itself, each with its time. */
  lastConsole: 'berth.last-console',
  /** Digest of a Pod's template. */
  template: 'berth.template',
  /** Start of a Pod's wait for a node, by Berth's clock. */
  pendingSince: 'berth.pending-since',
  /** Digest of a NetworkPolicy's rules. */
  rules: 'berth.rules',
} as const;

export type ObjectKind = 'instance' | 'network' | 'pull';

export interface Identity {
  installation: string;
  kind: ObjectKind;
  id: string;
  ownerId: string;
}

export const labelsFor = ({ installation, kind, id, ownerId }: Identity): Record<string, string> => ({
  [labels.installation]: installation,
  [labels.kind]: kind,
  [labels.id]: id,
  ...(ownerId === '' ? {} : { [labels.owner]: ownerId }),
});

export const instanceSelector = (installation: string, id: InstanceId): Record<string, string> => ({
  [labels.installation]: installation,
  [labels.kind]: 'instance',
  [labels.id]: id,
});

export const accountSelector = (installation: string, owner: UserId): Record<string, string> => ({
  [labels.installation]: installation,
  [labels.kind]: 'instance',
  [labels.owner]: owner,
});

export const selectorText = (selector: Readonly<Record<string, string>>): string =>
  Object.entries(selector)
    .map(([name, value]) => `${name}=${value}`)
    .join(',');

export const ownedSelector = (installation: string, kind: ObjectKind): string =>
  selectorText({ [labels.installation]: installation, [labels.kind]: kind });

/** Compares labels, never names: a foreign object may have our name. */
export function isOwned(
  metadata: ObjectMeta | undefined,
  installation: string,
  kind: ObjectKind,
  id?: string,
): boolean {
  const found = metadata?.labels ?? {};
  return (
    found[labels.installation] === installation &&
    found[labels.kind] === kind &&
    (id === undefined || found[labels.id] === id)
  );
}

export interface PartOwner {
  installation: string;
  /** StatefulSet of the instance. */
  uid: string;
}

/** The cluster removes the object with the StatefulSet of the instance. */
export const partMetadata = (
  { id, ownerId }: { id: InstanceId; ownerId: UserId },
  name: string,
  { installation, uid }: PartOwner,
): ObjectMeta => ({
  name,
  labels: labelsFor({ installation, kind: 'instance', id, ownerId }),
  ownerReferences: [{ apiVersion: 'apps/v1', kind: 'StatefulSet', name: objectName(id), uid }],
});
