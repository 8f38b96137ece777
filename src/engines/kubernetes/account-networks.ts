/** NetworkPolicies of accounts: made with the first instance, removed after the last. */
import { raceAbort } from '../../async/abort.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { isAllOpen, openEgress, type EgressPolicies, type EgressPolicy } from '../../domain/regions/egress.ts';
import { userId, type UserId } from '../../domain/kernel/ids.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { NetworkPolicy, Node, StatefulSet } from '../../kubernetes/api-objects.ts';
import { labels } from '../labels.ts';
import type { ClusterContext } from './cluster-context.ts';
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
  'cluster' | 'installation' | 'settings' | 'egress' | 'nodes' | 'gatewayPorts'
>;

async function wantedPolicy(
  { installation, settings, egress, nodes, gatewayPorts }: NetworkContext,
  ownerId: UserId,
  signal: AbortSignal,
): Promise<NetworkPolicy> {
  const { policies } = egress;
  return accountPolicy({
    installation,
    ownerId,
    egress: policyOf(policies, ownerId),
    nameServers: policies?.nameServers ?? [],
    nodes: (await nodes(signal)).flatMap(addressesOf),
    gatewayPorts,
    settings,
  });
}

const addressesOf = ({ status }: Node): string[] =>
  (status?.addresses ?? []).filter(({ type }) => type.endsWith('IP')).map(({ address }) => address);

const rulesOf = ({ metadata }: NetworkPolicy): string | undefined => metadata?.annotations?.[annotations.rules];

/** The caller holds the mutex of the account. */
export async function ensureAccountNetwork(context: NetworkContext, owner: UserId, signal: AbortSignal): Promise<void> {
  const { cluster, installation, settings, egress } = context;
  if (!settings.networkPolicies && policyOf(egress.policies, owner).mode !== 'open') throw reject(NOT_ENFORCED);
  const present = await cluster.get(resources.networkPolicies, accountPolicyName(installation, owner), signal);
  const wanted = await wantedPolicy(context, owner, signal);
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
  for (const present of await raceAbort(lists.policies.list(), signal)) {
    const owner = userId(present.metadata?.labels?.[labels.owner] ?? '');
    if (rulesOf(present) === rulesOf(await wantedPolicy(context, owner, signal))) continue;
    await accounts.run(owner, () => applyIfPresent(context, owner, signal), signal);
  }
}

/** Closes open egress to nodes that came since the last policies. */
export async function closeNewNodes(context: ClusterContext, signal: AbortSignal): Promise<void> {
  const { egress, nodes, settings } = context;
  if (egress.policies === null || !settings.networkPolicies) return;
  const closed = closedRangesOf(settings, (await nodes(signal)).flatMap(addressesOf)).join();
  if (closed === egress.closed) return;
  await setEgress(context, egress.policies, signal);
  egress.closed = closed;
}

async function applyIfPresent(context: ClusterContext, owner: UserId, signal: AbortSignal): Promise<void> {
  const { cluster, installation, lists } = context;
  const present = await cluster.get(resources.networkPolicies, accountPolicyName(installation, owner), signal);
  if (isOwned(present?.metadata, installation, 'network', owner))
    await cluster.apply(resources.networkPolicies, await wantedPolicy(context, owner, signal), signal);
  lists.policies.invalidate();
}
