/** Where a server is, as others are told: what it listens on may be "every address", which nobody can go to. */
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
  /** `<port>-<instanceId>` below it is a port's own host; null: ports have none. */
  portDomain: string | null;
}

const reached = ({ host, port }: Address, publicAddress: string): string =>
  hostPort({ host: isAny(host) ? publicAddress : host, port });

const schemeOf = (tls: object | null): string => (tls === null ? 'http' : 'https');

/** What is told of a server that listens on these ports. Pure. */
export function addressesOf(config: Config, ports: { api: number; gateway: number }): Addresses {
  const domain = config.domain?.name ?? reached({ ...config.gatewayListen, port: ports.gateway }, config.publicAddress);
  return {
    apiUrl:
      config.apiUrl ??
      `${schemeOf(config.apiTls)}://${reached({ ...config.listen, port: ports.api }, config.publicAddress)}`,
    gatewayUrl: config.gatewayUrl ?? `${schemeOf(config.gatewayTls)}://${domain}`,
    domain,
    portDomain: config.domain?.isWildcard === true ? domain : null,
  };
}

/** The address of the host on which node ports are published: engines take an IP address alone. */
export async function nodePortAddressOf(config: Config): Promise<string> {
  const {
    listen: { host },
  } = config;
  const named = config.nodePortAddress ?? config.nodePortAddressApart;
  if (named !== null) return named;
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

/** Second-level names that belong to nobody, below the domains of countries: no browser takes a cookie for these. */
const NOBODYS = new Set(['ac', 'co', 'com', 'edu', 'gov', 'net', 'org']);

/**
 * The domain above both the API and the hosts of ports, for which any page on such a host can set cookies that browsers then send to the
 * API; null where there is none, as far as that can be told without the list of public suffixes.
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
  const isNobodys = shared.length < 2 || (shared.length === 2 && top.length === 2 && NOBODYS.has(second));
  return isNobodys ? null : shared.join('.');
}
