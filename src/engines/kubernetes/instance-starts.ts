/**
 * # `ensure`
 *
 * 1. The NetworkPolicy of the account, then a StatefulSet without Pods: the owner of all else.
 * 2. Secret, Services and policies of the instance. The cluster removes them with the StatefulSet.
 * 3. One replica, and the wait for its container. Waiting reasons become faults at once.
 *
 * A Pod is one run: an ended one is removed before the next.
 */
import { EngineFault, type FaultReason } from '../../domain/regions/engine-fault.ts';
import type { NodePort } from '../../domain/compute/instance.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod, StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { EngineSpec, Observation } from '../contract.ts';
import { ensureAccountNetwork } from './account-networks.ts';
import { ownPod, type ClusterContext } from './cluster-context.ts';
import { reject } from './cluster-faults.ts';
import { refreshFiles } from './file-refresh.ts';
import { gpuRequestOf } from './gpu-resources.ts';
import { destroyInstance } from './instance-ends.ts';
import { controlSecret } from './manifests/control-secret.ts';
import { claimTemplate } from './manifests/device-claim.ts';
import { headlessService, portsService } from './manifests/instance-services.ts';
import { instanceSet } from './manifests/instance-set.ts';
import { disruptionBudget, isProtected } from './manifests/node-protection.ts';
import { portsPolicy } from './manifests/network-rules.ts';
import type { ClusterFeatures } from './manifests/pod-template.ts';
import { annotations, isOwned, objectName, podName, portsName } from './manifests/object-names.ts';
import { nodeFault } from './pending-nodes.ts';
import { pullSecret } from './manifests/pull-secret.ts';
import { isGated } from './state/pod-disruption.ts';
import { endOf, isRunning, nodePortsOf, observationOf } from './state/run-state.ts';
import { refusalOfNode, startFailureOf } from './state/start-failures.ts';
import { claimFault, refusedPod, slowNode } from './waiting-pods.ts';

interface StartContext extends ClusterContext {
  can: ClusterFeatures;
}

export async function ensureInstance(
  shared: ClusterContext,
  spec: EngineSpec,
  signal: AbortSignal,
): Promise<Observation> {
  refuseUnsupported(shared, spec);
  shared.pods.forgetEviction(podName(spec.id));
  const context = { ...shared, can: await shared.features(signal) };
  const { cluster, accounts, installation } = context;
  const name = objectName(spec.id);
  const found = await cluster.get(resources.statefulSets, name, signal);
  if (found !== null && !isOwned(found.metadata, installation, 'instance', spec.id)) {
    const text = `the cluster has a StatefulSet ${name} that is not of this installation; remove it`;
    throw new EngineFault('rejected', text, { retry: false, reason: 'nameTaken' });
  }
  const present = found?.metadata?.deletionTimestamp === undefined ? found : null;
  if (found !== null && present === null)
    throw new EngineFault('busy', 'the cluster still removes an earlier instance of this name; Berth retries', {
      retry: true,
    });
  const pod = present === null ? null : await ownPod(context, spec.id, signal);
  if (present !== null && isRunning(pod)) return await refresh(context, { spec, set: present, pod, signal });
  const isStarting = pod !== null && endOf(pod) === null && hasTemplate(pod, setOf(context, spec, 1, present));
  const pending = isStarting ? await nodeFault(context, pod, signal) : null;
  if (pending?.reason === 'nodePending') throw pending;
  const ensureSet = async (): Promise<StatefulSet> => {
    await ensureAccountNetwork(context, spec.ownerId, signal);
    return cluster.apply(resources.statefulSets, setOf(context, spec, isStarting ? 1 : 0, present), signal);
  };
  const set = await accounts.run(spec.ownerId, ensureSet, signal);
  try {
    if (pod !== null && !isStarting) await removeEnded(context, spec, pod, signal);
    await applyParts(context, spec, set, signal);
    return await run(context, { spec, set, isStarting }, signal);
  } catch (error) {
    await leaveNothing(context, spec, present, error);
    throw error;
  }
}

const setOf = (
  { installation, settings, can }: StartContext,
  spec: EngineSpec,
  replicas: 0 | 1,
  present: StatefulSet | null,
): StatefulSet =>
  instanceSet(spec, {
    installation,
    settings,
    replicas,
    hasPullSecret: spec.imageCredentials !== undefined || hadPullSecret(present, spec),
    can,
    uid: present?.metadata?.uid,
  });

