/** State of a run, read from its objects. Pure. */
import { z } from 'zod';
import type { NodePort } from '../../../domain/compute/instance.ts';
import type { Pod, StatefulSet } from '../../../kubernetes/api-objects.ts';
import type { Observation } from '../../contract.ts';
import { DOCKER_CONTAINER } from '../manifests/docker-sidecar.ts';
import { disruptionOf, isGated } from './pod-disruption.ts';
import { annotations, MAIN_CONTAINER } from '../manifests/object-names.ts';
import { hasEnded, mainStatusOf, timeOf, type ContainerStatus } from './pod-status.ts';
import { quantityOf } from '../../../kubernetes/quantity.ts';

export const lastRunSchema = z.object({
  startedAtMs: z.number(),
  exitCode: z.number(),
  outOfMemory: z.boolean(),
});
/** Start and end of a run. */
export type LastRun = z.infer<typeof lastRunSchema>;

const nodePortsSchema = z.array(z.object({ port: z.number(), nodePort: z.number() }));

type Terminated = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>;

export const isRunning = (pod: Pod | null): boolean => {
  const status = mainStatusOf(pod);
  return status?.state?.running !== undefined && !hasEnded(status);
};

/** Run of a Pod, for its figures and connections. */
export interface PodRun {
  uid: string | undefined;
  address: string | undefined;
  startedAtMs: number;
  memoryLimitBytes: number | null;
}

/** Null: it does not run. */
export function runOf(pod: Pod): PodRun | null {
  if (!isRunning(pod)) return null;
  const limit = pod.spec?.containers.find(({ name }) => name === MAIN_CONTAINER)?.resources?.limits?.['memory'];
  const startedAtMs = timeOf(mainStatusOf(pod)?.state?.running?.startedAt);
  const { metadata, status } = pod;
  return {
    uid: metadata?.uid,
    address: status?.podIP,
    startedAtMs,
    memoryLimitBytes: limit === undefined ? null : quantityOf(limit),
  };
}

/** Exit code of a run whose end nobody saw. */
export const KILLED_EXIT_CODE = 137;

/** End of the run of a Pod; null before. A node forgets ended containers when its disk is full. */
export function endOf(pod: Pod | null): LastRun | null {
  const status = mainStatusOf(pod);
  if (!hasEnded(status)) return null;
  const { state, lastState } = status ?? {};
  const ended = state?.terminated ?? lastState?.terminated;
  if (ended !== undefined) return lastRunOf(ended);
  return { startedAtMs: timeOf(state?.running?.startedAt), exitCode: KILLED_EXIT_CODE, outOfMemory: false };
}

const lastRunOf = ({ startedAt, exitCode, reason }: Terminated): LastRun => ({
  startedAtMs: timeOf(startedAt),
  exitCode,
  outOfMemory: reason === 'OOMKilled',
});

export function lastRunIn(set: StatefulSet): LastRun | null {
  const text = set.metadata?.annotations?.[annotations.lastRun];
  if (text === undefined) return null;
  const parsed = lastRunSchema.safeParse(jsonOf(text));
  return parsed.success ? parsed.data : null;
}

export function nodePortsOf(set: StatefulSet): NodePort[] {
  const parsed = nodePortsSchema.safeParse(jsonOf(set.metadata?.annotations?.[annotations.nodePorts] ?? ''));
  return (parsed.success ? parsed.data : []).toSorted((a, b) => a.port - b.port || a.nodePort - b.nodePort);
}

export function generationOf(set: StatefulSet): number {
  const generation = Number(set.metadata?.annotations?.[annotations.generation]);
  return Number.isSafeInteger(generation) ? generation : 0;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Null for a StatefulSet that is being removed together with its Pod. */
export function observationOf(set: StatefulSet, pod: Pod | null): Observation {
  const nodeAway = awayNodeOf(pod);
  if (nodeAway !== null) return { kind: 'unknown', reason: `the node ${nodeAway} of the instance does not answer` };
  const status = mainStatusOf(pod);
  const docker = dockerStateOf(pod);
  const disruption = disruptionOf(set, pod);
  const common = {
    kind: 'present' as const,
    ...(disruption === null ? {} : { disruption }),
    generation: generationOf(set),
    nodePorts: nodePortsOf(set),
    ...(docker === null ? {} : { docker }),
  };
  const running = isRunning(pod);
  if (running) {
    const startedAtMs = timeOf(status?.state?.running?.startedAt);
    return { ...common, running, exitCode: null, outOfMemory: false, startedAtMs };
  }
  const isNext = set.spec?.replicas !== 0 && pod !== null && isStarting(pod);
  const reserved = isReserved(set, pod) ? { reserved: true as const } : isNext ? { starting: true as const } : {};
  // The exit code of a run that the cluster removed is not known; an earlier run has another.
  const before = set.spec?.replicas === 1 ? null : lastRunIn(set);
  const { startedAtMs, exitCode, outOfMemory } = endOf(pod) ?? before ?? neverRun;
  return { ...common, ...reserved, running, exitCode, outOfMemory, startedAtMs };
}

/** Its node counts the requests of the Pod, and may run anything in it. */
const isReserved = ({ spec }: StatefulSet, pod: Pod | null): boolean =>
  spec?.replicas !== 0 &&
  endOf(pod) !== null &&
  pod?.metadata?.deletionTimestamp === undefined &&
  pod?.status?.phase !== 'Failed';

/** Waits for a node, its image or its disks. A gated Pod waits for Berth. */
const isStarting = (pod: Pod): boolean =>
  endOf(pod) === null &&
  pod.metadata?.deletionTimestamp === undefined &&
  pod.status?.phase !== 'Failed' &&
  !isGated(pod);

const neverRun = { startedAtMs: 0, exitCode: null, outOfMemory: false };

/** Name of a node that stopped reporting a Pod: its containers may still run. */
function awayNodeOf(pod: Pod | null): string | null {
  const condition = (type: string) => pod?.status?.conditions?.find((one) => one.type === type)?.status;
  const isLost = condition('Ready') === 'False' && condition('ContainersReady') === 'True';
  return isLost && isRunning(pod) ? (pod?.spec?.nodeName ?? '') : null;
}

function dockerStateOf(pod: Pod | null): 'running' | 'stopped' | null {
  const status = pod?.status?.initContainerStatuses?.find(({ name }) => name === DOCKER_CONTAINER);
  if (pod?.spec?.initContainers?.some(({ name }) => name === DOCKER_CONTAINER) !== true) return null;
  return status?.state?.running === undefined ? 'stopped' : 'running';
}
