/**
 * NetworkPolicies. One for each account: its instances reach each other, the peers of the region
 * reach them, and they reach what the egress policy allows. Open egress leads out of the cluster,
 * to name servers and the gateway. One for each instance with node ports.
 */
import { createHash } from 'node:crypto';
import { isInRanges } from '../../../domain/access/address-range.ts';
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
/** Ranges of Pods, Services and nodes of most clusters: private ones, and those of carriers. */
const PRIVATE_RANGES = ['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'];

/** Ranges closed to open egress; none is inside of another. */
export function closedRangesOf({ closedRanges, podRanges = [] }: RangeSettings, nodes: readonly string[]): string[] {
  const linkLocal = Object.values(families).map((family) => family.linkLocal);
  const all = [...new Set([...linkLocal, ...(closedRanges ?? PRIVATE_RANGES), ...podRanges])];
  const wide = all.filter((range, index) => !isInRanges(all.toSpliced(index, 1), range));
  const apart = new Set(nodes.filter((node) => !isInRanges(wide, node)));
  return [...wide, ...[...apart].toSorted().map(rangeOfAddress)];
}

const rangeOfAddress = (address: string): string => `${address}/${address.includes(':') ? 128 : 32}`;

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
  /** Ranges closed to open egress. */
  closed: readonly string[];
  /** Ports of the gateway at its peers. */
  gatewayPorts: readonly number[];
  settings: Pick<KubernetesEngineSettings, 'peers' | 'podRanges'>;
}

type RangeSettings = Pick<KubernetesEngineSettings, 'podRanges' | 'closedRanges'>;

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

function rulesOf(options: AccountRules): Rules {
  const { installation, ownerId, settings } = options;
  const account: Peer = { podSelector: { matchLabels: accountSelector(installation, ownerId) } };
  return {
    podSelector: { matchLabels: accountSelector(installation, ownerId) },
    policyTypes: ['Ingress', 'Egress'],
    ingress: [{ from: [account, ...(settings.peers ?? []).map(peerOf)] }],
    egress: [{ to: [account] }, ...egressOf(options)],
  };
}

const peerOf = ({ cidr, namespace = '' }: ClusterPeer): Peer =>
  cidr === undefined ? { namespaceSelector: { matchLabels: { [NAMESPACE_LABEL]: namespace } } } : { ipBlock: { cidr } };

function egressOf(rules: AccountRules): Egress[] {
  const { egress, closed, gatewayPorts, settings } = rules;
  switch (egress.mode) {
    case 'open': {
      const { peers = [] } = settings;
      const outside = familiesOf(settings).map(({ everywhere, has }) => ({
        ipBlock: { cidr: everywhere, except: closed.filter(has) },
      }));
      const ports = gatewayPorts.map((port) => ({ protocol: 'TCP', port }));
      return [
        { to: outside },
        nameService(rules),
        ...(peers.length === 0 || ports.length === 0 ? [] : [{ to: peers.map(peerOf), ports }]),
      ];
    }
    case 'none':
      return [];
    case 'list':
      return [nameService(rules), ...egress.allow.map(rangeOf)];
    default:
      return egress satisfies never;
  }
}

const nameService = ({ nameServers, settings }: Pick<AccountRules, 'nameServers' | 'settings'>): Egress => ({
  to: [
    { namespaceSelector: { matchLabels: { [NAMESPACE_LABEL]: DNS_NAMESPACE } } },
    // Caches of nodes, and name servers of clouds.
    ...familiesOf(settings).map(({ linkLocal }) => ({ ipBlock: { cidr: linkLocal } })),
    ...nameServers.map((address) => ({ ipBlock: { cidr: rangeOfAddress(address) } })),
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
