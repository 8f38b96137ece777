/**
 * # The Kubernetes engine
 *
 * Driver for clusters of Kubernetes 1.30 and newer. An instance is a StatefulSet of one in the
 * region's namespace; a Pod is one run.
 *
 * - `manifests/`: objects from specs and settings, as pure functions.
 * - `state/`: what objects say: observations, reasons of failures, changes of Pods.
 * - `inside/`: commands in an instance, logs, ports.
 * - `network/`: connections and listeners in an instance's network.
 * - here: the verbs. Begin with `instance-starts.ts`.
 */
import { makeKeyedMutex } from '../../async/mutex.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import { instanceId, isInstanceId } from '../../domain/kernel/ids.ts';
import type { KubernetesEngineSettings } from '../../domain/regions/kubernetes-settings.ts';
import { reasonText } from '../../domain/kernel/unknown-error.ts';
import type { ApiObject } from '../../kubernetes/api-objects.ts';
import { resources, type Resource } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { makeObjectList, type ObjectList } from '../../kubernetes/object-list.ts';
import type { Engine } from '../contract.ts';
import { labels } from '../labels.ts';
import { closeNewNodes, makeClosedRanges, setEgress } from './account-networks.ts';
import type { ClusterContext, ClusterLog, OwnedLists } from './cluster-context.ts';
import { makeClusterFacts, makeNodeReader } from './cluster-facts.ts';
import { explainedFaultOf, faultOf, reject, withFaults } from './cluster-faults.ts';
import { makeEnsureImage } from './cluster-images.ts';
import { checkPolicies } from './cluster-policies.ts';
import { checkRegion } from './cluster-rights.ts';
import { makeClusterUsage } from './cluster-usage.ts';
import { openCommand } from './inside/pod-commands.ts';
import { openLog, readLog } from './inside/console-logs.ts';
import { dialPort } from './inside/port-dial.ts';
import { runInside } from './inside/run-inside.ts';
import { destroyInstance, haltInstance } from './instance-ends.ts';
import { makeObserve } from './instance-observations.ts';
import { protectionFor } from './instance-protection.ts';
import { ensureInstance } from './instance-starts.ts';
import { discard, listOwned } from './owned-objects.ts';
import { joinNetwork } from './network/pod-network.ts';
import { ownedSelector } from './manifests/object-names.ts';
import { makePodChanges } from './state/pod-changes.ts';

export interface KubernetesEngineOptions {
  cluster: Cluster;
  installation: string;
  settings: KubernetesEngineSettings;
  /** Ports of the gateway, which open egress reaches at the peers of the region; default: none. */
  gatewayPorts?: readonly number[];
  /** Image with a shell and `nc`, for the check of the network; absent: it is not checked. */
  checkImage?: string | undefined;
  log: ClusterLog;
}

