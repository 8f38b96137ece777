import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../../async/abort.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { isFailure } from '../../../kubernetes/api-error.ts';
import { ownPod, runningPod, type ClusterContext } from '../cluster-context.ts';
import { faultOf, notRunning } from '../cluster-faults.ts';
import { podName } from '../manifests/object-names.ts';
import { isRunning } from '../state/run-state.ts';

const CONNECT_MS = 5_000;

const nothingListens = (port: number, cause: unknown): EngineFault =>
  new EngineFault('busy', `nothing listens on port ${port} of the instance yet`, { retry: true, cause });

/** By the address of the Pod, or through the API server. */
export async function dialPort(
  context: ClusterContext,
  id: InstanceId,
  port: number,
  signal: AbortSignal,
): Promise<Duplex> {
  try {
    const { stream, uid } = await openPort(context, id, port, signal);
    closeWithRun(context, id, uid, stream);
    return stream;
  } catch (error) {
    if (isFailure(error, 'conflict')) {
      const pod = await ownPod(context, id, signal).catch(() => null);
      throw isRunning(pod) ? nothingListens(port, error) : notRunning(error);
    }
    if (isFailure(error, 'absent', 'invalid')) throw notRunning(error);
    throw faultOf(error);
  }
}

interface OpenPort {
  stream: Duplex;
  uid: string | undefined;
}

async function openPort(context: ClusterContext, id: InstanceId, port: number, signal: AbortSignal): Promise<OpenPort> {
  const { cluster, settings, pods } = context;
  if (settings.reach === 'portForward') {
    const { metadata } = await runningPod(context, id, signal);
    return { stream: await cluster.portForward(podName(id), port, signal), uid: metadata?.uid };
  }
  const seen = pods.isHeard() ? (await pods.runs(signal)).get(podName(id)) : undefined;
  try {
    if (seen?.address !== undefined) return { stream: await connectTo(seen.address, port, signal), uid: seen.uid };
  } catch (error) {
    if (faultOf(error).kind !== 'unreachable') throw error;
  }
  // The watch may be late, or the run is another by now.
  const { metadata, status } = await runningPod(context, id, signal);
  if (status?.podIP === undefined) throw notRunning();
  return { stream: await connectTo(status.podIP, port, signal), uid: metadata?.uid };
}

/** A Pod that is gone sends no end of its connections. */
function closeWithRun({ pods }: ClusterContext, id: InstanceId, uid: string | undefined, stream: Duplex): void {
  const closed = new AbortController();
  stream.once('close', () => closed.abort());
  pods.listen(({ object, isGone }) => {
    if (object.metadata?.name !== podName(id)) return;
    if (object.metadata.uid !== uid || isGone || !isRunning(object)) stream.destroy();
  }, closed.signal);
}

const refused = ['ECONNREFUSED', 'ECONNRESET'];

function connectTo(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    const until = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)]);
    const leave = onAbort(until, () => socket.destroy(new DOMException('no answer', 'TimeoutError')));
    socket.once('connect', () => {
      leave();
      socket.off('error', fail);
      socket.on('error', () => {});
      resolve(socket);
    });
    const fail = (error: NodeJS.ErrnoException): void => {
      leave();
      reject(
        refused.includes(error.code ?? '')
          ? nothingListens(port, error)
          : faultOf(signal.aborted ? signal.reason : unanswered(host, error)),
      );
    };
    socket.once('error', fail);
  });
}

const unanswered = (host: string, cause: unknown): EngineFault =>
  new EngineFault(
    'unreachable',
    `the address ${host} of the instance does not answer; check the route to the Pods, or reach them by port-forward`,
    {
      retry: true,
      cause,
    },
  );
