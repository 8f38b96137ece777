/**
 * # Joining a Pod's network
 *
 * A Pod gets an ephemeral container (`network-containers.ts`) with the region's network image when
 * its network is joined first. Each join is a command in it: a relay, which connects and listens in
 * the Pod's network and carries the connections over its input and output (`multiplexer.mjs`).
 */
import net from 'node:net';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { resources } from '../../../kubernetes/api-resources.ts';
import type { InstanceNetwork } from '../../contract.ts';
import { noAddress } from '../../network-faults.ts';
import { runningPod, type ClusterContext } from '../cluster-context.ts';
import { reject } from '../cluster-faults.ts';
import { podName } from '../manifests/object-names.ts';
import { isRunning } from '../state/run-state.ts';
import { ensureNetworkContainer } from './network-containers.ts';
import { relayExec, startRelay } from './pod-relay.ts';

export const NO_NETWORK_IMAGE =
  'Berth joins the network of a Pod by a container beside the instance, whose image the operator must set for the region (networkImage); use an image with sshd for ssh';

export async function joinNetwork(
  context: ClusterContext,
  id: InstanceId,
  signal: AbortSignal,
): Promise<InstanceNetwork> {
  const { cluster, pods, settings } = context;
  const { networkImage } = settings;
  if (networkImage === undefined) {
    // A cluster that does not answer comes first.
    await cluster.json('/version', signal);
    throw reject(NO_NETWORK_IMAGE);
  }
  const pod = await runningPod(context, id, signal);
  const uid = pod.metadata?.uid;
  const container = await ensureNetworkContainer(context, pod, networkImage, signal);
  const exec = await cluster.exec(podName(id), relayExec(container), signal);
  const relay = await startRelay(exec, signal);

  const leaving = new AbortController();
  void relay.ended.then(() => leaving.abort());
  // Connections must end while the network exists, or their peers never notice.
  pods.listen(({ object, isGone }) => {
    if (object.metadata?.name !== podName(id)) return;
    const { deletionTimestamp } = object.metadata;
    if (object.metadata.uid !== uid || isGone || deletionTimestamp !== undefined || !isRunning(object)) relay.close();
  }, leaving.signal);
  // The run may have ended before the watch was heard.
  const now = await cluster.get(resources.pods, podName(id), signal).catch((error: unknown) => {
    relay.close();
    throw error;
  });
  if (now?.metadata?.uid !== uid || !isRunning(now)) relay.close();

  return {
    connect: (at, until) => relay.connect(at, until),
    async listen(at, onConnection, until) {
      const host = at.host === 'localhost' ? '127.0.0.1' : at.host;
      if (host !== '' && net.isIP(host) === 0) throw noAddress(at);
      return relay.listen({ host, port: at.port }, onConnection, until);
    },
    ended: relay.ended,
    close: () => relay.close(),
  };
}
