/**
 * Settings: read from the environment once, validated, printable with secrets masked. Table:
 * `docs/reference/settings.md`.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { isInRanges } from '../domain/access/address-range.ts';
import { engineKinds } from '../domain/regions/catalog.ts';
import { DELETION_GRACE_DAYS, FIRST_CREDIT } from '../domain/access/account-state.ts';
import { roles } from '../domain/access/roles.ts';
import { parseImageRef } from '../domain/regions/image-ref.ts';
import { stripeModes } from '../domain/money/stripe-mode.ts';
import { orphanPolicies } from '../domain/compute/orphan.ts';
import type { GpuTurns } from '../engines/docker/client/host-gpus.ts';
import type { DiskRate } from '../engines/docker/host/isolation.ts';
import { lostDisks, poolConfig } from './disk-config.ts';
import { linkOf, linkSettings } from './link-config.ts';
import { moneyRulesOf, moneySettings } from './money-config.ts';
import { hostName, list, listenAddress, text, type Address } from './setting-types.ts';
import { signOnOf, signOnSettings } from './sign-on-config.ts';
import { unknownSettings } from './unknown-settings.ts';

/** Equals the version of `package.json`. */
export const VERSION = '0.1.0';

const ANY = ['0.0.0.0', '::'];

/** Listens on every address of the host. */
export const isAny = (host: string): boolean => ANY.includes(host);

export const hostPort = ({ host, port }: Address): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;

const portRange = text((given) => {
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(given);
  const [first, last] = [Number(match?.[1]), Number(match?.[2])];
  return first >= 1 && first <= last && last <= 65535 ? { first, last } : null;
}, 'must be first-last within 1-65535, for example 30000-32767');

const originOf = (message: string) =>
  text((given) => {
    const url = URL.parse(given);
    const isOrigin = url !== null && /^https?:$/.test(url.protocol) && url.pathname + url.search + url.hash === '/';
    return isOrigin ? url.origin : null;
  }, message);
const origin = originOf('must be an http or https URL without a path');

const withoutLogin = ({ username, password }: URL): boolean => username + password === '';

/** A proxy may put the API and the console below a path; `mountPrefix` refuses Berth's own. */
const apiAddress = text((given) => {
  const url = /\/\.{1,2}(?:\/|$)/.test(given) ? null : URL.parse(given.replace(/\/+$/, ''));
  if (url === null || !/^https?:$/.test(url.protocol) || url.search + url.hash !== '') return null;
  const path = url.pathname === '/' ? '' : url.pathname;
  return withoutLogin(url) && /^(?:\/[\w.~-]+)*$/.test(path) ? url.origin + path : null;
}, 'must be an http or https URL without a login, whose path, if any, has letters, digits and -._~ alone, such as https://example.org/berth');

const MAX_SHARED_GB = 100_000;
const YEAR_HOURS = 366 * 24;
const MAX_CONCURRENT = 1_000_000;
const DAY_SECONDS = 86_400;

const whole = (min: number, max: number, bounds = `${min} to ${max}`) =>
  z.coerce
    .number({ error: `must be a whole number from ${bounds}` })
    .int()
    .min(min)
    .max(max);
const hoursOrNull = (hours: number | undefined): number | null => (hours === undefined ? null : hours * 3_600_000);
const wholeUpTo = (max: number) => whole(1, max);
const idleSeconds = whole(0, DAY_SECONDS, `0 (no limit) to ${DAY_SECONDS}`);

const MAX_DOLLARS = 1_000_000_000;
const dollars = z.coerce
  .number({ error: `must be dollars from 0 to ${MAX_DOLLARS}` })
  .min(0)
  .max(MAX_DOLLARS);

const gatewayDomain = text((given) => {
  const isWildcard = given.startsWith('*.');
  const name = (isWildcard ? given.slice(2) : given).toLowerCase();
  return /^[a-z0-9.\-[\]:]+$/.test(name) ? { name, isWildcard } : null;
}, 'must be the host name of the gateway, such as gpu.example.org, or *.gpu.example.org');

/** Requires a path: the root of a registry is rarely private. */
const archiveRegistry = text((given) => {
  const [first = '', ...path] = given.split('/');
  const isPrefix = /[.:]|^localhost$/.test(first) && path.length > 0 && !/[@\s]/.test(given);
  return isPrefix && typeof parseImageRef(`${given}/archive`) !== 'string' ? given : null;
}, 'must be host[:port]/path, for example registry.example.org/berth');

