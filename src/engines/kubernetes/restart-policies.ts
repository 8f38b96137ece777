/**
 * Whether a cluster follows the restart policy of a container (Kubernetes 1.35). Older servers
 * refuse or drop the field, and older kubelets ignore the policy.
 */
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Node, StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';

const LEAST_MINOR = 35;

const labels = { app: 'berth-dry-run' };
const trial: StatefulSet = {
  metadata: { name: 'berth-dry-run' },
  spec: {
    serviceName: 'berth-dry-run',
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: { containers: [{ name: 'main', image: 'berth', restartPolicy: 'Never' }] },
    },
  },
};

/** Asks by a creation that changes nothing. */
export async function takesRestartPolicies(cluster: Cluster, signal: AbortSignal): Promise<boolean> {
  try {
    const { spec } = await cluster.create(resources.statefulSets, trial, signal, { dryRun: true });
    return spec?.template.spec?.containers[0]?.restartPolicy === 'Never';
  } catch (error) {
    if (isFailure(error, 'invalid', 'denied')) return false;
    throw error;
  }
}

export const followRestartPolicies = (nodes: readonly Node[]): boolean =>
  nodes.every(({ status }) => {
    const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(status?.nodeInfo?.kubeletVersion ?? '') ?? [];
    return Number(major) > 1 || Number(minor) >= LEAST_MINOR;
  });
