/** Where a server is, as others are told: what it listens on may be "every address", which nobody can go to. */
import { lookup } from 'node:dns/promises';
import { OPEN_ON_HOSTS } from '../edge/gateway/routing.ts';
import { SHARE_PARAMETER } from '../edge/gateway/share-token.ts';
import { hostPort, isAny, type Address, type Config } from './config.ts';

export interface Addresses {
  apiUrl: string;
  gatewayUrl: string;
  /** `regionInfo.domain`. */
  domain: string;
  /** `<port>-<instanceId>` below it is a port's own host; null: ports have none. */
  portDomain: string | null;
}

const reached = ({ host, port }: Address, publicAddress: string): string =>
  hostPort({ host: isAny(host) ? publicAddress : host, port });

/** What is told of a server that listens on these ports. Pure. */
export function addressesOf(config: Config, ports: { api: number; gateway: number }): Addresses {
  const domain = config.domain?.name ?? reached({ ...config.gatewayListen, port: ports.gateway }, config.publicAddress);
  return {
    apiUrl: config.apiUrl ?? `http://${reached({ ...config.listen, port: ports.api }, config.publicAddress)}`,
    gatewayUrl: config.gatewayUrl ?? `${config.gatewayTls === null ? 'http' : 'https'}://${domain}`,
    domain,
    portDomain: config.domain?.isWildcard === true ? domain : null,
  };
}

/** The address of the host on which node ports are published: engines take an IP address alone. */
export async function nodePortAddressOf({ nodePortAddress, listen: { host } }: Config): Promise<string> {
  if (nodePortAddress !== null) return nodePortAddress;
  return host === '*' ? '0.0.0.0' : (await lookup(host)).address;
}

/** The link of `POST /instance/open`: to the host of the port where it has one. */
export function openUrl(
  { gatewayUrl, portDomain }: Addresses,
  { instanceId, port, key }: { instanceId: string; port: number | undefined; key: string },
): string {
  if (port === undefined) return `${gatewayUrl}/open?key=${key}`;
  if (portDomain === null) return `${gatewayUrl}/open?key=${key}&port=${port}`;
  return `${hostOrigin(gatewayUrl, { instanceId, port }, portDomain)}${OPEN_ON_HOSTS}?key=${key}`;
}

const hostOrigin = (gatewayUrl: string, { instanceId, port }: PortAt, portDomain: string): string =>
  `${new URL(gatewayUrl).protocol}//${port}-${instanceId}.${portDomain}`;

interface PortAt {
  instanceId: string;
  port: number;
}

/** Where a port is behind the gateway; `host`: null where ports have none of their own. */
export const portUrls = ({ gatewayUrl, portDomain }: Addresses, at: PortAt): { path: string; host: string | null } => ({
  path: `${gatewayUrl}/forward/${at.instanceId}/${at.port}/`,
  host: portDomain === null ? null : `${hostOrigin(gatewayUrl, at, portDomain)}/`,
});

/** The link of `POST /instance/port/share`: to the host of the port where it has one. */
export function shareUrl(addresses: Addresses, { token, ...at }: PortAt & { token: string }): string {
  const { path, host } = portUrls(addresses, at);
  return `${host ?? path}?${SHARE_PARAMETER}=${token}`;
}
