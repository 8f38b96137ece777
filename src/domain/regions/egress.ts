/** Which connections instances may open beyond the network of their account. */
import { ipv4RangeOf, ipv4TextOf } from '../access/address-range.ts';

export const egressModes = ['open', 'none', 'list'] as const;
export const egressProtocols = ['tcp', 'udp'] as const;

/** Addresses that a `list` allows; without ports, every protocol and port. */
export interface EgressRange {
  cidr: string;
  ports?: string[] | undefined;
  /** Absent: both. */
  protocol?: (typeof egressProtocols)[number] | undefined;
}

export type EgressPolicy =
  | { mode: 'open' }
  | { mode: 'none' }
  /** Also allows the name servers of instances. */
  | { mode: 'list'; allow: EgressRange[] };

export interface EgressPolicies {
  /** For accounts without a policy of their own. */
  default: EgressPolicy;
  accounts: ReadonlyMap<string, EgressPolicy>;
  /** Addresses that instances ask for names; absent: the host's. */
  nameServers?: readonly string[] | undefined;
}

export const openEgress: EgressPolicy = { mode: 'open' };

export const isAllOpen = ({ default: one, accounts }: EgressPolicies): boolean =>
  [one, ...accounts.values()].every(({ mode }) => mode === 'open');

/** Returns what is wrong with an IPv4 address or CIDR range, or null. */
export function refusalOfRange(cidr: string): string | null {
  if (cidr.includes(':')) return `${cidr} is IPv6, which networks of instances do not have; leave it out`;
  const range = ipv4RangeOf(cidr);
  if (range === null)
    return `${cidr} is no range such as 203.0.113.0/24; a name is refused because its addresses change: send them`;
  if (range.first === range.address) return null;
  return `${cidr} has bits beyond its prefix; send ${ipv4TextOf(range.first)}/${range.prefix}`;
}

/** Returns what is wrong with a port or a range of ports, or null. */
export function refusalOfPorts(ports: string): string | null {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(ports);
  const first = Number(match?.[1]);
  const last = Number(match?.[2] ?? match?.[1]);
  return first >= 1 && first <= last && last <= 65_535 ? null : `${ports} is no port such as 443 or 8000-8100`;
}
