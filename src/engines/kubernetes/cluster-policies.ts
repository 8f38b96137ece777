/**
 * Check of a cluster's network for NetworkPolicies. Two short-lived Pods connect to the API server:
 * one against a policy, and one without a policy, as proof of the way there.
 */
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { Pod } from '../../kubernetes/api-objects.ts';
import { NOT_ENFORCED } from './account-networks.ts';
import { reject } from './cluster-faults.ts';
import { runPuller, type PullerContext, type PullerRun } from './puller-runs.ts';
import { refusalOfNode, startFailureOf } from './state/start-failures.ts';

const PATIENCE_MS = 30_000;

/** Any byte is an answer: servers of TLS refuse a request in plain text. */
const CONNECTS =
  "connects() { printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT | grep -q .; }";
/** Networks enforce a policy some seconds after it, or after the start of the Pod. */
const OPEN = `${CONNECTS}; for try in 1 2 3 4 5; do connects && exit 0; sleep 1; done; exit 1`;
const CLOSED = `${CONNECTS}; for try in 1 2 3 4 5 6 7 8; do connects || connects || exit 0; sleep 1; done; exit 1`;

/**
 * Throws an `EngineFault` for a Pod with a connection in spite of a policy. Returns a sentence for
 * the operator if the check cannot run, such as without a node or without `nc` in the image.
 */
export async function checkPolicies(context: PullerContext, image: string, signal: AbortSignal): Promise<string[]> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
  const unknown = (why: string): string[] => [
    `Berth could not see whether the network of the cluster enforces NetworkPolicies, which keep accounts apart: ${why}`,
  ];
  try {
    const [isOpen, isClosed] = await Promise.all([
      hasSucceeded(context, { ref: image, script: OPEN, isClosed: false }, until),
      hasSucceeded(context, { ref: image, script: CLOSED, isClosed: true }, until),
    ]);
    if (!isClosed) throw reject(`a Pod that a policy closes connects to the API server: ${NOT_ENFORCED}`);
    return isOpen ? [] : unknown(`a Pod of ${image} without a policy does not connect to the API server, by nc`);
  } catch (error) {
    signal.throwIfAborted();
    if (until.aborted) return unknown(`Pods of ${image} did not end within ${PATIENCE_MS / 1000} s`);
    if (error instanceof EngineFault && error.kind === 'no_capacity') return unknown(error.message);
    throw error;
  }
}

async function hasSucceeded(context: PullerContext, run: Omit<PullerRun, 'askRegistry'>, signal: AbortSignal) {
  const end = (name: string, until: AbortSignal) => context.pods.until(name, outcomeOf, until);
  const outcome = await runPuller(context, { ...run, askRegistry: false }, end, signal);
  if (outcome instanceof EngineFault) throw outcome;
  return outcome;
}

/** Success of its script. Undefined: it still runs. */
function outcomeOf(pod: Pod | null): boolean | EngineFault | undefined {
  if (pod === null) return undefined;
  const exitCode = pod.status?.containerStatuses?.[0]?.state?.terminated?.exitCode;
  if (exitCode !== undefined) return exitCode === 0;
  return startFailureOf(pod) ?? refusalOfNode(pod) ?? undefined;
}
