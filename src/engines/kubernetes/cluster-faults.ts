/** The one place where errors of a cluster become faults of the engine. */
import { EngineFault, type FaultKind, type FaultReason } from '../../domain/regions/engine-fault.ts';
import { ApiError, isFailure, type Failure } from '../../kubernetes/api-error.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';

const NO_ANSWER = 'the cluster did not answer in time; Berth retries';
const NOT_DONE = 'the cluster answers, but has not done its part in time; Berth waits for it';
const ASK_MS = 5_000;

const kinds: Record<Failure, { kind: FaultKind; retry: boolean }> = {
  absent: { kind: 'not_found', retry: true },
  exists: { kind: 'busy', retry: true },
  conflict: { kind: 'busy', retry: true },
  expired: { kind: 'busy', retry: true },
  // An operator may extend the role meanwhile.
  forbidden: { kind: 'rejected', retry: true },
  unauthorized: { kind: 'unreachable', retry: true },
  quota: { kind: 'no_capacity', retry: true },
  denied: { kind: 'rejected', retry: false },
  invalid: { kind: 'rejected', retry: false },
  throttled: { kind: 'busy', retry: true },
  unavailable: { kind: 'unreachable', retry: true },
  away: { kind: 'unreachable', retry: true },
};

const reasons: Partial<Record<Failure, FaultReason>> = { quota: 'clusterFull', unauthorized: 'credentialsRefused' };

export function faultOf(error: unknown): EngineFault {
  if (error instanceof EngineFault) return error;
  if (error instanceof ApiError) {
    const port = takenNodePort(error);
    if (port !== null) return portTaken(port, error);
    return new EngineFault(kinds[error.failure].kind, sentenceOf(error), {
      retry: kinds[error.failure].retry,
      reason: reasons[error.failure],
      cause: error,
    });
  }
  const isAbort = error instanceof DOMException && (error.name === 'AbortError' || error.name === 'TimeoutError');
  const text = isAbort ? NO_ANSWER : 'a call of the cluster failed; Berth retries';
  return new EngineFault('unreachable', text, { retry: true, cause: error });
}

/**
 * Asks the cluster about an error. A call that ran out of time is no outage of a cluster that
 * answers, and a missing namespace is refused like a missing right.
 */
export async function explainedFaultOf(
  cluster: Pick<Cluster, 'json' | 'namespace'>,
  error: unknown,
  signal: AbortSignal,
): Promise<EngineFault> {
  const ask = (path: string): Promise<unknown> =>
    cluster.json(path, AbortSignal.timeout(ASK_MS)).then(
      () => null,
      (failure: unknown) => failure,
    );
  const isOverdue = signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError';
  if (isOverdue && !(error instanceof EngineFault) && (await ask('/version')) === null)
    return new EngineFault('busy', NOT_DONE, { retry: true, reason: 'startPending', cause: error });
  const { namespace } = cluster;
  if (isFailure(error, 'forbidden') && isFailure(await ask(`/api/v1/namespaces/${namespace}`), 'absent'))
    return noNamespace(namespace);
  return faultOf(error);
}

export const noNamespace = (namespace: string): EngineFault =>
  reject(`the cluster has no namespace ${namespace}; create it, as deploy/kubernetes/namespace.yaml does`);

function sentenceOf({ failure, message }: ApiError): string {
  const quota = /exceeded quota: (.*)$/s.exec(message)?.[1];
  if (failure === 'quota')
    return `the quota of the cluster's namespace is used up (${quota ?? message}); stop another instance, or ask the operator for more`;
  if (failure === 'denied') return `a policy of the cluster refuses the instance: ${message}`;
  if (failure === 'invalid' && /provided port is not in the valid range/.test(message))
    return `the node port is outside of the range of the cluster (${/valid ports is ([\d-]+)/.exec(message)?.[1] ?? 'see --service-node-port-range'}); change the node ports of the region`;
  return message;
}

function takenNodePort({ message }: ApiError): number | null {
  const port = /nodePort: Invalid value: (\d+): provided port is already allocated/.exec(message)?.[1];
  return port === undefined ? null : Number(port);
}

const portTaken = (port: number, cause: unknown): EngineFault =>
  new EngineFault('busy', `node port ${port} is taken by another service of the cluster`, {
    retry: true,
    reason: 'portTaken',
    takenNodePort: port,
    cause,
  });

export const reject = (text: string, reason?: FaultReason): EngineFault =>
  new EngineFault('rejected', text, { retry: false, reason });

export const notRunning = (cause?: unknown): EngineFault =>
  new EngineFault('not_found', 'the instance is not running', { retry: false, cause });

/** Throws an `EngineFault` for whatever the call throws. */
export async function withFaults<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw faultOf(error);
  }
}
