/** Runs of short-lived Pods, for downloads and the check of the network. */
import type { RegistryCredentials } from '../contract.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { ClusterContext } from './cluster-context.ts';
import { newPullerName, pullerPod, pullerPolicy, pullerSecret, type PullerOptions } from './manifests/puller-pod.ts';

const CLEAN_MS = 5_000;

export interface PullerContext extends Pick<
  ClusterContext,
  'cluster' | 'installation' | 'settings' | 'log' | 'stopping'
> {
  pods: Pick<ClusterContext['pods'], 'until'>;
}

export interface PullerRun extends Pick<PullerOptions, 'ref' | 'askRegistry' | 'script'> {
  credentials?: RegistryCredentials | undefined;
  /** A policy closes its network. */
  isClosed: boolean;
}

/**
 * Creates the Pod, resolves as `outcome` does, and removes the Pod with all that belongs to it. The
 * signal of `outcome` aborts then.
 */
export async function runPuller<T>(
  { cluster, installation, settings, stopping, log }: PullerContext,
  { credentials, isClosed, ...run }: PullerRun,
  outcome: (name: string, signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const name = newPullerName(run.ref);
  const settled = new AbortController();
  const puller = { name, installation, settings, hasSecret: credentials !== undefined, ...run };
  try {
    await Promise.all([
      ...(isClosed ? [cluster.create(resources.networkPolicies, pullerPolicy(puller), signal)] : []),
      ...(credentials === undefined
        ? []
        : [cluster.create(resources.secrets, pullerSecret(puller, credentials), signal)]),
    ]);
    await cluster.create(resources.pods, pullerPod(puller), signal);
    return await outcome(name, AbortSignal.any([signal, settled.signal]));
  } finally {
    settled.abort();
    const cleaning = AbortSignal.any([stopping, AbortSignal.timeout(CLEAN_MS)]);
    const remove = async (): Promise<void> => {
      await cluster.remove(resources.pods, name, cleaning, { graceSeconds: 0 });
      if (isClosed) await cluster.remove(resources.networkPolicies, name, cleaning);
      if (credentials !== undefined) await cluster.remove(resources.secrets, name, cleaning);
    };
    await remove().catch((error: unknown) => {
      log.debug({ name, err: error }, 'could not remove a short-lived Pod; the next sweep does');
    });
  }
}
