/** Names and addresses of a cluster and its nodes, all derived from its number. */

/** One more than the highest number of a cluster. */
export const clusterCount = 16;

/** Names of the nodes that a cluster can have. The first has the API server. */
export const nodeNames = ['node', 'node-2', 'node-3'] as const;

/** Ranges of the Pods of each node within those of the cluster. */
const podsOfNodes = ['0/25', '128/26', '192/26'];

export interface Layout {
  number: number;
  /** Interface of the host; at most 15 characters. */
  name: string;
  nodeName: string;
  /** Name of the control groups of the node. */
  groups: string;
  /** Other end of the link of the node: this machine, or the first node. */
  hostAddress: string;
  nodeAddress: string;
  /** Address of the first node. */
  serverAddress: string;
  apiUrl: string;
  /** Address ranges in CIDR notation. */
  links: string;
  pods: string;
  podsOfNode: string;
  services: string;
  /** Pods of simulated nodes. The host has all these addresses: a test can answer for the Pods. */
  simulatedPods: string;
  /** Address of the Service `kubernetes` in the namespace `default`. */
  apiServiceAddress: string;
}

/** `index`: of the node in `nodeNames`. */
export function layoutOf(number: number, index = 0): Layout {
  if (!Number.isInteger(number) || number < 0 || number >= clusterCount)
    throw new Error(`The number of a cluster is ${number}; it must be an integer from 0 to ${clusterCount - 1}.`);
  const nodeName = nodeNames[index];
  if (nodeName === undefined) throw new Error(`A cluster has at most ${nodeNames.length} nodes.`);
  const third = number * 16;
  const name = `berth-kube-${number}`;
  const serverAddress = `10.99.${number}.2`;
  return {
    number,
    name,
    nodeName,
    groups: index === 0 ? name : `${name}-${index + 1}`,
    hostAddress: `10.99.${number}.${4 * index + 1}`,
    nodeAddress: `10.99.${number}.${4 * index + 2}`,
    serverAddress,
    apiUrl: `https://${serverAddress}:6443`,
    links: `10.99.${number}.0/28`,
    pods: `10.98.${number}.0/24`,
    podsOfNode: `10.98.${number}.${podsOfNodes[index]}`,
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
  const { links, pods, services, simulatedPods } = layout;
  return routes.split('\n').find((route) => {
    const range = /^(?:\w+ )?(\d+\.\d+\.\d+\.\d+(?:\/\d+)?)\b/.exec(route)?.[1];
    return range !== undefined && [links, pods, services, simulatedPods].some((own) => overlap(own, range));
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
