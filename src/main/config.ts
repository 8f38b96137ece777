/**
 * Settings: read from the environment once, validated, printable with secrets masked. Table:
 * `docs/reference/settings.md`.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import type { DiskId, PoolName } from '../domain/disk.ts';
import { parseImageRef } from '../domain/image-ref.ts';
import type { OrphanPolicy } from '../domain/orphan.ts';
import { lostDisks } from './lost-disks.ts';
import { poolConfig, type PoolConfig } from './pool-config.ts';

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

const MAX_SHARED_GB = 100_000;
const YEAR_HOURS = 366 * 24;
const wholeUpTo = (max: number) =>
  z.coerce
    .number({ error: `must be a whole number from 1 to ${max}` })
    .int()
    .min(1)
    .max(max);

const MAX_CONCURRENT = 1_000_000;
const DAY_SECONDS = 86_400;
/** 0 disables the limit. */
const idleSeconds = z.coerce
  .number({ error: `must be a whole number from 0 (no limit) to ${DAY_SECONDS}` })
  .int()
  .min(0)
  .max(DAY_SECONDS);

const gatewayDomain = z.string().transform((text, ctx) => {
  const isWildcard = text.startsWith('*.');
  const name = (isWildcard ? text.slice(2) : text).toLowerCase();
  if (/^[a-z0-9.\-[\]:]+$/.test(name)) return { name, isWildcard };
  const message = 'must be the host name of the gateway, such as gpu.example.org, or *.gpu.example.org';
  ctx.addIssue({ code: 'custom', message });
  return z.NEVER;
});

/** Requires a path: the root of a registry is rarely private. */
const archiveRegistry = z.string().transform((text, ctx) => {
  const read = parseImageRef(`${text}/archive`);
  const [first = '', ...path] = text.split('/');
  if (typeof read !== 'string' && /[.:]|^localhost$/.test(first) && path.length > 0 && !/[@\s]/.test(text)) return text;
  ctx.addIssue({ code: 'custom', message: 'must be host[:port]/path, for example registry.example.org/berth' });
  return z.NEVER;
});

const ABSOLUTE = 'must be the absolute path of a PEM file';

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
  BERTH_DOMAIN: gatewayDomain.optional(),
  BERTH_GATEWAY_TLS_CERT: z.string().startsWith('/', { error: ABSOLUTE }).optional(),
  BERTH_GATEWAY_TLS_KEY: z.string().startsWith('/', { error: ABSOLUTE }).optional(),
  BERTH_API_TLS_CERT: z.string().startsWith('/', { error: ABSOLUTE }).optional(),
  BERTH_API_TLS_KEY: z.string().startsWith('/', { error: ABSOLUTE }).optional(),
  BERTH_GATEWAY_CLIENT_IDLE_SECONDS: idleSeconds.default(600),
  BERTH_GATEWAY_INSTANCE_IDLE_SECONDS: idleSeconds.default(0),
  BERTH_GATEWAY_WEBSOCKET_IDLE_SECONDS: idleSeconds.default(0),
  BERTH_GATEWAY_PORT_REQUESTS: wholeUpTo(MAX_CONCURRENT).default(1_024),
  BERTH_GATEWAY_INSTANCE_REQUESTS: wholeUpTo(MAX_CONCURRENT).default(4_096),
  BERTH_GATEWAY_CONNECTIONS: wholeUpTo(MAX_CONCURRENT).default(20_000),
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
  BERTH_ROLE: z.enum(['all', 'api', 'gateway']).default('all'),
  BERTH_ENGINE: z.enum(['docker', 'simulated']).default('docker'),
  BERTH_DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, { error: 'must begin with postgres:// (leave it out for SQLite)' })
    .optional(),
  BERTH_ADMIN_PASSWORD: z.string().min(8, { error: 'must have at least 8 characters' }).optional(),
  BERTH_NODE_PORT_ADDRESS: z.union([z.ipv4(), z.ipv6()], { error: 'must be an IP address of this machine' }).optional(),
  BERTH_NODE_PORTS: portRange.prefault('30000-32767'),
  BERTH_CPU_OVERCOMMIT: z.coerce.number().min(1).max(100).default(2),
  BERTH_MAX_RUN_HOURS: wholeUpTo(YEAR_HOURS).optional(),
  BERTH_IDLE_STOP_MINUTES: wholeUpTo(YEAR_HOURS * 60).optional(),
  BERTH_POOL: poolConfig.optional(),
  BERTH_POOL_FILESYSTEM: poolConfig.optional(),
  BERTH_POOL_HIGHSPEEDSTORAGE: poolConfig.optional(),
  BERTH_SHARED_DISK_GB: wholeUpTo(MAX_SHARED_GB).optional(),
  BERTH_LOST_DISKS: lostDisks.optional(),
  BERTH_COMMON_DATA: z.string().min(1).optional(),
  BERTH_DOCKER_INSIDE: z.enum(['rootless', 'nested', 'off']).default('rootless'),
  BERTH_REGISTRY_IMAGES: z.enum(['auto', 'off']).default('auto'),
  BERTH_LOCAL_REGISTRIES: z.enum(['allow', 'refuse']).default('refuse'),
  BERTH_EVENTS_DAYS: z.coerce.number().min(1).max(3_650).default(30),
  BERTH_STRAYS: z.enum(['report', 'stop', 'delete']).default('stop'),
  BERTH_STRAY_HOURS: z.coerce.number().min(0).max(87_600).default(24),
  BERTH_ARCHIVE_REGISTRY: archiveRegistry.optional(),
  BERTH_ARCHIVE_REGISTRY_USERNAME: z.string().min(1).optional(),
  BERTH_ARCHIVE_REGISTRY_PASSWORD: z.string().min(1).optional(),
  BERTH_LOG: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  DOCKER_HOST: z.string().min(1).optional(),
});