const runtimesByType = text((given): Record<string, string> | null => {
  const pairs = given.split(',').map((part) => /^([\w.-]+)=([\w.-]+)$/.exec(part.trim()));
  const runtimes = Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? '', pair?.[2] ?? '']));
  return pairs.includes(null) || Object.keys(runtimes).length < pairs.length ? null : runtimes;
}, 'must look like cpu.1=runsc,gpu.1=kata: instance types with their container runtime, each type once');

const diskRates = text((given): DiskRate[] | null => {
  const pairs = given.split(',').map((part) => /^(\/dev\/[\w./-]+)=([1-9]\d{0,5})$/.exec(part.trim()));
  const rates = pairs.map((pair) => ({ device: pair?.[1] ?? '', bytesPerSecond: Number(pair?.[2]) * 1_000_000 }));
  return pairs.includes(null) || new Set(rates.map(({ device }) => device)).size < pairs.length ? null : rates;
}, 'must look like /dev/sda=200,/dev/nvme0n1=500: whole block devices with MB a second, each once');

const gpuTurns = text((given): GpuTurns | null => {
  const pairs = given.split(',').map((part) => /^(\d+|GPU-[0-9a-f-]+)=([2-9]|[1-4]\d)$/.exec(part.trim()));
  const turns = Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? '', Number(pair?.[2])]));
  return pairs.includes(null) || Object.keys(turns).length < pairs.length ? null : turns;
}, 'must look like 0=4,GPU-8f2a…=2: cards by index or UUID with 2 to 49 turns, each card once');

/** An http or https URL without a query; `parse` sees it and returns null to refuse. */
const urlLike = (isRight: (parsed: URL) => boolean, message: string) =>
  text((given) => {
    const parsed = /\s|'/.test(given) ? null : URL.parse(given);
    return parsed && /^https?:$/.test(parsed.protocol) && parsed.search + parsed.hash === '' && isRight(parsed)
      ? given.replace(/\/+$/, '')
      : null;
  }, message);

const proxyUrl = urlLike(
  ({ protocol, pathname, port }) => protocol === 'http:' && pathname === '/' && port !== '',
  'must be the http URL of a proxy with its port, for example http://proxy.example.org:3128',
);
const pemFile = z.string().startsWith('/', { error: 'must be the absolute path of a PEM file' }).optional();

const isRoot = process.getuid?.() === 0;

