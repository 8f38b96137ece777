/** Why a Pod does not start, read from its status and its events. Pure. */
import { EngineFault, type FaultReason } from '../../../domain/regions/engine-fault.ts';
import type { ClusterEvent, Pod } from '../../../kubernetes/api-objects.ts';
import { lastMsOf, mainStatusOf, timeOf } from './pod-status.ts';

type FaultKind = EngineFault['kind'];

const fault = (
  kind: FaultKind,
  text: string,
  { retry = true, reason, cause }: { retry?: boolean; reason?: FaultReason | undefined; cause?: unknown } = {},
): EngineFault => new EngineFault(kind, text, { retry, reason, cause });

/** Waiting reasons of the kubelet for images. */
const IMAGE_REASONS = [
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
  'RegistryUnavailable',
];
const START_REASONS = ['CreateContainerError', 'RunContainerError', 'CreateContainerConfigError'];

/** Null while the container may still start. */
export function startFailureOf(pod: Pod): EngineFault | null {
  const ref = pod.spec?.containers[0]?.image ?? '';
  const status = mainStatusOf(pod) ?? pod.status?.containerStatuses?.[0];
  const waiting = status?.state?.waiting;
  if (waiting?.reason !== undefined && IMAGE_REASONS.includes(waiting.reason))
    return imageFault(ref, waiting.reason, waiting.message ?? '');
  if (waiting?.reason !== undefined && START_REASONS.includes(waiting.reason))
    return containerFault(ref, waiting.message ?? waiting.reason);
  const ended = status?.state?.terminated ?? status?.lastState?.terminated;
  if (ended?.reason === 'StartError' || ended?.reason === 'ContainerCannotRun')
    return containerFault(ref, ended.message ?? ended.reason);
  return schedulingFault(pod);
}

/** `Evicted` and such: the kubelet refused the Pod, or ended it. */
export function refusalOfNode({ status }: Pod): EngineFault | null {
  if (status?.phase !== 'Failed' || (status.containerStatuses?.length ?? 0) > 0) return null;
  return fault(
    'no_capacity',
    `a node of the cluster refused the instance: ${status.message ?? status.reason ?? 'no reason given'}`,
    { reason: 'clusterFull' },
  );
}

/** Why the scheduler finds no node; null: a node is found, or may be soon. */
export function schedulingFault({ status }: Pod): EngineFault | null {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status !== 'False' || scheduled.reason !== 'Unschedulable') return null;
  const text = scheduled.message ?? 'no node fits';
  if (/persistentvolumeclaim "?[^"]*"? not found/i.test(text))
    return fault('rejected', `a disk of the instance is gone from the cluster: ${text}`, { reason: 'badMount' });
  // A claim may bind in a moment.
  if (/unbound immediate PersistentVolumeClaims|WaitForPodScheduled/i.test(text)) return null;
  if (/didn't match pod affinity rules/i.test(text))
    return fault(
      'no_capacity',
      `the disks that the instances of the account share are mounted on one node of the cluster, which has no room for another: stop an instance of the account, or ask the operator for disks that several nodes may mount (ReadWriteMany); ${text}`,
      { reason: 'clusterFull' },
    );
  if (/Insufficient \S*gpu|cannot allocate all claims/i.test(text))
    return fault('no_capacity', `no node of the cluster has the GPUs free: ${text}`, { reason: 'clusterFull' });
  return fault('no_capacity', `no node of the cluster has room for the instance: ${text}`, { reason: 'clusterFull' });
}

const patterns: readonly {
  pattern: RegExp;
  kind: FaultKind;
  retry: boolean;
  reason: FaultReason;
  say: (ref: string) => string;
}[] = [
  {
    pattern: /InvalidImageName|couldn't parse image|invalid reference format/i,
    kind: 'rejected',
    retry: false,
    reason: 'imageMissing',
    say: (ref) => `${ref} is no image name; write registry/name:tag`,
  },
  {
    pattern: /no match for platform|does not match the specified platform|exec format error/i,
    kind: 'rejected',
    retry: false,
    reason: 'imageUnfit',
    say: (ref) => `${ref} has no variant for the processors of the cluster; use an image of their architecture`,
  },
  {
    pattern: /ErrImageNeverPull|not present with pull policy of Never/i,
    kind: 'not_found',
    retry: true,
    reason: 'imageMissing',
    say: (ref) => `${ref} is on no node of the cluster, and no registry has it; push the image to a registry`,
  },
  {
    pattern:
      /unauthorized|authentication required|access denied|denied: |403 Forbidden|401 |no basic auth|authorization failed|insufficient_scope/i,
    kind: 'denied',
    retry: false,
    reason: 'imageDenied',
    say: (ref) => `the registry does not grant ${ref} to these credentials`,
  },
  {
    pattern: /not found|manifest unknown|name unknown|does not exist|404/i,
    kind: 'not_found',
    retry: true,
    reason: 'imageMissing',
    say: (ref) => `the registry has no image ${ref}`,
  },
  {
    pattern: /no space left on device|disk quota exceeded/i,
    kind: 'no_capacity',
    retry: true,
    reason: 'diskFull',
    say: (ref) => `the disk of a node is too full for ${ref}; ask the operator to free space`,
  },
];

