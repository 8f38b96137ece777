/**
 * NetworkPolicies. One for each account: its instances reach each other, the peers of the region
 * reach them, and they reach what the egress policy allows. One for each instance with node ports.
 */
import { createHash } from 'node:crypto';
import type { EgressPolicy, EgressRange } from '../../../domain/regions/egress.ts';
import type { UserId } from '../../../domain/kernel/ids.ts';
import type { ClusterPeer, KubernetesEngineSettings } from '../../../domain/regions/kubernetes-settings.ts';
import type { NetworkPolicy } from '../../../kubernetes/api-objects.ts';
import type { EngineSpec } from '../../contract.ts';
import {
  accountPolicyName,
  accountSelector,
  annotations,
  instanceSelector,
  labelsFor,
  partMetadata,
  portsName,
} from './object-names.ts';

type Rules = NonNullable<NetworkPolicy['spec']>;
type Egress = NonNullable<Rules['egress']>[number];
type Peer = NonNullable<Egress['to']>[number];
type Port = NonNullable<Egress['ports']>[number];

const NAMESPACE_LABEL = 'kubernetes.io/metadata.name';
const DNS_NAMESPACE = 'kube-system';
/** `linkLocal`: where clouds serve the credentials of a node. */
const families = {
  ipv4: { everywhere: '0.0.0.0/0', linkLocal: '169.254.0.0/16', has: (range: string) => !range.includes(':') },
  ipv6: { everywhere: '::/0', linkLocal: 'fe80::/10', has: (range: string) => range.includes(':') },
};

/** Families of the addresses of Pods; both if unknown. */
const familiesOf = ({ podRanges }: Pick<KubernetesEngineSettings, 'podRanges'>) =>
  Object.values(families).filter(({ has }) => podRanges === undefined || podRanges.some(has));
const DNS_PORTS: Port[] = [
  { protocol: 'UDP', port: 53 },
  { protocol: 'TCP', port: 53 },
];

export interface AccountRules {
  installation: string;
  ownerId: UserId;
  egress: EgressPolicy;
  nameServers: readonly string[];
  settings: Pick<KubernetesEngineSettings, 'peers' | 'podRanges'>;
}

export function accountPolicy(options: AccountRules): NetworkPolicy {
  const { installation, ownerId } = options;
  const spec = rulesOf(options);
  return {
    metadata: {
      name: accountPolicyName(installation, ownerId),
      labels: labelsFor({ installation, kind: 'network', id: ownerId, ownerId }),
      annotations: { [annotations.rules]: digestOf(spec) },
    },
    spec,
  };
}

const digestOf = (rules: Rules): string =>
  createHash('sha256').update(JSON.stringify(rules)).digest('hex').slice(0, 32);

function rulesOf({ installation, ownerId, egress, nameServers, settings }: AccountRules): Rules {
  const account: Peer = { podSelector: { matchLabels: accountSelector(installation, ownerId) } };
  return {
    podSelector: { matchLabels: accountSelector(installation, ownerId) },
    policyTypes: ['Ingress', 'Egress'],
    ingress: [{ from: [account, ...(settings.peers ?? []).map(peerOf)] }],
    egress: [{ to: [account] }, ...egressOf(egress, nameServers, settings)],
  };
}

const peerOf = ({ cidr, namespace = '' }: ClusterPeer): Peer =>
  cidr === undefined ? { namespaceSelector: { matchLabels: { [NAMESPACE_LABEL]: namespace } } } : { ipBlock: { cidr } };

function egressOf(policy: EgressPolicy, nameServers: readonly string[], settings: AccountRules['settings']): Egress[] {
  switch (policy.mode) {
    case 'open':
      return [
        {
          to: familiesOf(settings).map(({ everywhere, linkLocal }) => ({
            ipBlock: { cidr: everywhere, except: [linkLocal] },
          })),
        },
        nameService(nameServers),
      ];
    case 'none':
      return [];
    case 'list':
      return [nameService(nameServers), ...policy.allow.map(rangeOf)];
    default:
      return policy satisfies never;
  }
}

const nameService = (nameServers: readonly string[]): Egress => ({
  to: [
    { namespaceSelector: { matchLabels: { [NAMESPACE_LABEL]: DNS_NAMESPACE } } },
    ...nameServers.map((address) => ({ ipBlock: { cidr: `${address}/${address.includes(':') ? 128 : 32}` } })),
  ],
  ports: DNS_PORTS,
});

function rangeOf({ cidr, ports, protocol }: EgressRange): Egress {
  const to = [{ ipBlock: { cidr: cidr.includes('/') ? cidr : `${cidr}/32` } }];
  const protocols = protocol === undefined ? ['TCP', 'UDP'] : [protocol.toUpperCase()];
  if (ports === undefined)
    return protocol === undefined ? { to } : { to, ports: protocols.map((name) => ({ protocol: name })) };
  return { to, ports: ports.flatMap((range) => protocols.map((name) => ({ protocol: name, ...portsOf(range) }))) };
}

function portsOf(range: string): Pick<Port, 'port' | 'endPort'> {
  const [first, last] = range.split('-').map(Number);
  return last === undefined || last === first ? { port: first } : { port: first, endPort: last };
}

/** Opens node ports to everybody but Pods, which would reach them by the address of the Pod. */
export function portsPolicy(
  spec: EngineSpec,
  { installation, uid, podRanges }: { installation: string; uid: string } & Pick<KubernetesEngineSettings, 'podRanges'>,
): NetworkPolicy {
  const outside = familiesOf({ podRanges }).map(({ everywhere, has }) => {
    const except = (podRanges ?? []).filter(has);
    return { ipBlock: { cidr: everywhere, ...(except.length === 0 ? {} : { except }) } };
  });
  const ports = [...new Set(spec.nodePorts.map(({ port }) => port))].map((port) => ({ protocol: 'TCP', port }));
  return {
    metadata: partMetadata(spec, portsName(spec.id), { installation, uid }),
    spec: {
      podSelector: { matchLabels: instanceSelector(installation, spec.id) },
      policyTypes: ['Ingress'],
      ingress: [{ from: outside, ports }],
    },
  };
}