const schema = z.object({
  BERTH_DATA: z
    .string()
    .min(1)
    .default(isRoot ? '/var/lib/berth' : join(homedir(), '.local/share/berth'))
    .transform((path) => resolve(path)),
  BERTH_LISTEN: listenAddress.prefault('127.0.0.1:8080'),
  BERTH_GATEWAY_LISTEN: listenAddress.prefault('127.0.0.1:8081'),
  BERTH_PUBLIC_ADDRESS: z.string().min(1).optional(),
  BERTH_DOMAIN: gatewayDomain.optional(),
  BERTH_GATEWAY_TLS_CERT: pemFile,
  BERTH_GATEWAY_TLS_KEY: pemFile,
  BERTH_API_TLS_CERT: pemFile,
  BERTH_API_TLS_KEY: pemFile,
  BERTH_GATEWAY_CLIENT_IDLE_SECONDS: idleSeconds.default(600),
  BERTH_GATEWAY_INSTANCE_IDLE_SECONDS: idleSeconds.default(0),
  BERTH_GATEWAY_WEBSOCKET_IDLE_SECONDS: idleSeconds.default(0),
  BERTH_GATEWAY_PORT_REQUESTS: wholeUpTo(MAX_CONCURRENT).default(1_024),
  BERTH_GATEWAY_INSTANCE_REQUESTS: wholeUpTo(MAX_CONCURRENT).default(4_096),
  BERTH_GATEWAY_CONNECTIONS: wholeUpTo(MAX_CONCURRENT).default(20_000),
  BERTH_GATEWAY_URL: originOf(
    'must be an http or https URL without a path, because programs make addresses of instances from "domain" and "subUrl": give the gateway a host name or port of its own',
  ).optional(),
  BERTH_API_URL: apiAddress.optional(),
  BERTH_API_HOSTS: list(hostName).optional(),
  BERTH_CORS_ORIGINS: list(origin).optional(),
  BERTH_REQUESTS_PER_SECOND: wholeUpTo(MAX_CONCURRENT).default(500),
  BERTH_ADDRESS_REQUESTS_PER_SECOND: wholeUpTo(MAX_CONCURRENT).default(2_000),
  BERTH_HSTS: z.enum(['on', 'off']).default('on'),
  BERTH_TRUSTED_PROXIES: list(
    z
      .union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], {
        error: 'must be IP addresses or CIDR ranges, separated by commas',
      })
      .refine((range) => !isInRanges([range], '0.0.0.0/0') && !isInRanges([range], '::/0'), {
        error: 'must not be all addresses, because every client could then claim another; name the proxies',
      }),
  ).optional(),
  BERTH_ROLE: z.enum(['all', 'api', 'gateway']).default('all'),
  ...linkSettings,
  BERTH_ENGINE: z.enum(engineKinds).default('docker'),
  BERTH_REGION_FILE: z.string().startsWith('/', { error: 'must be an absolute path' }).optional(),
  BERTH_DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, { error: 'must begin with postgres://; leave the setting out for SQLite' })
    .optional(),
  BERTH_LOST_SECRETS_KEY: z
    .string()
    .regex(/^[0-9a-f]{8}$/, { error: 'must be the id of the lost key, which the failed start printed' })
    .optional(),
  BERTH_ADMIN_PASSWORD: z.string().min(8, { error: 'must have at least 8 characters' }).optional(),
  BERTH_FIRST_CREDIT: dollars.default(FIRST_CREDIT),
  ...moneySettings,
  BERTH_ACCOUNT_DELETE_DAYS: whole(0, 365).default(DELETION_GRACE_DAYS),
  BERTH_REGISTRATION: z.enum(['open', 'off']).default('off'),
  BERTH_REGISTRATION_CREDIT: dollars.default(0),
  BERTH_SECOND_FACTOR_ROLE: z.enum(roles).optional(),
  BERTH_NODE_PORT_ADDRESS: z.union([z.ipv4(), z.ipv6()], { error: 'must be an IP address of this machine' }).optional(),
  BERTH_NODE_PORTS: portRange.prefault('30000-32767'),
  BERTH_CPU_OVERCOMMIT: z.coerce.number().min(1).max(100).default(2),
  BERTH_DISK_OVERCOMMIT: z.coerce.number().min(1).max(1_000).default(100),
  BERTH_DISK_RESERVE_PERCENT: z.coerce.number().min(0.1).max(90).optional(),
  BERTH_ACCOUNT_POOL_PERCENT: z.coerce.number().min(1).max(100).default(80),
  BERTH_MAX_RUN_HOURS: wholeUpTo(YEAR_HOURS).optional(),
  BERTH_SPOT_GRACE_SECONDS: z.coerce.number().min(0).max(540).default(120),
  BERTH_SAVE_ROOT_DISK_HOURS: wholeUpTo(YEAR_HOURS).optional(),
  BERTH_IDLE_STOP_MINUTES: wholeUpTo(YEAR_HOURS * 60).optional(),
  BERTH_POOL: poolConfig.optional(),
  BERTH_POOL_FILESYSTEM: poolConfig.optional(),
  BERTH_POOL_HIGHSPEEDSTORAGE: poolConfig.optional(),
  BERTH_SHARED_DISK_GB: wholeUpTo(MAX_SHARED_GB).optional(),
  BERTH_LOST_DISKS: lostDisks.optional(),
  BERTH_COMMON_DATA: z.string().min(1).optional(),
  BERTH_DOCKER_INSIDE: z.enum(['rootless', 'nested', 'off']).default('rootless'),
  BERTH_LINK_LOCAL: z.enum(['closed', 'open']).default('closed'),
  BERTH_KERNEL_LIMITS: z.enum(['raise', 'check']).default('raise'),
  BERTH_DISK_RATES: diskRates.optional(),
  BERTH_INSTANCE_CA: pemFile,
  BERTH_INSTANCE_PROXY: proxyUrl.optional(),
  BERTH_INSTANCE_NO_PROXY: list(
    z.string().regex(/^[*.\w:/[\]-]+$/, {
      error: 'must be hosts, domains and networks, separated by commas, for example git.example.org,.intern,10.0.0.0/8',
    }),
  ).optional(),
  BERTH_INSTANCE_PIP_INDEX: urlLike(
    () => true,
    'must be the URL of a Python package index, for example https://pypi.example.org/simple',
  ).optional(),
  BERTH_INSTANCE_APT_MIRROR: urlLike(
    withoutLogin,
    'must be the URL above debian, debian-security and ubuntu, for example http://mirror.example.org',
  ).optional(),
  BERTH_INSTANCE_DNS: list(
    z.union([z.ipv4(), z.ipv6()], {
      error: 'must be IP addresses of name servers, separated by commas, for example 10.0.0.53,10.0.1.53',
    }),
  ).optional(),
  BERTH_GPU_RESERVE: z.enum(['on', 'off']).default('on'),
  BERTH_GPU_TURNS: gpuTurns.optional(),
  BERTH_GPU_TURNS_AMONG: z.enum(['account', 'all']).default('account'),
  BERTH_CPUSETS: z.enum(['on', 'off']).default('on'),
  BERTH_LXCFS: z.enum(['auto', 'off']).default('auto'),
  BERTH_SUDO: z.enum(['on', 'off']).default('off'),
  BERTH_USER_NAMESPACES: z.enum(['on', 'off']).default('off'),
  BERTH_RUNTIMES: runtimesByType.optional(),
  BERTH_REGISTRY_IMAGES: z.enum(['auto', 'off']).default('auto'),
  BERTH_LOCAL_REGISTRIES: z.enum(['allow', 'refuse']).default('refuse'),
  BERTH_EVENTS_DAYS: z.coerce.number().min(1).max(3_650).default(30),
  BERTH_WEBHOOK_ADDRESSES: z.enum(['public', 'any']).default('public'),
  BERTH_AUDIT_DAYS: z.coerce.number().min(1).max(36_500).default(365),
  BERTH_STRAYS: z.enum(orphanPolicies).default('stop'),
  BERTH_STRAY_HOURS: z.coerce.number().min(0).max(87_600).default(24),
  BERTH_ARCHIVE_REGISTRY: archiveRegistry.optional(),
  BERTH_ARCHIVE_REGISTRY_USERNAME: z.string().min(1).optional(),
  BERTH_ARCHIVE_REGISTRY_PASSWORD: z.string().min(1).optional(),
  ...signOnSettings,
  BERTH_STRIPE_SECRET_FILE: z.string().startsWith('/', { error: 'must be an absolute path' }).optional(),
  BERTH_STRIPE_MODE: z.enum(stripeModes).default('live'),
  BERTH_LOG: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  BERTH_LOG_FORMAT: z.enum(['auto', 'readable', 'json']).default('auto'),
  DOCKER_HOST: z.string().min(1).optional(),
});