export interface Config {
  dataFolder: string;
  listen: Address;
  gatewayListen: Address;
  publicAddress: string;
  /**
   * Host and port for `regionInfo.domain`; null: the gateway's listen address. `isWildcard`: each
   * port has a host of its own below the name.
   */
  domain: { name: string; isWildcard: boolean } | null;
  gatewayUrl: string | null;
  /** PEM files; null: plain HTTP. */
  gatewayTls: { cert: string; key: string } | null;
  /** Concurrency limits and idle timeouts of the gateway; a timeout of 0 is disabled. */
  gatewayLimits: {
    clientIdleMs: number;
    instanceIdleMs: number;
    tunnelIdleMs: number;
    perPort: number;
    perInstance: number;
    connections: number;
  };
  apiUrl: string | null;
  apiTls: { cert: string; key: string } | null;
  /** IP addresses and CIDR ranges whose `X-Forwarded-*` headers count. */
  trustedProxies: string[];
  /** `api` and `gateway` processes find each other in the data folder. */
  role: 'all' | 'api' | 'gateway';
  engine: 'docker' | 'simulated';
  databaseUrl: string | null;
  adminPassword: string | null;
  /** IP address of node ports; null: the API's. */
  nodePortAddress: string | null;
  /** Default for node ports while the API is on loopback (decision 31); else null. */
  loopbackNodePortAddress: string | null;
  nodePorts: { first: number; last: number };
  cpuOvercommit: number;
  /** Longest run of an instance; null: unlimited. */
  maxRunMs: number | null;
  /** Idle stop of new instances; null: none. */
  idleStopMs: number | null;
  pools: Record<PoolName, PoolConfig | null>;
  /** Size of shared folders; null: the size of data disks. */
  sharedDiskGB: number | null;
  /** Disks to replace by empty ones if they are gone. */
  lostDisks: readonly DiskId[];
  /** Read-only data sets for all instances that ask for them. */
  commonDataFolder: string;
  /** Docker inside instances (`docs/security.md`); null: off. */
  dockerInside: 'rootless' | 'nested' | null;
  registryImages: boolean;
  /** Whether accounts may use registries at loopback addresses of the engine's host. */
  localRegistries: boolean;
  eventRetentionMs: number;
  orphans: OrphanPolicy;
  /** Registry for archived and saved root disks; null: the engine's store. */
  archiveRegistry: { prefix: string; username: string; secret: string } | null;
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  dockerHost: string | null;
}

