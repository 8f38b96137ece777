/** Everything settable, read from the environment once, checked, and shown with secrets masked. `docs/operations.md` has the table. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';

const ANY = ['0.0.0.0', '::', '*'];

/** Listens on every address of the host. */
export const isAny = (host: string): boolean => ANY.includes(host);

export interface Address {
  host: string;
  port: number;
}

const address = z.string().transform((text, ctx): Address => {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65535) {
    ctx.addIssue({ code: 'custom', message: 'must be host:port, for example 127.0.0.1:8080' });
    return z.NEVER;
  }
  return { host: match[1] ?? match[2] ?? '', port };
});

const portRange = z.string().transform((text, ctx) => {
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text);
  const [first, last] = [Number(match?.[1]), Number(match?.[2])];
  if (!match || first < 1 || last > 65535 || first > last) {
    ctx.addIssue({ code: 'custom', message: 'must be first-last within 1-65535, for example 30000-32767' });
    return z.NEVER;
  }
  return { first, last };
});

const url = z
  .url({ protocol: /^https?$/, error: 'must be an http or https URL without a path' })
  .transform((text) => new URL(text).origin);

const isRoot = process.getuid?.() === 0;

const schema = z.object({
  BERTH_DATA: z
    .string()
    .min(1)
    .default(isRoot ? '/var/lib/berth' : join(homedir(), '.local/share/berth'))
    .transform((path) => resolve(path)),
  BERTH_LISTEN: address.prefault('127.0.0.1:8080'),
  BERTH_GATEWAY_LISTEN: address.prefault('127.0.0.1:8081'),
  BERTH_PUBLIC_ADDRESS: z.string().min(1).optional(),
  BERTH_DOMAIN: z.string().min(1).optional(),
  BERTH_GATEWAY_URL: url.optional(),
  BERTH_API_URL: url.optional(),
  BERTH_TRUSTED_PROXIES: z
    .string()
    .transform((text) => text.split(',').map((part) => part.trim()))
    .pipe(
      z.array(
        z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], {
          error: 'must be IP addresses or CIDR ranges, separated by commas',
        }),
      ),
    )
    .optional(),
  BERTH_ENGINE: z.enum(['docker', 'simulated']).default('docker'),
  BERTH_DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, { error: 'must begin with postgres:// (leave it out for SQLite)' })
    .optional(),
  BERTH_ADMIN_PASSWORD: z.string().min(8, { error: 'must have at least 8 characters' }).optional(),
  BERTH_NODE_PORT_ADDRESS: z.union([z.ipv4(), z.ipv6()], { error: 'must be an IP address of this machine' }).optional(),
  BERTH_NODE_PORTS: portRange.prefault('30000-32767'),
  BERTH_CPU_OVERCOMMIT: z.coerce.number().min(1).max(100).default(2),
  BERTH_COMMON_DATA: z.string().min(1).optional(),
  BERTH_REGISTRY_IMAGES: z.enum(['auto', 'off']).default('auto'),
  BERTH_LOG: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  DOCKER_HOST: z.string().min(1).optional(),
});

export interface Config {
  dataFolder: string;
  listen: Address;
  gatewayListen: Address;
  publicAddress: string;
  /** Host (and port) of the gateway, as `regionInfo.domain` says it; null: the gateway's own address once it listens. */
  domain: string | null;
  gatewayUrl: string | null;
  apiUrl: string | null;
  /** Addresses whose word about the client's own address is believed. */
  trustedProxies: string[];
  engine: 'docker' | 'simulated';
  databaseUrl: string | null;
  adminPassword: string | null;
  /** Where node ports are published and reached; null: where the API listens, and by its public address. */
  nodePortAddress: string | null;
  nodePorts: { first: number; last: number };
  cpuOvercommit: number;
  /** Data sets of the operator, read-only for all who ask. */
  commonDataFolder: string;
  registryImages: boolean;
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  dockerHost: string | null;
}

/** Throws an Error whose message names each variable that is wrong, and what would be right. */
export function readConfig(env: Record<string, string | undefined>): Config {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const read = schema.safeParse(set);
  if (!read.success) {
    const lines = read.error.issues.map(({ path, message }) => `  ${path.join('.')}: ${message}`);
    throw new Error(`The configuration is wrong:\n${lines.join('\n')}`);
  }
  const { data } = read;
  if (isAny(data.BERTH_LISTEN.host) && data.BERTH_PUBLIC_ADDRESS === undefined) {
    const why = `BERTH_LISTEN is ${data.BERTH_LISTEN.host}, which is no address that others could be told`;
    throw new Error(`The configuration is wrong:\n  BERTH_PUBLIC_ADDRESS: must be set, since ${why}`);
  }
  return {
    dataFolder: data.BERTH_DATA,
    listen: data.BERTH_LISTEN,
    gatewayListen: data.BERTH_GATEWAY_LISTEN,
    publicAddress: data.BERTH_PUBLIC_ADDRESS ?? data.BERTH_LISTEN.host,
    domain: data.BERTH_DOMAIN ?? null,
    gatewayUrl: data.BERTH_GATEWAY_URL ?? null,
    apiUrl: data.BERTH_API_URL ?? null,
    trustedProxies: data.BERTH_TRUSTED_PROXIES ?? [],
    engine: data.BERTH_ENGINE,
    databaseUrl: data.BERTH_DATABASE_URL ?? null,
    adminPassword: data.BERTH_ADMIN_PASSWORD ?? null,
    nodePortAddress: data.BERTH_NODE_PORT_ADDRESS ?? null,
    nodePorts: data.BERTH_NODE_PORTS,
    cpuOvercommit: data.BERTH_CPU_OVERCOMMIT,
    commonDataFolder: resolve(data.BERTH_COMMON_DATA ?? join(data.BERTH_DATA, 'common')),
    registryImages: data.BERTH_REGISTRY_IMAGES === 'auto',
    logLevel: data.BERTH_LOG,
    dockerHost: data.DOCKER_HOST ?? null,
  };
}

/** The configuration as it may be printed. */
export const masked = (config: Config): Record<string, unknown> => ({
  ...config,
  adminPassword: config.adminPassword === null ? null : '***',
  databaseUrl: config.databaseUrl === null ? null : maskedUrl(config.databaseUrl),
});

/** Without password and without parameters, which may hold one as well. */
function maskedUrl(text: string): string {
  if (!URL.canParse(text)) return '***';
  const url = new URL(text);
  if (url.password !== '') url.password = '***';
  if (url.search !== '') url.search = '?***';
  return url.href;
}

export const hostPort = ({ host, port }: Address): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