type Settings = z.output<typeof schema>;

const wrong = (lines: string[]): Error => new Error(`The configuration is wrong:\n${lines.join('\n')}`);
const wrongSetting = (name: string, reason: string): Error => wrong([`  ${name}: ${reason}`]);

export type Config = ReturnType<typeof configOf>;

/** Throws an Error that names each wrong variable and its valid values. */
export function readConfig(env: Record<string, string | undefined>): Config {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const { data, error } = schema.safeParse(set);
  const unknown = unknownSettings(Object.keys(set), Object.keys(schema.shape));
  const invalid = (error?.issues ?? []).map(({ path: [setting, item], message }) => {
    const value = typeof item === 'number' ? set[String(setting)]?.split(',')[item]?.trim() : undefined;
    return `  ${String(setting)}: ${message}${value === undefined ? '' : `; found ${JSON.stringify(value)}`}`;
  });
  if (!data || unknown.length > 0) throw wrong([...unknown, ...invalid]);
  if ((data.BERTH_ENGINE === 'kubernetes') !== (data.BERTH_REGION_FILE !== undefined)) {
    const reason = 'a file with "settings" of POST /api/admin/region/create, whose engine is "kubernetes"';
    throw wrongSetting('BERTH_REGION_FILE', `must be set exactly with BERTH_ENGINE=kubernetes: ${reason}`);
  }
  if (data.BERTH_ROLE !== 'all' && data.BERTH_ENGINE === 'simulated') {
    const reason =
      'the simulated engine runs in the API process, and no other process can reach it: leave BERTH_ROLE out';
    throw wrongSetting('BERTH_ROLE', reason);
  }
  if (data.BERTH_INSTANCE_NO_PROXY !== undefined && data.BERTH_INSTANCE_PROXY === undefined)
    throw wrongSetting('BERTH_INSTANCE_PROXY', 'must be set, because BERTH_INSTANCE_NO_PROXY is set');
  if (isAny(data.BERTH_LISTEN.host) && data.BERTH_PUBLIC_ADDRESS === undefined) {
    const reason = `BERTH_LISTEN is ${data.BERTH_LISTEN.host}, an address that clients cannot connect to`;
    throw wrongSetting('BERTH_PUBLIC_ADDRESS', `must be set, because ${reason}`);
  }
  return configOf(data);
}

