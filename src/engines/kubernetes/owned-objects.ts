/** `listOwned` and `discard`, by labels alone. */
import { raceAbort } from '../../async/abort.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { instanceId, isInstanceId, userId } from '../../domain/kernel/ids.ts';
import type { Pod, StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { OwnedObject } from '../contract.ts';
import { labels } from '../labels.ts';
import type { ClusterContext } from './cluster-context.ts';
import { reject } from './cluster-faults.ts';
import { removeInstance } from './instance-ends.ts';
import { accountSelector, annotations, isOwned, podName, selectorText } from './manifests/object-names.ts';
import { timeOf } from './state/pod-status.ts';
import { generationOf, isRunning, observationOf } from './state/run-state.ts';

/** Pods of downloads that are there for longer have lost their server. */
const PULLER_MS = 3_600_000;

export async function listOwned(context: ClusterContext, signal: AbortSignal): Promise<OwnedObject[]> {
  signal.throwIfAborted();
  const { lists } = context;
  const [sets, pods, policies] = await raceAbort(
    Promise.all([lists.sets.list(), lists.pods.list(), lists.policies.list()]),
    signal,
  );
  await removeOldPullers(context, pods, signal);
  const podsByName = new Map(pods.map((pod) => [pod.metadata?.name, pod]));
  const isPresent = ({ metadata }: StatefulSet): boolean =>
    isInstanceId(metadata?.labels?.[labels.id] ?? '') && metadata?.labels?.[labels.kind] === 'instance';
  return [
    ...sets.filter(isPresent).map((set) => instanceOf(set, podsByName)),
    ...policies.map(({ metadata }) => ({
      kind: 'network' as const,
      id: metadata?.labels?.[labels.id] ?? '',
      ownerId: metadata?.labels?.[labels.owner] ?? '',
      generation: 0,
      running: false,
      engineName: metadata?.name ?? '',
      createdAtMs: timeOf(metadata?.creationTimestamp),
      imageRef: null,
    })),
  ];
}

function instanceOf(set: StatefulSet, podsByName: ReadonlyMap<string | undefined, Pod>): OwnedObject {
  const { metadata } = set;
  const id = metadata?.labels?.[labels.id] ?? '';
  const pod = podsByName.get(podName(instanceId(id))) ?? null;
  const observation = observationOf(set, pod);
  const docker = observation.kind === 'present' ? observation.docker : undefined;
  return {
    kind: 'instance',
    id,
    ownerId: metadata?.labels?.[labels.owner] ?? '',
    generation: generationOf(set),
    running: isRunning(pod),
    ...(observation.kind === 'unknown' ? { isUnknown: true } : {}),
    engineName: metadata?.name ?? '',
    createdAtMs: timeOf(metadata?.creationTimestamp),
    imageRef: metadata?.annotations?.[annotations.imageRef] ?? '',
    ...(docker === undefined ? {} : { docker }),
  };
}

/** Counts from the first observation of a Pod, whose age is a time of the cluster's clock. */
async function removeOldPullers(context: ClusterContext, pods: readonly Pod[], signal: AbortSignal): Promise<void> {
  const { cluster, installation, pullersSince } = context;
  const present = new Map<string, number>();
  for (const { metadata } of pods) {
    if (!isOwned(metadata, installation, 'pull')) continue;
    const { uid = '', name = '' } = metadata ?? {};
    const sinceMs = pullersSince.get(uid) ?? performance.now();
    present.set(uid, sinceMs);
    if (performance.now() - sinceMs < PULLER_MS) continue;
    // The Pod last: it is what a sweep finds.
    await cluster.remove(resources.secrets, name, signal);
    await cluster.remove(resources.networkPolicies, name, signal);
    await cluster.remove(resources.pods, name, signal, { uid });
  }
  context.pullersSince = present;
}

export async function discard(
  context: ClusterContext,
  { kind, engineName }: OwnedObject,
  signal: AbortSignal,
): Promise<void> {
  if (kind === 'network') return discardNetwork(context, engineName, signal);
  if (kind === 'instance') return discardInstance(context, engineName, signal);
  await context.cluster.json('/version', signal);
}

const foreign = (what: string, name: string): EngineFault => reject(`the ${what} ${name} is not of this installation`);

async function discardInstance(context: ClusterContext, name: string, signal: AbortSignal): Promise<void> {
  const { cluster, installation } = context;
  const set = await cluster.get(resources.statefulSets, name, signal);
  if (set === null) return;
  if (!isOwned(set.metadata, installation, 'instance')) throw foreign('StatefulSet', name);
  const id = instanceId(set.metadata?.labels?.[labels.id] ?? '');
  if (name === id) await context.instances.run(id, () => removeInstance(context, id, signal), signal);
  else await cluster.remove(resources.statefulSets, name, signal, { uid: set.metadata?.uid });
}

async function discardNetwork(context: ClusterContext, name: string, signal: AbortSignal): Promise<void> {
  const { cluster, installation, accounts } = context;
  const policy = await cluster.get(resources.networkPolicies, name, signal);
  if (policy === null) return;
  if (!isOwned(policy.metadata, installation, 'network')) throw foreign('NetworkPolicy', name);
  const owner = userId(policy.metadata?.labels?.[labels.owner] ?? '');
  const remove = async (): Promise<void> => {
    const labelSelector = selectorText(accountSelector(installation, owner));
    if ((await cluster.list(resources.statefulSets, signal, { labelSelector })).length > 0)
      throw new EngineFault('busy', 'instances of the account use its network', { retry: true });
    await cluster.remove(resources.networkPolicies, name, signal, { uid: policy.metadata?.uid });
  };
  await accounts.run(owner, remove, signal);
}
