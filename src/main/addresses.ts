/** Where a server is, as others are told: what it listens on may be "every address", which nobody can go to. */
import { lookup } from 'node:dns/promises';
import { hostPort, isAny, type Address, type Config } from './config.ts';

export interface Addresses {
  apiUrl: string;
  gatewayUrl: string;
  /** `regionInfo.domain`. */
  domain: string;
}

const reached = ({ host, port }: Address, publicAddress: string): string =>
  hostPort({ host: isAny(host) ? publicAddress : host, port });

/** What is told of a server that listens on these ports. Pure. */
export function addressesOf(config: Config, ports: { api: number; gateway: number }): Addresses {
  const domain = config.domain ?? reached({ ...config.gatewayListen, port: ports.gateway }, config.publicAddress);
  return {
    apiUrl: config.apiUrl ?? `http://${reached({ ...config.listen, port: ports.api }, config.publicAddress)}`,
    gatewayUrl: config.gatewayUrl ?? `http://${domain}`,
    domain,
  };
}

/** The address of the host on which node ports are published: engines take an IP address alone. */
export async function nodePortAddressOf({ nodePortAddress, listen: { host } }: Config): Promise<string> {
  if (nodePortAddress !== null) return nodePortAddress;
  return host === '*' ? '0.0.0.0' : (await lookup(host)).address;
}