export function makeKubernetesEngine(options: KubernetesEngineOptions): Engine {
  const { cluster, installation, settings, gatewayPorts = [], checkImage, log } = options;
  const stopping = new AbortController();
  const onTrouble = (error: unknown): void =>
    log.debug({ reason: reasonText(error) }, 'the watch of Pods ended; Berth opens another');
  const listOf = <T extends ApiObject>(resource: Resource<T>, labelSelector: string): ObjectList<T> =>
    makeObjectList({ cluster, resource, labelSelector, stopping: stopping.signal });
  const ours = `${labels.installation}=${installation}`;
  const lists: OwnedLists = {
    sets: listOf(resources.statefulSets, ours),
    pods: listOf(resources.pods, ours),
    policies: listOf(resources.networkPolicies, ownedSelector(installation, 'network')),
  };
  const pods = makePodChanges(cluster, installation, stopping.signal, onTrouble);
  const nodes = makeNodeReader(cluster);
  const facts = makeClusterFacts({ cluster, settings, pods, nodes });
  const context: ClusterContext = {
    cluster,
    lists,
    installation,
    settings,
    pods,
    features: facts.features,
    instances: makeKeyedMutex<InstanceId>(),
    accounts: makeKeyedMutex<string>(),
    closedRanges: makeClosedRanges(nodes, settings),
    egress: { policies: null },
    gatewayPorts,
    pullersSince: new Map(),
    log,
    stopping: stopping.signal,
  };

  /** Lists show a change of ours at once. */
  const changing = async <T>(verb: () => Promise<T>, signal: AbortSignal): Promise<T> => {
    try {
      return await verb();
    } catch (error) {
      throw await explainedFaultOf(cluster, error, signal);
    } finally {
      for (const list of Object.values(lists)) list.invalidate();
    }
  };
  const ofInstance = <T>(id: InstanceId, signal: AbortSignal, verb: () => Promise<T>): Promise<T> => {
    if (!isInstanceId(id)) return Promise.reject(new Error(`"${String(id)}" is not the id of an instance`));
    return changing(() => context.instances.run(id, verb, signal), signal);
  };

  /** Throws what is wrong with the cluster first. */
  const unsupported = async (signal: AbortSignal, text: string): Promise<never> => {
    await withFaults(() => cluster.json('/version', signal));
    throw reject(text);
  };

  return {
    ...protectionFor(context),
    probe: (signal) =>
      withFaults(async () => {
        const probe = await facts.probe(signal);
        await closeNewNodes(context, signal);
        return probe;
      }),
    check: (signal) =>
      withFaults(async () => {
        await checkRegion(context, signal);
        return settings.networkPolicies && checkImage !== undefined ? checkPolicies(context, checkImage, signal) : [];
      }),
    listOwned: (signal) => withFaults(() => listOwned(context, signal)),
    observe: makeObserve(context),
    ensureImage: makeEnsureImage(context, facts),
    async checkImage(_ref, signal) {
      await withFaults(() => cluster.json('/version', signal));
      return false;
    },
    async describeImage(_ref, signal) {
      await withFaults(() => cluster.json('/version', signal));
      return null;
    },
    pushImage: (_ref, _onProgress, signal) =>
      unsupported(signal, 'a cluster cannot push images; build and push them elsewhere'),
    /** Saves none, so every image of ours is absent. */
    async removeImage(_ref, signal) {
      await withFaults(() => cluster.json('/version', signal));
    },
    saveImage: (_id, _ref, signal) => unsupported(signal, 'a cluster cannot save the root disk of a Pod as an image'),
    ensure: (spec, signal) => ofInstance(spec.id, signal, () => ensureInstance(context, spec, signal)),
    setEgress: (policies, signal) => withFaults(() => setEgress(context, policies, signal)),
    halt: (id, graceMs, signal) => ofInstance(id, signal, () => haltInstance(context, id, graceMs, signal)),
    destroy: (id, signal) => ofInstance(id, signal, () => destroyInstance(context, id, signal)),
    discard: (owned, signal) => changing(() => discard(context, owned, signal), signal),
    watch(onHint, signal) {
      context.pods.listen(({ object }) => {
        const id = object.metadata?.labels?.[labels.id] ?? '';
        if (object.metadata?.labels?.[labels.kind] === 'instance' && isInstanceId(id)) onHint(instanceId(id));
      }, signal);
    },
    logs: (id, source, range, signal) => readLog({ context, id, source, range, signal }).catch(throwFault),
    followLogs: (id, source, range, signal) =>
      openLog({ context, id, source, range, signal, follow: true }).catch(throwFault),
    openExec: (id, request, signal) => openCommand({ context, id, request, signal }),
    exec: (id, command, signal) => withFaults(() => runInside(context, id, command, signal)),
    dial: (id, port, signal) => dialPort(context, id, port, signal),
    joinNetwork: (id, signal) => withFaults(() => joinNetwork(context, id, signal)),
    listenUnix: (_id, _onConnection, signal) => unsupported(signal, 'a Pod has no folder for sockets of Berth'),
    usage: makeClusterUsage(context),
    rootDiskSpace: (signal) => withFaults(async () => (signal.throwIfAborted(), null)),
    async stop() {
      stopping.abort();
      cluster.stop();
    },
  };
}

function throwFault(error: unknown): never {
  throw faultOf(error);
}