const instanceNetworkOf = (data: Settings) => ({
  caFile: data.BERTH_INSTANCE_CA,
  proxy: data.BERTH_INSTANCE_PROXY,
  noProxy: data.BERTH_INSTANCE_NO_PROXY,
  pipIndex: data.BERTH_INSTANCE_PIP_INDEX,
  aptMirror: data.BERTH_INSTANCE_APT_MIRROR,
  dns: data.BERTH_INSTANCE_DNS,
});

function configOf(data: Settings) {
  return {
    dataFolder: data.BERTH_DATA,
    listen: data.BERTH_LISTEN,
    gatewayListen: data.BERTH_GATEWAY_LISTEN,
    publicAddress: data.BERTH_PUBLIC_ADDRESS ?? data.BERTH_LISTEN.host,
    /**
     * Host and port for `regionInfo.domain`; null: the gateway's listen address. `isWildcard`: each
     * port has a host of its own below the name.
     */
    domain: data.BERTH_DOMAIN ?? null,
    gatewayUrl: data.BERTH_GATEWAY_URL ?? null,
    gatewayTls: tlsOf(pairOf(data, 'BERTH_GATEWAY_TLS_CERT', 'BERTH_GATEWAY_TLS_KEY')),
    /** Concurrency limits and idle timeouts of the gateway; a timeout of 0 is disabled. */
    gatewayLimits: {
      clientIdleMs: data.BERTH_GATEWAY_CLIENT_IDLE_SECONDS * 1_000,
      instanceIdleMs: data.BERTH_GATEWAY_INSTANCE_IDLE_SECONDS * 1_000,
      tunnelIdleMs: data.BERTH_GATEWAY_WEBSOCKET_IDLE_SECONDS * 1_000,
      perPort: data.BERTH_GATEWAY_PORT_REQUESTS,
      perInstance: data.BERTH_GATEWAY_INSTANCE_REQUESTS,
      connections: data.BERTH_GATEWAY_CONNECTIONS,
    },
    apiUrl: data.BERTH_API_URL ?? null,
    /** Further host names of the API, lower case. */
    apiHosts: data.BERTH_API_HOSTS ?? [],
    /** Origins of other sites whose pages may call the API. */
    corsOrigins: data.BERTH_CORS_ORIGINS ?? [],
    requestsPerSecond: data.BERTH_REQUESTS_PER_SECOND,
    addressRate: data.BERTH_ADDRESS_REQUESTS_PER_SECOND,
    strictTransport: data.BERTH_HSTS === 'on',
    apiTls: tlsOf(pairOf(data, 'BERTH_API_TLS_CERT', 'BERTH_API_TLS_KEY')),
    /** IP addresses and CIDR ranges whose `X-Forwarded-*` headers count. */
    trustedProxies: data.BERTH_TRUSTED_PROXIES ?? [],
    role: data.BERTH_ROLE,
    /** TCP between `api` and `gateway` process; null: sockets in the data folder. */
    link: linkOf(data, wrongSetting),
    engine: data.BERTH_ENGINE,
    /** Settings of this server's region, when it is a cluster. */
    regionFile: data.BERTH_REGION_FILE ?? null,
    databaseUrl: data.BERTH_DATABASE_URL ?? null,
    /** Id of a `secrets.key` that is gone for good; null: none. */
    lostSecretsKey: data.BERTH_LOST_SECRETS_KEY ?? null,
    adminPassword: data.BERTH_ADMIN_PASSWORD ?? null,
    /** Dollars of accounts that administrators make. */
    firstCredit: data.BERTH_FIRST_CREDIT,
    isBilled: data.BERTH_BILLING === 'on',
    moneyRules: moneyRulesOf(data, wrongSetting),
    ...accountRulesOf(data),
    /** IP address of node ports; null: the API's. */
    nodePortAddress: data.BERTH_NODE_PORT_ADDRESS ?? null,
    /** Default for node ports while the API is on loopback (decision 31); else null. */
    loopbackNodePortAddress: loopbackNodePortAddressOf(data),
    nodePorts: data.BERTH_NODE_PORTS,
    cpuOvercommit: data.BERTH_CPU_OVERCOMMIT,
    /** Whether launches without GPUs leave cores and memory for each free GPU. */
    reservesForGpus: data.BERTH_GPU_RESERVE === 'on',
    diskOvercommit: data.BERTH_DISK_OVERCOMMIT,
    /** Share of each file system kept free; null: a twentieth, 1 to 10 GB. */
    diskReserveShare: data.BERTH_DISK_RESERVE_PERCENT === undefined ? null : data.BERTH_DISK_RESERVE_PERCENT / 100,
    accountPoolShare: data.BERTH_ACCOUNT_POOL_PERCENT / 100,
    /** Longest run of an instance; null: unlimited. */
    maxRunMs: hoursOrNull(data.BERTH_MAX_RUN_HOURS),
    saveRootDiskAfterMs: hoursOrNull(data.BERTH_SAVE_ROOT_DISK_HOURS),
    spotGraceMs: data.BERTH_SPOT_GRACE_SECONDS * 1_000,
    /** Idle stop of new instances; null: none. */
    idleStopMs: data.BERTH_IDLE_STOP_MINUTES === undefined ? null : data.BERTH_IDLE_STOP_MINUTES * 60_000,
    pools: {
      default: data.BERTH_POOL ?? null,
      filesystem: data.BERTH_POOL_FILESYSTEM ?? null,
      highspeedstorage: data.BERTH_POOL_HIGHSPEEDSTORAGE ?? null,
    },
    /** Size of shared folders; null: the size of data disks. */
    sharedDiskGB: data.BERTH_SHARED_DISK_GB ?? null,
    /** Disks to replace by empty ones if they are gone. */
    lostDisks: data.BERTH_LOST_DISKS ?? [],
    /** Read-only data sets for all instances that ask for them. */
    commonDataFolder: resolve(data.BERTH_COMMON_DATA ?? join(data.BERTH_DATA, 'common')),
    /** Docker inside instances (`docs/security.md`); null: off. */
    dockerInside: data.BERTH_DOCKER_INSIDE === 'off' ? null : data.BERTH_DOCKER_INSIDE,
    linkLocal: data.BERTH_LINK_LOCAL,
    /** Programs of an instance may gain rights of its root, as by sudo. */
    sudo: data.BERTH_SUDO === 'on',
    /** Limits of the kernel that instances share: raised at start, or only checked. */
    kernelLimits: data.BERTH_KERNEL_LIMITS,
    /** Most that each instance reads, and writes, on these block devices of the engine's host. */
    diskRates: data.BERTH_DISK_RATES ?? [],
    /** How instances reach the operator's networks; `caFile` is read at start. */
    instanceNetwork: instanceNetworkOf(data),
    sizes: {
      cpusets: data.BERTH_CPUSETS === 'on',
      lxcfs: data.BERTH_LXCFS === 'auto' ? '/var/lib/lxcfs' : null,
      turns: { ofCards: data.BERTH_GPU_TURNS ?? {}, among: data.BERTH_GPU_TURNS_AMONG },
    },
    userNamespaces: data.BERTH_USER_NAMESPACES === 'on',
    /** Container runtimes by name of the instance type. */
    runtimes: data.BERTH_RUNTIMES ?? {},
    registryImages: data.BERTH_REGISTRY_IMAGES === 'auto',
    /** Whether accounts may use registries at loopback addresses of the engine's host. */
    localRegistries: data.BERTH_LOCAL_REGISTRIES === 'allow',
    eventRetentionMs: data.BERTH_EVENTS_DAYS * 24 * 3_600_000,
    /** Whether webhooks may reach private addresses, and use http. */
    anyWebhookAddress: data.BERTH_WEBHOOK_ADDRESSES === 'any',
    auditRetentionMs: data.BERTH_AUDIT_DAYS * 24 * 3_600_000,
    orphans: { action: data.BERTH_STRAYS, retentionMs: data.BERTH_STRAY_HOURS * 3_600_000 },
    archiveRegistry: archiveRegistryOf(data),
    /** Login provider of OpenID Connect; null: none. */
    signOn: signOnOf(data, wrongSetting),
    /** Null: payments by Stripe are off. */
    stripeSecretFile: data.BERTH_STRIPE_SECRET_FILE ?? null,
    stripeMode: data.BERTH_STRIPE_MODE,
    logLevel: data.BERTH_LOG,
    /** `auto`: readable on a terminal, else JSON. */
    logFormat: data.BERTH_LOG_FORMAT,
    dockerHost: data.DOCKER_HOST ?? null,
  };
}

