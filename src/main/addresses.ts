/** Public addresses of a server. The listen address may be a wildcard, which no client can use. */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { OPEN_ON_HOSTS } from '../edge/gateway/routing.ts';
import { SHARE_PARAMETER } from '../edge/gateway/share-token.ts';
import { hostPort, isAny, type Address, type Config } from './config.ts';

export interface Addresses {
  apiUrl: string;
  gatewayUrl: string;
  /** `regionInfo.domain`. */
  domain: string;
  /** Parent domain of `<port>-<instanceId>` hosts; null in path mode. */
  portDomain: string | null;
}

const reachableHostPort = ({ host, port }: Address, publicAddress: string): string =>
  hostPort({ host: isAny(host) ? publicAddress : host, port });

const schemeOf = (tls: object | null): string => (tls === null ? 'http' : 'https');

/** Public addresses of a server that listens on these ports. */
export function addressesOf(config: Config, ports: { api: number; gateway: number }): Addresses {
  const domain =
    config.domain?.name ?? reachableHostPort({ ...config.gatewayListen, port: ports.gateway }, config.publicAddress);
  return {
    apiUrl:
      config.apiUrl ??
      `${schemeOf(config.apiTls)}://${reachableHostPort({ ...config.listen, port: ports.api }, config.publicAddress)}`,
    gatewayUrl: config.gatewayUrl ?? `${schemeOf(config.gatewayTls)}://${domain}`,
    domain,
    portDomain: config.domain?.isWildcard === true ? domain : null,
  };
}

/** IP address that node ports are published on; engines accept no host name. */
export async function nodePortAddressOf(config: Config): Promise<string> {
  const {
    listen: { host },
  } = config;
  const named = config.nodePortAddress ?? config.loopbackNodePortAddress;
  if (named !== null) return named;
  return host === '*' ? '0.0.0.0' : (await lookup(host)).address;
}

/** Link of `POST /instance/open`, to the port's own host where it has one. */
export function openUrl(
  { gatewayUrl, portDomain }: Addresses,
  { instanceId, port, key }: { instanceId: string; port: number | undefined; key: string },
): string {
  if (port === undefined) return `${gatewayUrl}/open?key=${key}`;
  if (portDomain === null) return `${gatewayUrl}/open?key=${key}&port=${port}`;
  return `${hostOrigin(gatewayUrl, { instanceId, port }, portDomain)}${OPEN_ON_HOSTS}?key=${key}`;
}

const hostOrigin = (gatewayUrl: string, { instanceId, port }: InstancePort, portDomain: string): string =>
  `${new URL(gatewayUrl).protocol}//${port}-${instanceId}.${portDomain}`;

interface InstancePort {
  instanceId: string;
  port: number;
}

/** Gateway URLs of a port; `host` is null in path mode. */
export const portUrls = (
  { gatewayUrl, portDomain }: Addresses,
  at: InstancePort,
): { path: string; host: string | null } => ({
  path: `${gatewayUrl}/forward/${at.instanceId}/${at.port}/`,
  host: portDomain === null ? null : `${hostOrigin(gatewayUrl, at, portDomain)}/`,
});

/** Link of `POST /instance/port/share`, to the port's own host where it has one. */
export function shareUrl(addresses: Addresses, { token, ...at }: InstancePort & { token: string }): string {
  const { path, host } = portUrls(addresses, at);
  return `${host ?? path}?${SHARE_PARAMETER}=${token}`;
}

/** Public suffixes below country domains; browsers accept no cookie for them. */
const PUBLIC_SECOND_LEVELS = new Set(['ac', 'co', 'com', 'edu', 'gov', 'net', 'org']);

/**
 * Domain shared by the API and the hosts of ports, or null. A page on a port's host can set cookies
 * for a shared domain, and browsers send these to the API. Approximates the public suffix list.
 */
export function sharedParent({ apiUrl, portDomain }: Pick<Addresses, 'apiUrl' | 'portDomain'>): string | null {
  if (portDomain === null) return null;
  const api = new URL(apiUrl).hostname;
  const ports = new URL(`http://${portDomain}`).hostname;
  if (isIP(api.replace(/^\[|\]$/g, '')) !== 0) return null;
  const [ofApi, ofPorts] = [api, ports].map((name) => name.split('.').toReversed());
  const shared: string[] = [];
  for (const [at, label] of (ofApi ?? []).entries()) {
    if (label !== ofPorts?.[at]) break;
    shared.unshift(label);
  }
  const [second = '', top = ''] = shared;
  const isNobodys = shared.length < 2 || (shared.length === 2 && top.length === 2 && PUBLIC_SECOND_LEVELS.has(second));
  return isNobodys ? null : shared.join('.');
}