/** Throws an Error that names each wrong variable and its valid values. */
export function readConfig(env: Record<string, string | undefined>): Config {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const read = schema.safeParse(set);
  if (!read.success) {
    const lines = read.error.issues.map(({ path, message }) => `  ${path.join('.')}: ${message}`);
    throw new Error(`The configuration is wrong:\n${lines.join('\n')}`);
  }
  const { data } = read;
  if (data.BERTH_ROLE !== 'all' && data.BERTH_ENGINE === 'simulated') {
    const reason =
      'the simulated engine lives in the process of the API, and no other process reaches it: leave BERTH_ROLE out';
    throw new Error(`The configuration is wrong:\n  BERTH_ROLE: ${reason}`);
  }
  if (isAny(data.BERTH_LISTEN.host) && data.BERTH_PUBLIC_ADDRESS === undefined) {
    const reason = `BERTH_LISTEN is ${data.BERTH_LISTEN.host}, an address that clients cannot connect to`;
    throw new Error(`The configuration is wrong:\n  BERTH_PUBLIC_ADDRESS: must be set, since ${reason}`);
  }
  return {
    dataFolder: data.BERTH_DATA,
    listen: data.BERTH_LISTEN,
    gatewayListen: data.BERTH_GATEWAY_LISTEN,
    publicAddress: data.BERTH_PUBLIC_ADDRESS ?? data.BERTH_LISTEN.host,
    domain: data.BERTH_DOMAIN ?? null,
    gatewayUrl: data.BERTH_GATEWAY_URL ?? null,
    gatewayTls: tlsOf('BERTH_GATEWAY_TLS', data.BERTH_GATEWAY_TLS_CERT, data.BERTH_GATEWAY_TLS_KEY),
    gatewayLimits: {
      clientIdleMs: data.BERTH_GATEWAY_CLIENT_IDLE_SECONDS * 1_000,
      instanceIdleMs: data.BERTH_GATEWAY_INSTANCE_IDLE_SECONDS * 1_000,
      tunnelIdleMs: data.BERTH_GATEWAY_WEBSOCKET_IDLE_SECONDS * 1_000,
      perPort: data.BERTH_GATEWAY_PORT_REQUESTS,
      perInstance: data.BERTH_GATEWAY_INSTANCE_REQUESTS,
      connections: data.BERTH_GATEWAY_CONNECTIONS,
    },
    apiUrl: data.BERTH_API_URL ?? null,
    apiTls: tlsOf('BERTH_API_TLS', data.BERTH_API_TLS_CERT, data.BERTH_API_TLS_KEY),
    trustedProxies: data.BERTH_TRUSTED_PROXIES ?? [],
    role: data.BERTH_ROLE,
    engine: data.BERTH_ENGINE,
    databaseUrl: data.BERTH_DATABASE_URL ?? null,
    adminPassword: data.BERTH_ADMIN_PASSWORD ?? null,
    nodePortAddress: data.BERTH_NODE_PORT_ADDRESS ?? null,
    loopbackNodePortAddress: loopbackNodePortAddressOf(data),
    nodePorts: data.BERTH_NODE_PORTS,
    cpuOvercommit: data.BERTH_CPU_OVERCOMMIT,
    maxRunMs: data.BERTH_MAX_RUN_HOURS === undefined ? null : data.BERTH_MAX_RUN_HOURS * 3_600_000,
    idleStopMs: data.BERTH_IDLE_STOP_MINUTES === undefined ? null : data.BERTH_IDLE_STOP_MINUTES * 60_000,
    pools: {
      default: data.BERTH_POOL ?? null,
      filesystem: data.BERTH_POOL_FILESYSTEM ?? null,
      highspeedstorage: data.BERTH_POOL_HIGHSPEEDSTORAGE ?? null,
    },
    sharedDiskGB: data.BERTH_SHARED_DISK_GB ?? null,
    lostDisks: data.BERTH_LOST_DISKS ?? [],
    commonDataFolder: resolve(data.BERTH_COMMON_DATA ?? join(data.BERTH_DATA, 'common')),
    dockerInside: data.BERTH_DOCKER_INSIDE === 'off' ? null : data.BERTH_DOCKER_INSIDE,
    registryImages: data.BERTH_REGISTRY_IMAGES === 'auto',
    localRegistries: data.BERTH_LOCAL_REGISTRIES === 'allow',
    eventRetentionMs: data.BERTH_EVENTS_DAYS * 24 * 3_600_000,
    orphans: { action: data.BERTH_STRAYS, retentionMs: data.BERTH_STRAY_HOURS * 3_600_000 },
    archiveRegistry: archiveRegistryOf(data),
    logLevel: data.BERTH_LOG,
    dockerHost: data.DOCKER_HOST ?? null,
  };
}