/** The back-off repeats the last error in its message, or only says that it waits. */
export function imageFault(ref: string, reason: string, message: string): EngineFault | null {
  const found = patterns.find(({ pattern }) => pattern.test(`${reason} ${message}`));
  if (found !== undefined)
    return fault(found.kind, found.say(ref), { retry: found.retry, reason: found.reason, cause: message });
  if (reason === 'ImagePullBackOff' && !/failed|error/i.test(message)) return null;
  return fault('unreachable', `the registry of ${ref} does not answer`, { reason: 'registryAway', cause: message });
}

function containerFault(ref: string, message: string): EngineFault {
  if (/exec format error/i.test(message))
    return fault('rejected', `${ref} is for other processors than those of the cluster`, {
      retry: false,
      reason: 'imageUnfit',
      cause: message,
    });
  if (/"?\/bin\/sh"?: (stat .*: )?no such file|executable file not found|exec: .*no such file/i.test(message))
    return fault('rejected', `${ref} has no /bin/sh, which instances need`, {
      retry: false,
      reason: 'imageUnfit',
      cause: message,
    });
  if (/no space left on device/i.test(message))
    return fault('no_capacity', 'the disk of a node is full; ask the operator to free space', {
      reason: 'diskFull',
      cause: message,
    });
  if (/cannot allocate memory|oom|memory limit/i.test(message))
    return fault('rejected', `the memory of the instance is too small to start ${ref}`, {
      reason: 'outOfMemory',
      cause: message,
    });
  return fault('rejected', `the container could not start: ${message}`, { cause: message });
}

/** Warnings of a node, and of the controller that attaches volumes to it. */
const NODE_TROUBLES = ['FailedMount', 'FailedAttachVolume', 'FailedCreatePodSandBox'];
/** Events after the mounts and the sandbox of a Pod. */
const LATER_REASONS = ['Pulling', 'Pulled', 'Created', 'Started'];
/** A node that cannot make a sandbox for this time cannot make one. */
const SANDBOX_DEADLINE_MS = 600_000;

/** Trouble of the node with a start, by the events of the Pod; all times are the cluster's. */
export function nodeTroubleOf({ metadata }: Pod, events: readonly ClusterEvent[]): EngineFault | null {
  const [last] = events
    .filter(({ reason }) => NODE_TROUBLES.includes(reason ?? ''))
    .toSorted((one, other) => lastMsOf(other) - lastMsOf(one));
  if (last === undefined) return null;
  const { reason, message = '' } = last;
  const isOver = (event: ClusterEvent): boolean =>
    LATER_REASONS.includes(event.reason ?? '') ||
    (reason === 'FailedAttachVolume' && event.reason === 'SuccessfulAttachVolume');
  if (events.some((event) => isOver(event) && lastMsOf(event) >= lastMsOf(last))) return null;
  if (reason === 'FailedCreatePodSandBox') {
    const isLost = lastMsOf(last) - timeOf(metadata?.creationTimestamp) > SANDBOX_DEADLINE_MS;
    const text = `a node of the cluster cannot make the network or the sandbox of the instance: ${message}`;
    return fault('rejected', text, { retry: !isLost, reason: 'startPending' });
  }
  const text = /Multi-Attach error/i.test(message)
    ? `another node of the cluster still has a disk of the instance; the instance starts when that node lets it go: ${message}`
    : `a node of the cluster cannot mount a disk of the instance: ${message}`;
  return fault('busy', text, { reason: 'mountPending' });
}

/** Image that the node downloads now, by the events of a Pod. Null: none. */
export function pulledImageOf(events: readonly ClusterEvent[]): string | null {
  const isOver = (begun: ClusterEvent): boolean =>
    events.some(
      (event) =>
        (event.reason === 'Pulled' || event.reason === 'Failed') &&
        event.involvedObject.fieldPath === begun.involvedObject.fieldPath &&
        lastMsOf(event) >= lastMsOf(begun),
    );
  const pulling = events.find((event) => event.reason === 'Pulling' && !isOver(event));
  return pulling === undefined ? null : (/"([^"]+)"/.exec(pulling.message ?? '')?.[1] ?? 'the image');
}
