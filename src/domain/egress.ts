/** Which connections instances may open beyond the network of their account. */
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
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:\/(\d{1,2}))?$/.exec(cidr);
  if (match === null) {
    if (cidr.includes(':')) return `${cidr} is IPv6, which networks of instances do not have; leave it out`;
    return `${cidr} is no range such as 203.0.113.0/24; a name is refused because its addresses change: send them`;
  }
  const bytes = match.slice(1, 5).map(Number);
  const bits = Number(match[5] ?? 32);
  if (bits > 32 || bytes.some((byte) => byte > 255)) return `${cidr} is no range such as 203.0.113.0/24`;
  const size = 2 ** (32 - bits);
  const address = bytes.reduce((sum, byte) => sum * 256 + byte, 0);
  const first = address - (address % size);
  if (first === address) return null;
  const start = [24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256).join('.');
  return `${cidr} has bits beyond its prefix; send ${start}/${bits}`;
}

/** Returns what is wrong with a port or a range of ports, or null. */
export function refusalOfPorts(ports: string): string | null {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(ports);
  const first = Number(match?.[1]);
  const last = Number(match?.[2] ?? match?.[1]);
  return first >= 1 && first <= last && last <= 65_535 ? null : `${ports} is no port such as 443 or 8000-8100`;
}
