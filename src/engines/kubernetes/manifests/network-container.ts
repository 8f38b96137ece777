/**
 * Network container of a Pod: an ephemeral container, which a running Pod can get, and which shares
 * its network alone. Only idles; programs in it are commands. Pure.
 */
import type { Pod } from '../../../kubernetes/api-objects.ts';
import { IDLE } from './keeper-container.ts';
import { LOCAL_IMAGES } from './pod-template.ts';

type EphemeralContainer = NonNullable<NonNullable<Pod['spec']>['ephemeralContainers']>[number];

const PREFIX = 'berth-network-';
/** That of Berth's own image. */
const USER = 10_001;
/** A Pod keeps its ephemeral containers, also the ended ones, as long as it lives. */
const MAX_CONTAINERS = 20;

const startFailures = [
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
  'ImageInspectError',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
];

export function networkContainer(name: string, image: string): EphemeralContainer {
  return {
    name,
    image,
    imagePullPolicy: image.startsWith(LOCAL_IMAGES) ? 'Never' : 'IfNotPresent',
    command: ['/bin/sh', '-c', IDLE],
    securityContext: {
      runAsUser: USER,
      runAsGroup: USER,
      runAsNonRoot: true,
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    },
  };
}

export type NetworkContainerState =
  | { kind: 'running'; name: string }
  /** `failure`: why it does not start; the node tries again. */
  | { kind: 'starting'; failure: string | null }
  /** The Pod needs another one. */
  | { kind: 'absent'; nextName: string }
  /** The Pod has had too many. */
  | { kind: 'exhausted' };

/** The last one counts: a container that has ended does not start again. */
export function networkContainerOf({ spec, status }: Pod, image: string): NetworkContainerState {
  const all = (spec?.ephemeralContainers ?? []).filter(({ name }) => name.startsWith(PREFIX));
  const last = all.at(-1);
  const state = status?.ephemeralContainerStatuses?.find(({ name }) => name === last?.name)?.state;
  if (last !== undefined && state?.running !== undefined) return { kind: 'running', name: last.name };
  if (last !== undefined && last.image === image && state?.terminated === undefined) {
    const { reason = '', message = reason } = state?.waiting ?? {};
    return { kind: 'starting', failure: startFailures.includes(reason) ? message : null };
  }
  if (all.length >= MAX_CONTAINERS) return { kind: 'exhausted' };
  return { kind: 'absent', nextName: `${PREFIX}${all.length + 1}` };
}
