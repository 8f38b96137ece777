/** Public addresses of a server. The listen address may be a wildcard, which no client can use. */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { OPEN_ON_HOSTS } from '../edge/gateway/routing.ts';
import { SHARE_PARAMETER } from '../edge/gateway/share-token.ts';
import { PASSWORD_PATH } from '../edge/http/access/password-page.ts';
import { plainName } from '../edge/http/host-header.ts';
import type { OpenLink } from '../control/compute/instances/instances.ts';
import { hostPort, isAny, type Config } from './config.ts';
import type { Address } from './setting-types.ts';

export interface Addresses {
  apiUrl: string;
  gatewayUrl: string;
  /** `regionInfo.domain`. */
  domain: string;
  /** Parent domain of `<port>-<instanceId>` hosts; null in path mode. */
  portDomain: string | null;
}

/** Public addresses of a server that listens on these ports. */
export function addressesOf(config: Config, ports: { api: number; gateway: number }): Addresses {
  const reachable = ({ host }: Address, port: number): string =>
    hostPort({ host: isAny(host) ? config.publicAddress : host, port });
  const schemeOf = (tls: object | null): string => (tls === null ? 'http' : 'https');
  const domain = domainOf(config) ?? reachable(config.gatewayListen, ports.gateway);
  return {
    apiUrl: config.apiUrl ?? `${schemeOf(config.apiTls)}://${reachable(config.listen, ports.api)}`,
    gatewayUrl: config.gatewayUrl ?? `${schemeOf(config.gatewayTls)}://${domain}`,
    domain,
    portDomain: config.domain?.isWildcard === true ? domain : null,
  };
}

/** `BERTH_DOMAIN`, with the port of `BERTH_GATEWAY_URL` if it has none; or that URL's host. */
function domainOf({ domain, gatewayUrl }: Config): string | null {
  const url = gatewayUrl === null ? null : new URL(gatewayUrl);
  if (domain === null) return url?.host ?? null;
  return url === null || url.port === '' || /:\d+$/.test(domain.name) ? domain.name : `${domain.name}:${url.port}`;
}

/**
 * Ports of links that the gateway does not listen on, while no setting names a proxy between. In a
 * cluster Services are between.
 */
export function unservedPorts(
  { gatewayUrl, domain }: Addresses,
  { trustedProxies, engine }: Pick<Config, 'trustedProxies' | 'engine'>,
  gatewayPort: number,
): number[] {
  if (trustedProxies.length > 0 || engine === 'kubernetes') return [];
  const { protocol } = new URL(gatewayUrl);
  const linked = [gatewayUrl, `${protocol}//${domain}`].map((link) => portOfUrl(new URL(link)));
  return [...new Set(linked)].filter((port) => port !== gatewayPort);
}

/** Ports at which the gateway is reached: its own, and the one of its URL. */
export const portsOfGateway = ({
  gatewayListen,
  gatewayUrl,
}: Pick<Config, 'gatewayListen' | 'gatewayUrl'>): number[] => [
  ...new Set([gatewayListen.port, ...(gatewayUrl === null ? [] : [portOfUrl(new URL(gatewayUrl))])]),
];

const portOfUrl = ({ port, protocol }: URL): number =>
  port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);

/** Host names that requests to the API may carry, besides `localhost` and IP addresses. */
export const apiHostsOf = ({ listen, publicAddress, apiUrl, apiHosts }: Config): string[] =>
  [listen.host, publicAddress, hostname(), ...(apiUrl === null ? [] : [new URL(apiUrl).hostname]), ...apiHosts].map(
    plainName,
  );

/** Hosts of the API; origin and path of its URL, if one is configured. */
export function placeOfApi(config: Config): { hosts: string[]; ownOrigins: string[]; prefix: string } {
  const hosts = apiHostsOf(config);
  if (config.apiUrl === null) return { hosts, ownOrigins: [], prefix: '' };
  const { origin, pathname } = new URL(config.apiUrl);
  return { hosts, ownOrigins: [origin], prefix: pathname === '/' ? '' : pathname };
}

/** IP address that node ports are published on; engines accept no host name. */
export async function nodePortAddressOf({ listen, ...config }: Config): Promise<string> {
  const named = config.nodePortAddress ?? config.loopbackNodePortAddress;
  if (named !== null) return named;
  return (await lookup(listen.host)).address;
}

interface InstancePort {
  instanceId: string;
  port: number;
}

/** Gateway URLs of a port; `host` is null in path mode. */
export const portUrls = (
  { gatewayUrl, portDomain }: Addresses,
  { instanceId, port }: { instanceId: string; port: number | string },
): { path: string; host: string | null } => ({
  path: `${gatewayUrl}/forward/${instanceId}/${port}/`,
  host: portDomain === null ? null : `${new URL(gatewayUrl).protocol}//${port}-${instanceId}.${portDomain}/`,
});

/** Link that opens a session; by default to the first page, at the port's own host if any. */
export function openUrl(addresses: Addresses, { instanceId, port, key, back }: OpenLink): string {
  const host = port === undefined ? null : portUrls(addresses, { instanceId, port }).host;
  const to = back === undefined ? '' : `&to=${encodeURIComponent(back.path)}`;
  if (host !== null && back?.onOwnHost !== false) return `${host.slice(0, -1)}${OPEN_ON_HOSTS}?key=${key}${to}`;
  const first = port === undefined ? `/notebook/${instanceId}/` : `/forward/${instanceId}/${port}/`;
  return `${addresses.gatewayUrl}/open?key=${key}${to === '' ? `&to=${encodeURIComponent(first)}` : to}`;
}

/** Link to the page that sets a password. */
export const passwordUrl = ({ apiUrl }: Pick<Addresses, 'apiUrl'>, token: string): string =>
  `${apiUrl}${PASSWORD_PATH}?token=${token}`;

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
