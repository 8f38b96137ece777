/**
 * Protection of an instance from an autoscaler: annotations of Cluster Autoscaler and Karpenter,
 * and a PodDisruptionBudget, which both and drains respect. Pure.
 */
import type { DisruptionBudget } from '../../../kubernetes/api-objects.ts';
import type { EngineSpec } from '../../contract.ts';
import type { KubernetesEngineSettings } from '../../../domain/regions/kubernetes-settings.ts';
import { instanceSelector, objectName, partMetadata, type PartOwner } from './object-names.ts';

const SAFE_TO_EVICT = 'cluster-autoscaler.kubernetes.io/safe-to-evict';
const DO_NOT_DISRUPT = 'karpenter.sh/do-not-disrupt';

export const isProtected = ({ spot }: EngineSpec, { autoscaling }: KubernetesEngineSettings): boolean =>
  autoscaling !== undefined && spot !== true;

/** Null removes an annotation. Cluster Autoscaler evicts no Pod with an `emptyDir` by default. */
export const protectionOf = (isOn: boolean) => ({
  [SAFE_TO_EVICT]: String(!isOn),
  [DO_NOT_DISRUPT]: isOn ? 'true' : null,
});

/** Annotations of a new Pod. */
export function podProtection(spec: EngineSpec, settings: KubernetesEngineSettings): Record<string, string> {
  if (settings.autoscaling === undefined) return {};
  return isProtected(spec, settings)
    ? { [SAFE_TO_EVICT]: 'false', [DO_NOT_DISRUPT]: 'true' }
    : { [SAFE_TO_EVICT]: 'true' };
}

export const disruptionBudget = (spec: Pick<EngineSpec, 'id' | 'ownerId'>, owner: PartOwner): DisruptionBudget => ({
  metadata: partMetadata(spec, objectName(spec.id), owner),
  spec: { maxUnavailable: 0, selector: { matchLabels: instanceSelector(owner.installation, spec.id) } },
});