/** A Pod of an earlier call that has not started yet, such as one that downloads its image. */
function hasTemplate({ metadata }: Pod, { spec }: StatefulSet): boolean {
  const wanted = spec?.template.metadata?.annotations?.[annotations.template];
  return metadata?.deletionTimestamp === undefined && metadata?.annotations?.[annotations.template] === wanted;
}

/** The Secret of the start: a refresh of a running instance has no login. */
const hadPullSecret = (present: StatefulSet | null, { imageRef }: EngineSpec): boolean =>
  present?.metadata?.annotations?.[annotations.imageRef] === imageRef &&
  present.spec?.template.spec?.imagePullSecrets !== undefined;

function refuseUnsupported({ settings }: ClusterContext, spec: EngineSpec): void {
  if (spec.gpus > 0 && gpuRequestOf(spec, settings) === null)
    throw reject(
      `the region names no GPUs ${spec.gpuName ?? ''} of its cluster; set "gpus" or "deviceClaims" in the settings of the region`,
      'gpuMissing',
    );
  if (spec.docker !== undefined && settings.privilegedDocker === undefined)
    throw reject('the region does not allow privileged sidecars, which Docker inside needs');
  if (spec.runtime !== undefined && settings.runtimeClasses?.includes(spec.runtime) !== true)
    throw reject(
      `the region allows no RuntimeClass ${spec.runtime}; it allows ${settings.runtimeClasses?.join(', ') || 'none'}`,
    );
  const folder = spec.mounts.find(({ source }) => source.startsWith('/'));
  if (folder !== undefined)
    throw reject(
      `${folder.target} would be a folder of a host, which the nodes of a cluster do not share; use a claim`,
      'badMount',
    );
}

/** Connections to the ports of a run would be cut. */
function refuseOtherPorts({ nodePorts }: EngineSpec, set: StatefulSet): void {
  if (textOf(nodePortsOf(set)) === textOf(nodePorts)) return;
  throw reject('the node ports of a running instance stay; stop the instance first');
}

const textOf = (ports: readonly NodePort[]): string =>
  ports
    .map(({ port, nodePort }) => `${port}:${nodePort}`)
    .toSorted()
    .join();

interface Running {
  spec: EngineSpec;
  set: StatefulSet;
  pod: Pod | null;
  signal: AbortSignal;
}

/** A running instance: new generation and control files. */
async function refresh(context: StartContext, { spec, set, pod, signal }: Running): Promise<Observation> {
  const { cluster, accounts } = context;
  refuseOtherPorts(spec, set);
  await accounts.run(spec.ownerId, () => ensureAccountNetwork(context, spec.ownerId, signal), signal);
  await refreshFiles(context, spec, set, signal);
  const wanted = setOf(context, spec, 1, set);
  const hasSame = Object.entries(wanted.metadata?.annotations ?? {}).every(
    ([name, value]) => set.metadata?.annotations?.[name] === value,
  );
  const applied = hasSame ? set : await cluster.apply(resources.statefulSets, wanted, signal);
  return observationOf(applied, pod);
}

async function removeEnded(
  { cluster, pods }: ClusterContext,
  { id }: EngineSpec,
  pod: Pod,
  signal: AbortSignal,
): Promise<void> {
  const uid = pod.metadata?.uid;
  await cluster.remove(resources.pods, podName(id), signal, { uid, graceSeconds: 1 }).catch((error: unknown) => {
    if (!isFailure(error, 'conflict')) throw error; // another Pod by now
  });
  await pods.until(podName(id), (now) => (now?.metadata?.uid === uid ? undefined : true), signal);
}

async function applyParts(
  context: ClusterContext,
  spec: EngineSpec,
  set: StatefulSet,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, installation, settings } = context;
  const uid = set.metadata?.uid ?? '';
  const owner = { installation, uid };
  const { imageCredentials: credentials } = spec;
  const hasPorts = spec.nodePorts.length > 0;
  const gpus = gpuRequestOf(spec, settings);
  await Promise.all([
    cluster.apply(resources.secrets, controlSecret(spec, owner), signal),
    cluster.apply(resources.services, headlessService(spec, owner), signal),
    ...(isProtected(spec, settings)
      ? [cluster.apply(resources.disruptionBudgets, disruptionBudget(spec, owner), signal)]
      : []),
    ...(gpus?.kind === 'claim'
      ? [cluster.apply(resources.claimTemplates, claimTemplate(spec, gpus, owner), signal)]
      : []),
    ...(credentials === undefined
      ? []
      : [cluster.apply(resources.secrets, pullSecret(spec, credentials, owner), signal)]),
    ...(hasPorts
      ? [
          cluster.apply(resources.services, portsService(spec, owner), signal),
          cluster.apply(
            resources.networkPolicies,
            portsPolicy(spec, { ...owner, podRanges: settings.podRanges }),
            signal,
          ),
        ]
      : [
          cluster.remove(resources.services, portsName(spec.id), signal),
          cluster.remove(resources.networkPolicies, portsName(spec.id), signal),
        ]),
  ]);
}

