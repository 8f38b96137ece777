/** Protection of running instances from an autoscaler, on and off. */
import { userId, type InstanceId } from '../../domain/kernel/ids.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Engine } from '../contract.ts';
import { labels } from '../labels.ts';
import { runningPod, type ClusterContext } from './cluster-context.ts';
import { disruptionBudget, protectionOf } from './manifests/node-protection.ts';
import { objectName, podName } from './manifests/object-names.ts';

/** Absent in a region whose settings name no time without use. */
export function protectionFor(context: ClusterContext): Pick<Engine, 'protection'> {
  const { idleMinutes } = context.settings.autoscaling ?? {};
  if (idleMinutes === undefined) return {};
  const set = (id: InstanceId, isOn: boolean, signal: AbortSignal): Promise<void> =>
    context.instances.run(id, () => protect(context, id, isOn, signal), signal);
  return { protection: { idleMs: idleMinutes * MINUTE_MS, set } };
}

async function protect(context: ClusterContext, id: InstanceId, isOn: boolean, signal: AbortSignal): Promise<void> {
  const { cluster, installation } = context;
  const { metadata } = await runningPod(context, id, signal);
  const ownerId = userId(metadata?.labels?.[labels.owner] ?? '');
  const uid = metadata?.ownerReferences?.[0]?.uid ?? '';
  const changes = { metadata: { uid: metadata?.uid, annotations: protectionOf(isOn) } };
  await (isOn
    ? cluster.apply(resources.disruptionBudgets, disruptionBudget({ id, ownerId }, { installation, uid }), signal)
    : cluster.remove(resources.disruptionBudgets, objectName(id), signal));
  await cluster.patch(resources.pods, podName(id), changes, signal);
}