/**
 * Browsers send a host's cookies to all of its ports. A second loopback address keeps the login of
 * the API from pages on node ports. Only Linux routes all of 127.0.0.0/8 to loopback.
 */
const loopbackNodePortAddressOf = ({ BERTH_LISTEN, BERTH_PUBLIC_ADDRESS }: z.output<typeof schema>): string | null =>
  process.platform === 'linux' &&
  BERTH_PUBLIC_ADDRESS === undefined &&
  ['127.0.0.1', 'localhost'].includes(BERTH_LISTEN.host)
    ? '127.0.0.2'
    : null;

function tlsOf(name: string, cert: string | undefined, key: string | undefined): { cert: string; key: string } | null {
  if (cert !== undefined && key !== undefined) return { cert, key };
  if (cert === undefined && key === undefined) return null;
  const [lacks, has] = cert === undefined ? ['CERT', 'KEY'] : ['KEY', 'CERT'];
  throw new Error(`The configuration is wrong:\n  ${name}_${lacks}: must be set too, together with ${name}_${has}`);
}

function archiveRegistryOf(data: z.output<typeof schema>): Config['archiveRegistry'] {
  const { BERTH_ARCHIVE_REGISTRY: prefix, BERTH_ARCHIVE_REGISTRY_USERNAME: username = '' } = data;
  const { BERTH_ARCHIVE_REGISTRY_PASSWORD: secret = '' } = data;
  const wrong = (name: string, reason: string): Error => new Error(`The configuration is wrong:\n  ${name}: ${reason}`);
  if ((username === '') !== (secret === '')) {
    const [lacks, has] = username === '' ? ['USERNAME', 'PASSWORD'] : ['PASSWORD', 'USERNAME'];
    throw wrong(`BERTH_ARCHIVE_REGISTRY_${lacks}`, `must be set too, together with BERTH_ARCHIVE_REGISTRY_${has}`);
  }
  if (prefix === undefined && username !== '')
    throw wrong('BERTH_ARCHIVE_REGISTRY', 'must be set, since a user name and a password for it are');
  return prefix === undefined ? null : { prefix, username, secret };
}

/** The configuration without secrets. */
export const masked = (config: Config): Record<string, unknown> => ({
  ...config,
  adminPassword: config.adminPassword === null ? null : '***',
  databaseUrl: config.databaseUrl === null ? null : maskedUrl(config.databaseUrl),
  archiveRegistry: config.archiveRegistry && { ...config.archiveRegistry, secret: '***' },
});

/** Masks the password and the query, which may hold a password too. */
function maskedUrl(text: string): string {
  if (!URL.canParse(text)) return '***';
  const url = new URL(text);
  if (url.password !== '') url.password = '***';
  if (url.search !== '') url.search = '?***';
  return url.href;
}

export const hostPort = ({ host, port }: Address): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