/** Waits for a container that runs or has run. */
async function run(
  context: StartContext,
  { spec, set, isStarting }: { spec: EngineSpec; set: StatefulSet; isStarting: boolean },
  signal: AbortSignal,
): Promise<Observation> {
  const { cluster, pods } = context;
  const applied = await cluster.apply(resources.statefulSets, setOf(context, spec, 1, set), signal);
  const settled = new AbortController();
  const until = AbortSignal.any([signal, settled.signal]);
  const started = pods.until(podName(spec.id), (pod) => progressOf(pod), until);
  try {
    const outcome = await Promise.race([
      started,
      refusedPod(context, spec, applied, until),
      claimFault(context, spec, until),
      slowNode(context, spec, isStarting ? { looksMs: AT_ONCE, pullMs: 0 } : {}, until),
      ...(spec.spot === true ? [openGates(context, spec, until)] : []),
    ]);
    if (outcome instanceof EngineFault)
      throw (await nodeFault(context, await ownPod(context, spec.id, signal), signal)) ?? outcome;
    return observationOf(applied, outcome);
  } finally {
    settled.abort();
    started.catch(() => {});
  }
}

/** Lets the scheduler have each Pod of a spot instance that this start makes. */
async function openGates({ cluster, pods }: ClusterContext, { id }: EngineSpec, signal: AbortSignal): Promise<never> {
  for (;;) {
    const isWaiting = (pod: Pod | null): Pod | undefined =>
      pod !== null && isGated(pod) && pod.metadata?.deletionTimestamp === undefined ? pod : undefined;
    const { metadata } = await pods.until(podName(id), isWaiting, signal);
    const changes = { metadata: { uid: metadata?.uid }, spec: { schedulingGates: null } };
    await cluster.patch(resources.pods, podName(id), changes, signal).catch((error: unknown) => {
      // Another Pod by now.
      if (!isFailure(error, 'conflict') && !isFailure(error, 'absent')) throw error;
    });
  }
}

/** Undefined while the container may still start. */
function progressOf(pod: Pod | null): Pod | EngineFault | undefined {
  if (pod === null || pod.metadata?.deletionTimestamp !== undefined) return undefined;
  const failure = startFailureOf(pod) ?? refusalOfNode(pod);
  if (failure !== null) return failure.reason === 'registryAway' ? awaitRegistry(failure) : failure;
  return isRunning(pod) || endOf(pod) !== null ? pod : undefined;
}

/** The cluster itself answers. */
const awaitRegistry = ({ message, reason, cause }: EngineFault): EngineFault =>
  new EngineFault('busy', message, { retry: true, reason, cause });

const CLEAN_MS = 5_000;
/** Pauses before looks at a Pod of an earlier call. */
const AT_ONCE = [0, 5_000];

const KEEPING: readonly (FaultReason | undefined)[] = ['imagePending', 'mountPending', 'startPending', 'nodePending'];

/** Its node goes on with the Pod, or one comes for it: another Pod would begin from the start. */
const keepsPod = ({ retry, reason }: EngineFault): boolean => retry && KEEPING.includes(reason);

/**
 * A start that failed leaves no Pod that could start later, and nothing of a new instance, unless
 * its node goes on, or an autoscaler adds one.
 */
async function leaveNothing(
  context: ClusterContext,
  spec: EngineSpec,
  present: StatefulSet | null,
  error: unknown,
): Promise<void> {
  const { cluster, log } = context;
  if (!(error instanceof EngineFault) || error.kind === 'unreachable' || keepsPod(error)) return;
  const signal = AbortSignal.any([context.stopping, AbortSignal.timeout(CLEAN_MS)]);
  try {
    if (present === null && error.kind === 'not_found') return await destroyInstance(context, spec.id, signal);
    await cluster.patch(resources.statefulSets, objectName(spec.id), { spec: { replicas: 0 } }, signal);
  } catch (failure) {
    log.debug({ id: spec.id, err: failure }, 'could not undo a failed start; the next start or stop does');
  }
}