/**
 * Browsers send a host's cookies to all of its ports. A second loopback address keeps the login of
 * the API from pages on node ports. Only Linux routes all of 127.0.0.0/8 to loopback.
 */
const loopbackNodePortAddressOf = ({ BERTH_LISTEN, BERTH_PUBLIC_ADDRESS }: Settings): string | null =>
  process.platform === 'linux' &&
  BERTH_PUBLIC_ADDRESS === undefined &&
  ['127.0.0.1', 'localhost'].includes(BERTH_LISTEN.host)
    ? '127.0.0.2'
    : null;

/** Both values, or null if neither is set. */
function pairOf<Name extends keyof Settings>(
  data: { [one in Name]?: string },
  one: Name,
  other: Name,
): [string, string] | null {
  const [first, second] = [data[one], data[other]];
  if (first !== undefined && second !== undefined) return [first, second];
  if (first === second) return null;
  const [lacks, has] = first === undefined ? [one, other] : [other, one];
  throw wrongSetting(lacks, `must be set, because ${has} is set`);
}

const accountRulesOf = (data: Settings) => ({
  /** Time in which a deleted account can be restored. */
  deletionGraceMs: data.BERTH_ACCOUNT_DELETE_DAYS * DAY_SECONDS * 1000,
  registration: { isOpen: data.BERTH_REGISTRATION === 'open', credit: data.BERTH_REGISTRATION_CREDIT },
  secondFactorRole: data.BERTH_SECOND_FACTOR_ROLE ?? null,
});

