/** Rules of egress policies in the host's packet filter. Pure; `egress.ts` installs. */
import { isIPv4 } from 'node:net';
import {
  egressProtocols,
  isAllOpen,
  type EgressPolicies,
  type EgressPolicy,
  type EgressRange,
} from '../../../domain/regions/egress.ts';
import type { ChainPlan } from './firewall-rules.ts';
import type { NetworkPool } from './subnets.ts';

export const egressChainName = (chain: string): string => `${chain}-E`;

export interface EgressPlan {
  pool: NetworkPool;
  policies: EgressPolicies;
  nameServers: readonly string[];
  /** Networks of accounts. */
  networks: readonly { ownerId: string; subnet: string }[];
}

const REJECT = ['-p tcp -j REJECT --reject-with tcp-reset', '-j REJECT --reject-with icmp-admin-prohibited'];

export function egressPlan({ pool, policies, nameServers, networks }: EgressPlan): ChainPlan {
  const own = networks.toSorted((a, b) => (a.subnet < b.subnet ? -1 : 1));
  const rulesOf = (policy: EgressPolicy): string[] => {
    if (policy.mode === 'open') return ['-j RETURN'];
    return policy.mode === 'none'
      ? REJECT
      : [...nameServers.flatMap(nameServerRules), ...policy.allow.flatMap(rangeRules), ...REJECT];
  };
  const ofAccounts = own.flatMap(({ ownerId, subnet }) => {
    const policy = policies.accounts.get(ownerId);
    return policy === undefined ? [] : rulesOf(policy).map((rule) => `-s ${subnet} ${rule}`);
  });
  return {
    table: 'filter',
    jump: `-s ${pool.cidr}`,
    rules: isAllOpen(policies)
      ? []
      : [
          // Answers to who connects to an instance: the gateway, and clients of node ports.
          '-m conntrack --ctdir REPLY -j RETURN',
          ...own.map(({ subnet }) => `-s ${subnet} -d ${subnet} -j RETURN`),
          ...ofAccounts,
          ...rulesOf(policies.default),
        ],
  };
}

const nameServerRules = (address: string): string[] =>
  isIPv4(address) && !address.startsWith('127.')
    ? egressProtocols.map((protocol) => `-d ${address}/32 -p ${protocol} -m ${protocol} --dport 53 -j RETURN`)
    : [];

/** Compares the address that the instance connected to, before the host translates it. */
function rangeRules({ cidr, ports, protocol }: EgressRange): string[] {
  const to = `-m conntrack --ctorigdst ${cidr}`;
  const protocols = protocol === undefined ? egressProtocols : [protocol];
  if (ports === undefined) return protocol === undefined ? [`${to} -j RETURN`] : [`-p ${protocol} ${to} -j RETURN`];
  return protocols.flatMap((one) =>
    ports.map((range) => `-p ${one} ${to} --ctorigdstport ${range.replace('-', ':')} -j RETURN`),
  );
}
