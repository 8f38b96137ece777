/** Names and addresses of a cluster, all derived from its number. */

/** One more than the highest number of a cluster. */
export const clusterCount = 16;

export interface Layout {
  number: number;
  /** Interface of the host, and name of the control groups; at most 15 characters. */
  name: string;
  hostAddress: string;
  nodeAddress: string;
  apiUrl: string;
  /** Address ranges in CIDR notation. */
  link: string;
  pods: string;
  services: string;
  /** Pods of simulated nodes. The host has all these addresses: a test can answer for the Pods. */
  simulatedPods: string;
  /** Address of the Service `kubernetes` in the namespace `default`. */
  apiServiceAddress: string;
}

export function layoutOf(number: number): Layout {
  if (!Number.isInteger(number) || number < 0 || number >= clusterCount)
    throw new Error(`The number of a cluster is ${number}; it must be an integer from 0 to ${clusterCount - 1}.`);
  const third = number * 16;
  return {
    number,
    name: `berth-kube-${number}`,
    hostAddress: `10.99.${number}.1`,
    nodeAddress: `10.99.${number}.2`,
    apiUrl: `https://10.99.${number}.2:6443`,
    link: `10.99.${number}.0/30`,
    pods: `10.98.${number}.0/24`,
    services: `10.97.${third}.0/20`,
    simulatedPods: `10.96.${third}.0/20`,
    apiServiceAddress: `10.97.${third}.1`,
  };
}

/**
 * Returns the first route of the host that overlaps a range of the cluster. `routes`: output of
 * `ip route show table all`. A default route overlaps nothing.
 */
export function overlappingRoute(layout: Layout, routes: string): string | undefined {
  const { link, pods, services, simulatedPods } = layout;
  return routes.split('\n').find((route) => {
    const range = /^(?:\w+ )?(\d+\.\d+\.\d+\.\d+(?:\/\d+)?)\b/.exec(route)?.[1];
    return range !== undefined && [link, pods, services, simulatedPods].some((own) => overlap(own, range));
  });
}

function overlap(one: string, other: string): boolean {
  const [a, b] = [boundsOf(one), boundsOf(other)];
  return a.first <= b.last && b.first <= a.last;
}

function boundsOf(range: string): { first: number; last: number } {
  const [address = '', bits = '32'] = range.split('/');
  const size = 2 ** (32 - Number(bits));
  const value = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const first = Math.floor(value / size) * size;
  return { first, last: first + size - 1 };
}