const tlsOf = (pair: [string, string] | null) => pair && { cert: pair[0], key: pair[1] };

/** Registry for archived and saved root disks; null: the engine's store. */
function archiveRegistryOf(data: Settings): { prefix: string; username: string; secret: string } | null {
  const login = pairOf(data, 'BERTH_ARCHIVE_REGISTRY_USERNAME', 'BERTH_ARCHIVE_REGISTRY_PASSWORD');
  const [username, secret] = login ?? ['', ''];
  const prefix = data.BERTH_ARCHIVE_REGISTRY;
  if (prefix !== undefined) return { prefix, username, secret };
  if (login === null) return null;
  throw wrongSetting(
    'BERTH_ARCHIVE_REGISTRY',
    'must be set, because a user name and a password for the registry are set',
  );
}

/** The configuration without secrets. */
export const masked = (config: Config): Record<string, unknown> => ({
  ...config,
  adminPassword: config.adminPassword === null ? null : '***',
  databaseUrl: config.databaseUrl === null ? null : maskedUrl(config.databaseUrl),
  instanceNetwork: {
    ...config.instanceNetwork,
    proxy: config.instanceNetwork.proxy && maskedUrl(config.instanceNetwork.proxy),
    pipIndex: config.instanceNetwork.pipIndex && maskedUrl(config.instanceNetwork.pipIndex),
  },
  archiveRegistry: config.archiveRegistry && { ...config.archiveRegistry, secret: '***' },
});

/** Masks the password and the query, which may hold a password too. */
function maskedUrl(given: string): string {
  if (!URL.canParse(given)) return '***';
  const shown = new URL(given);
  if (shown.password !== '') shown.password = '***';
  if (shown.search !== '') shown.search = '?***';
  return shown.href;
}
