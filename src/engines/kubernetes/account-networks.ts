/** NetworkPolicies of accounts: made with the first instance, removed after the last. */
import { raceAbort } from '../../async/abort.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { isAllOpen, openEgress, type EgressPolicies, type EgressPolicy } from '../../domain/regions/egress.ts';
import { userId, type UserId } from '../../domain/kernel/ids.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { NetworkPolicy, Node, StatefulSet } from '../../kubernetes/api-objects.ts';
import { labels } from '../labels.ts';
import type { ClusterContext, NodeReader } from './cluster-context.ts';
import { reject } from './cluster-faults.ts';
import { accountPolicy, closedRangesOf } from './manifests/network-rules.ts';
import {
  accountPolicyName,
  accountSelector,
  annotations,
  isOwned,
  ownedSelector,
  selectorText,
} from './manifests/object-names.ts';

export const NOT_ENFORCED =
  'the network of the cluster does not enforce NetworkPolicies; install a network that does, such as Calico or Cilium, and say so in the settings of the region';

const policyOf = (policies: EgressPolicies | null, owner: UserId): EgressPolicy =>
  policies?.accounts.get(owner) ?? policies?.default ?? openEgress;

type NetworkContext = Pick<
  ClusterContext,
  'cluster' | 'installation' | 'settings' | 'egress' | 'closedRanges' | 'gatewayPorts'
>;

function wantedPolicy(
  { installation, settings, egress, gatewayPorts }: NetworkContext,
  ownerId: UserId,
  closed: readonly string[],
): NetworkPolicy {
  const { policies } = egress;
  return accountPolicy({
    installation,
    ownerId,
    egress: policyOf(policies, ownerId),
    nameServers: policies?.nameServers ?? [],
    closed,
    gatewayPorts,
    settings,
  });
}

/** Computes the ranges once for each reading of the nodes. */
export function makeClosedRanges(
  nodes: NodeReader,
  settings: ClusterContext['settings'],
): ClusterContext['closedRanges'] {
  let last: { nodes: readonly Node[]; ranges: readonly string[] } | undefined;
  return async (signal) => {
    const all = await nodes(signal);
    if (last?.nodes !== all) last = { nodes: all, ranges: closedRangesOf(settings, all.flatMap(addressesOf)) };
    return last.ranges;
  };
}

const addressesOf = ({ status }: Node): string[] =>
  (status?.addresses ?? []).filter(({ type }) => type.endsWith('IP')).map(({ address }) => address);

const rulesOf = ({ metadata }: NetworkPolicy): string | undefined => metadata?.annotations?.[annotations.rules];

/** The caller holds the mutex of the account. */
export async function ensureAccountNetwork(context: NetworkContext, owner: UserId, signal: AbortSignal): Promise<void> {
  const { cluster, installation, settings, egress } = context;
  if (!settings.networkPolicies && policyOf(egress.policies, owner).mode !== 'open') throw reject(NOT_ENFORCED);
  const present = await cluster.get(resources.networkPolicies, accountPolicyName(installation, owner), signal);
  const wanted = wantedPolicy(context, owner, await context.closedRanges(signal));
  if (present !== null && !isOwned(present.metadata, installation, 'network', owner)) {
    const name = present.metadata?.name ?? '';
    throw new EngineFault(
      'rejected',
      `the cluster has a NetworkPolicy ${name} that is not of this installation; remove it`,
      {
        retry: false,
        reason: 'nameTaken',
      },
    );
  }
  // A driver that knows no policies yet must not open what an earlier one has closed.
  const isCurrent = egress.policies === null || rulesOf(present ?? {}) === rulesOf(wanted);
  if (present !== null && isCurrent && present.metadata?.deletionTimestamp === undefined) return;
  await cluster.apply(resources.networkPolicies, wanted, signal);
}

/** Removes the policy of an account without instances. */
export async function releaseAccountNetwork(
  { cluster, installation, accounts }: ClusterContext,
  owner: UserId,
  signal: AbortSignal,
): Promise<void> {
  const release = async (): Promise<void> => {
    const name = accountPolicyName(installation, owner);
    const labelSelector = selectorText(accountSelector(installation, owner));
    if ((await cluster.list(resources.statefulSets, signal, { labelSelector })).length > 0) return;
    const present = await cluster.get(resources.networkPolicies, name, signal);
    if (!isOwned(present?.metadata, installation, 'network', owner)) return;
    await cluster.remove(resources.networkPolicies, name, signal, { uid: present?.metadata?.uid });
  };
  await accounts.run(owner, release, signal);
}

export async function releaseUnusedNetworks(context: ClusterContext, signal: AbortSignal): Promise<void> {
  const { cluster, installation } = context;
  const [policies, sets] = await Promise.all([
    cluster.list(resources.networkPolicies, signal, { labelSelector: ownedSelector(installation, 'network') }),
    cluster.list(resources.statefulSets, signal, { labelSelector: ownedSelector(installation, 'instance') }),
  ]);
  const ownerOf = ({ metadata }: NetworkPolicy | StatefulSet): string => metadata?.labels?.[labels.owner] ?? '';
  const used = new Set(sets.map(ownerOf));
  for (const owner of policies.map(ownerOf))
    if (!used.has(owner)) await releaseAccountNetwork(context, userId(owner), signal);
}

export async function setEgress(context: ClusterContext, policies: EgressPolicies, signal: AbortSignal): Promise<void> {
  const { settings, accounts, egress, lists } = context;
  egress.policies = policies;
  if (!settings.networkPolicies && !isAllOpen(policies)) throw reject(NOT_ENFORCED);
  const closed = await context.closedRanges(signal);
  for (const present of await raceAbort(lists.policies.list(), signal)) {
    const owner = userId(present.metadata?.labels?.[labels.owner] ?? '');
    if (rulesOf(present) === rulesOf(wantedPolicy(context, owner, closed))) continue;
    await accounts.run(owner, () => applyIfPresent(context, owner, signal), signal);
  }
  egress.closed = closed.join();
}

/** Closes open egress to nodes that came since the last policies. */
export async function closeNewNodes(context: ClusterContext, signal: AbortSignal): Promise<void> {
  const { egress, closedRanges, settings } = context;
  if (egress.policies === null || !settings.networkPolicies) return;
  if ((await closedRanges(signal)).join() !== egress.closed) await setEgress(context, egress.policies, signal);
}

async function applyIfPresent(context: ClusterContext, owner: UserId, signal: AbortSignal): Promise<void> {
  const { cluster, installation, lists } = context;
  const present = await cluster.get(resources.networkPolicies, accountPolicyName(installation, owner), signal);
  if (isOwned(present?.metadata, installation, 'network', owner))
    await cluster.apply(
      resources.networkPolicies,
      wantedPolicy(context, owner, await context.closedRanges(signal)),
      signal,
    );
  lists.policies.invalidate();
}
