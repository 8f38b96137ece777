/**
 * Starts a whole Berth: store, control, API and gateway. Reads no environment, so tests start the
 * same server on other ports.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { makeArgon2Threads } from '../control/access/argon2-threads.ts';
import { makeControl, type RunningControl } from './control.ts';
import { makeSeal } from '../control/kernel/seal.ts';
import { makeRegions } from '../control/kernel/regions.ts';
import { makeServedRegions, type ServedRegions } from '../control/regions/served-regions.ts';
import { realTime, type Time } from '../control/kernel/time.ts';
import type { InstanceType, Region } from '../domain/regions/catalog.ts';
import type { RegionId } from '../domain/kernel/ids.ts';
import { idlePolicy, type IdleLimits } from '../domain/compute/idle.ts';
import type { Limits } from '../domain/compute/instance-states.ts';
import { makeLoginProvider, type OwnLoginProvider } from '../edge/http/access/login-provider.ts';
import { SIGN_ON_PATHS } from '../edge/http/access/single-sign-on.ts';
import { makeApi } from '../edge/http/api.ts';
import { makeTerminalClient } from '../edge/link/terminal-client.ts';
import { serveLink } from '../edge/link/serve.ts';
import { makeSshFronts } from '../edge/ssh/fronts.ts';
import { checkSsh2 } from '../edge/ssh/ssh2-inside.ts';
import { openTlsFiles } from '../edge/tls-files.ts';
import { catalogImages, catalogInstanceTypes } from '../store/tables/catalog.ts';
import { managedRegionById, managedTypes } from '../store/tables/catalog-rows.ts';
import type { Store } from '../store/store.ts';
import { readSpace } from '../storage/layout.ts';
import {
  addressesOf,
  type Addresses,
  openUrl,
  placeOfApi,
  passwordUrl,
  portUrls,
  sharedParent,
  shareUrl,
  unservedPorts,
} from './public-addresses.ts';
import { defaultPool } from '../engines/docker/network/subnets.ts';
import { auditHeadFile } from './audit-head-file.ts';
import { VERSION, type Config } from './config.ts';
import * as firstRun from './first-run.ts';
import { serveHostCommands } from './host-commands.ts';
import { bindGateway } from './start-gateway.ts';
import { makeDrivers, makeEngine, type Drivers } from './drivers.ts';
import { linkAddresses } from './link-addresses.ts';
import { openData, type Guards } from './open-data.ts';
import { checkOwnCluster, makeOpenRegion, openOwnCluster, openRegions, warnOfTrustedInstances } from './open-region.ts';
import { readFileShares } from './open-files.ts';
import { allowEmptyReplacements, makePools } from './region-pools.ts';
import { offerRegistryImages, prepareImage } from './prepare-images.ts';
import { ensureAdmin, type ShownPassword } from './secret-files.ts';
import { openSecretsKey } from './secrets-key.ts';

export interface Server {
  apiUrl: string;
  gatewayUrl: string;
  adminPassword: ShownPassword | null;
  example: { region: string; imageId: string; instanceTypeId: string };
  store: Store;
  running: RunningControl;
  drivers: Drivers;
  stop(): Promise<void>;
}

export interface ServerOptions {
  config: Config;
  log: Logger;
  limits?: Partial<Limits>;
  idleLimits?: Partial<IdleLimits>;
  time?: Time;
  /** Opens regions of administrators. */
  openRegionBy?: typeof makeOpenRegion;
  /** The database was taken by another server: this one must end. */
  onDatabaseLost?: () => void;
}

const FIRST_PROBE_MS = 5_000;
/** Built by `npm run up` and by the Dockerfile. */
const CONSOLE_FOLDER = join(import.meta.dirname, '../../dist/console');

/** Ends one part of the server. The parts end in reverse order of their start. */
type Cleanup = () => Promise<unknown>;

export async function startServer(options: ServerOptions): Promise<Server> {
  const cleanups: Cleanup[] = [];
  const stop = async (): Promise<void> => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  };
  try {
    return { ...(await start(options, cleanups)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(options: ServerOptions, cleanups: Cleanup[]): Promise<Omit<Server, 'stop'>> {
  const { config, log, time = realTime } = options;
  const { store, ...guards } = await openData(options, cleanups);
  const { dataFolder, lostSecretsKey } = config;
  const secretsKey = await openSecretsKey({ dataFolder, lostSecretsKey, store, log, now: time.now });
  const host = await openHost(options, store, cleanups);
  const { drivers } = host;
  // Bound first: the region's domain is the gateway's address unless one is configured.
  const gateway = config.role === 'all' ? await bindGateway(config, log) : null;
  if (gateway) cleanups.push(() => gateway.stop());
  const gatewayPort = gateway?.port ?? config.gatewayListen.port;
  const addresses = addressesOf(config, { api: config.listen.port, gateway: gatewayPort });
  const offered = await saveRegion(options, store, host, addresses.domain);
  const loginProvider = await openLoginProvider(config, log, addresses.apiUrl);
  const given = { host, addresses, secretsKey, guards, loginProvider };
  const made = await makeRunningControl(options, store, given, cleanups);
  const { running } = made;
  const adminPassword = await ensureAdmin(running.access, config);
  await running.freeSpace.measure();
  await running.applyPrices();
  const parts: Parts = { ...host, ...made, config, log, store, addresses, loginProvider };
  const apiPort = await listenApi(parts, cleanups);
  const served = addressesOf(config, { api: apiPort, gateway: gatewayPort });
  warnOfSharedParent(sharedParent(served), log);
  sayPathMode(served, log);
  warnOfUnservedPorts(served, config, gatewayPort, log);
  warnOfTrustedInstances(config, [defaultPool.cidr], log);
  await gateway?.attach({
    forwarding: running.control.forwarding,
    notebookBar: running.control.notebookBar,
    authenticate: (credential) => running.access.authenticate(credential),
    wake: running.control.wakes.request,
    issuer: host.installation,
    apiUrl: served.apiUrl,
    log,
  });
  await running.start();
  cleanups.push(() => running.stop());
  const hostCommands = await serveHostCommands(config, running.control.accounts, log);
  cleanups.push(() => hostCommands.stop());
  if (config.role === 'all') await serveSsh(parts, cleanups);
  if (config.role === 'api') await serveGatewayProcess(parts, cleanups);
  startPreparations(parts, offered, cleanups);
  return { ...served, adminPassword, example: offered.example, store, running, drivers };
}

interface Host {
  installation: string;
  regionId: RegionId;
  dataDiskGB: number;
  sharedDiskGB: number;
  drivers: Drivers;
}

/** Opens the pools and the engine of this machine's region. */
async function openHost({ config, log }: ServerOptions, store: Store, cleanups: Cleanup[]): Promise<Host> {
  const installation = await firstRun.installationId(store, randomUUID());
  const regionId = await firstRun.defaultRegionId(store, randomUUID());
  await allowEmptyReplacements(store, config.lostDisks, log);
  const made = await openOwnRegion({ config, store, installation, log });
  const dataDiskGB = await firstRun.ensureDataDiskGB(store, made.pools);
  const sharedDiskGB = config.sharedDiskGB ?? dataDiskGB;
  const own = { ...made, sharedDiskGB: made.hasSharedFolder ? sharedDiskGB : null };
  const drivers = await makeDrivers(config, regionId, own);
  cleanups.push(() => drivers.drivers.engine.stop());
  return { installation, regionId, dataDiskGB, sharedDiskGB, drivers };
}

async function openOwnRegion({
  config,
  store,
  installation,
  log,
}: Parameters<typeof makePools>[0] & { config: Config }) {
  if (config.regionFile !== null) return openOwnCluster({ config, installation, log }, config.regionFile);
  return {
    pools: await makePools({ config, store, installation, log }),
    engine: await makeEngine(config, installation, log),
    nodePortRange: config.nodePorts,
    cpuOvercommit: config.cpuOvercommit,
    hasSharedFolder: true,
  };
}

interface Offered {
  offer: (image: firstRun.OfferedImage) => Promise<string>;
  example: Server['example'];
}

/** Saves the region, and at the first start its instance types and images. */
async function saveRegion(
  { config, log, time = realTime }: ServerOptions,
  store: Store,
  { regionId, dataDiskGB, drivers }: Host,
  domain: string,
): Promise<Offered> {
  const machine = firstRun.thisMachine();
  const region: Region = {
    id: regionId,
    name: 'default',
    value: 'default',
    location: 'local',
    domain,
    sshAddress: config.nodePortAddress ?? config.loopbackNodePortAddress ?? config.publicAddress,
    engine: config.engine,
  };
  await firstRun.saveDefaultRegion(store, region, machine, { ...config, nodePorts: drivers.drivers.nodePortRange });
  await warnOfOwnDomain(store, regionId, config, log);
  if ((await managedTypes(store.read, 0, 0)).totalEntries === 0) {
    // Away: types of the engine's machine are added when it answers. A cluster has other machines.
    const probe = await drivers.drivers.engine.probe(AbortSignal.timeout(FIRST_PROBE_MS)).catch(() => null);
    const known = config.engine === 'kubernetes' ? [] : [machine];
    const machines = probe ? firstRun.machinesOf(probe) : known;
    const { runtimes } = config;
    await firstRun.offerTypesOf(store, regionId, machines, { dataDiskGB, runtimes, uuid: randomUUID });
  }
  const { architecture } = machine;
  // Lists show images in the order of their time: the default first.
  const offer = (image: firstRun.OfferedImage, order = 0): Promise<string> =>
    firstRun.offerImage(store, { ...image, architecture }, { nowMs: time.now() + order, uuid: randomUUID });
  const [defaultImage, ...others] = drivers.images;
  const imageId = defaultImage && (await offer(defaultImage));
  for (const [index, image] of others.entries()) await offer(image, index + 1);
  const [types, images] = await Promise.all([catalogInstanceTypes(store.read), catalogImages(store.read)]);
  const shown = images.find(({ id }) => id === imageId) ?? images[0];
  return { offer, example: { region: regionId, imageId: shown?.id ?? '', instanceTypeId: types[0]?.id ?? '' } };
}

interface Given extends Pick<Parts, 'addresses' | 'loginProvider'> {
  host: Host;
  secretsKey: Uint8Array;
  guards: Guards;
}

async function makeRunningControl(
  { config, log, time = realTime, limits = {}, idleLimits = {}, openRegionBy = makeOpenRegion }: ServerOptions,
  store: Store,
  { host, addresses, secretsKey, guards, loginProvider }: Given,
  cleanups: Cleanup[],
): Promise<{ running: RunningControl; servedRegions: ServedRegions }> {
  const { installation, regionId, dataDiskGB, sharedDiskGB, drivers } = host;
  const terminals =
    config.role === 'api' ? makeTerminalClient({ address: (await linkAddresses(config)).gateway }) : null;
  if (terminals) cleanups.push(async () => terminals.stop());
  const regions = makeRegions([drivers.drivers]);
  const open = openRegionBy({ config, installation, log, common: { ...drivers.drivers, sharedDiskGB } });
  const servedRegions = makeServedRegions(open, regions);
  const { openRegion } = servedRegions;
  cleanups.push(async () => {
    const others = regions.all().filter((one) => one !== drivers.drivers);
    await Promise.all(others.map(({ engine }) => engine.stop()));
  });
  await openRegions({ store, seal: makeSeal({ key: secretsKey, randomBytes }), regions, openRegion }, log);
  const threads = makeArgon2Threads();
  cleanups.push(() => threads.stop());
  const running = makeControl({
    argon2id: threads.argon2id,
    ...(terminals ? { terminals } : {}),
    store,
    regions,
    openRegion,
    log,
    time,
    random: Math.random,
    randomUuid: randomUUID,
    randomBytes,
    secretsKey,
    openUrl: (link) => openUrl(addresses, link),
    portUrls: (at) => portUrls(addresses, at),
    shareUrl: (link) => shareUrl(addresses, link),
    passwordUrl: (token) => passwordUrl(addresses, token),
    firstCredit: config.firstCredit,
    isBilled: config.isBilled,
    moneyRules: config.moneyRules,
    registration: config.registration,
    secondFactorRole: config.secondFactorRole,
    consoleHost: new URL(addresses.apiUrl).hostname,
    deletionGraceMs: config.deletionGraceMs,
    issuer: installation,
    audience: 'berth',
    engineWidth: drivers.width,
    diskReserveShare: config.diskReserveShare,
    dataSpace: () => readSpace(config.dataFolder),
    ...guards,
    onEngineAnswers: async ({ regionId: answering }, probe) => {
      if (answering !== regionId) return;
      if (config.userNamespaces && probe.capabilities.isolation.userNamespaces === 'none')
        log.warn(
          'BERTH_USER_NAMESPACES is on, but the engine runs without user namespaces: root in an instance is root of this machine. "User namespaces" in docs/operate.md says how to switch the engine',
        );
      if (config.regionFile !== null) void checkOwnCluster(drivers.drivers.engine, log);
      const { runtimes } = config;
      const { whyNoGpus } = probe.capabilities;
      if (whyNoGpus !== undefined) log.warn(`no GPU is offered: ${whyNoGpus}`);
      const machines = firstRun.machinesOf(probe);
      await firstRun.offerTypesOf(store, regionId, machines, { dataDiskGB, runtimes, uuid: randomUUID });
      warnOfRuntimes(runtimes, await catalogInstanceTypes(store.read), log);
    },
    limits,
    stopPolicyRules: {
      capRunMs: config.maxRunMs,
      idle: config.idleStopMs === null ? null : idlePolicy(config.idleStopMs),
    },
    idleLimits,
    saveRootDiskAfterMs: config.saveRootDiskAfterMs,
    spotGraceMs: config.spotGraceMs,
    reservesForGpus: config.reservesForGpus,
    eventRetentionMs: config.eventRetentionMs,
    anyWebhookAddress: config.anyWebhookAddress,
    auditRetentionMs: config.auditRetentionMs,
    auditHeadFile: auditHeadFile(config.dataFolder),
    orphans: config.orphans,
    localRegistries: config.localRegistries,
    requestsPerSecond: config.requestsPerSecond,
    stripeMode: config.stripeMode,
    stripeSecret:
      config.stripeSecretFile === null ? undefined : (await readFile(config.stripeSecretFile, 'utf8')).trim(),
    alone: true,
    ...(loginProvider && { troubles: () => [loginProvider.trouble()].filter((text) => text !== null) }),
  });
  await running.access.ensureSigningKey();
  return { running, servedRegions };
}

/** Parts of a server whose control is made. */
interface Parts extends Host {
  config: Config;
  log: Logger;
  store: Store;
  running: RunningControl;
  servedRegions: ServedRegions;
  /** The API's own port may differ: 0 lets the system choose. */
  addresses: Addresses;
  loginProvider: OwnLoginProvider | null;
}

async function listenApi(
  { config, log, running, addresses, loginProvider }: Parts,
  cleanups: Cleanup[],
): Promise<number> {
  const tls = config.apiTls === null ? null : await openTlsFiles(config.apiTls, log);
  cleanups.push(async () => tls?.stop());
  const { apiConnections: connections } = await readFileShares(config.role);
  const api = makeApi({
    control: running.control,
    log,
    version: VERSION,
    gatewayOrigin: addresses.gatewayUrl,
    portDomain: addresses.portDomain,
    secureCookies: addresses.apiUrl.startsWith('https:'),
    ...(tls === null ? {} : { tls }),
    ...placeOfApi(config),
    corsOrigins: config.corsOrigins,
    trustedProxies: config.trustedProxies,
    loginProvider,
    connections,
    addressRate: config.addressRate,
    consoleFolder: CONSOLE_FOLDER,
    strictTransport: config.strictTransport && tls !== null && addresses.gatewayUrl.startsWith('https:'),
  });
  await api.listen({ host: config.listen.host, port: config.listen.port });
  cleanups.push(() => api.close());
  const [address] = api.addresses();
  return typeof address === 'object' ? address.port : config.listen.port;
}

async function openLoginProvider({ signOn }: Config, log: Logger, apiUrl: string): Promise<OwnLoginProvider | null> {
  if (signOn === null) return null;
  const { secretFile, ...settings } = signOn;
  const clientSecret = (await readFile(secretFile, 'utf8')).trim();
  return makeLoginProvider({ ...settings, clientSecret, redirectUri: apiUrl + SIGN_ON_PATHS.callback }, log);
}

/** Serves ssh for instances without sshd. */
async function serveSsh({ config, log, running }: Parts, cleanups: Cleanup[]): Promise<void> {
  const { routeTable, forwarding } = running.control;
  await checkSsh2();
  const { sshFiles: files } = await readFileShares(config.role);
  const fronts = makeSshFronts({
    backend: running.sshBackend,
    access: forwarding.ssh,
    recordLogin: forwarding.recordSshLogin,
    log,
    files,
  });
  const stopping = new AbortController();
  const following = routeTable.follow(fronts.update, stopping.signal, { onlyRunning: true });
  cleanups.push(async () => {
    stopping.abort();
    await following;
    await fronts.stop();
  });
}

/** Serves regions, routes and access decisions to the gateway process. */
async function serveGatewayProcess(parts: Parts, cleanups: Cleanup[]): Promise<void> {
  const { config, installation, regionId, log, running, servedRegions } = parts;
  const { control, access } = running;
  const link = await serveLink({
    address: (await linkAddresses(config)).api,
    routeTable: control.routeTable,
    forwarding: control.forwarding,
    notebookBar: control.notebookBar,
    authenticate: (credential) => access.authenticate(credential),
    wake: control.wakes.request,
    issuer: installation,
    ownRegionId: regionId,
    regions: servedRegions,
    log,
  });
  cleanups.push(() => link.stop());
}

/** Pulls and offers images while the server already serves. */
function startPreparations(parts: Parts, offered: Offered, cleanups: Cleanup[]): void {
  const { config, log, running, drivers, loginProvider } = parts;
  const [image] = drivers.images;
  const stopping = new AbortController();
  const preparations = [
    ...(loginProvider === null ? [] : [loginProvider.check()]),
    ...(image
      ? [
          prepareImage(
            { imagePulls: running.imagePulls, engine: drivers.drivers.engine, ref: image.ref, log },
            stopping.signal,
          ),
        ]
      : []),
    ...(config.registryImages ? [offerRegistryImages({ offer: offered.offer, log }, stopping.signal)] : []),
  ];
  for (const one of preparations)
    one.catch((error: unknown) => log.error({ err: error }, 'a background step of the start failed'));
  cleanups.push(async () => {
    stopping.abort();
    await Promise.allSettled(preparations);
  });
}

/** The setting counts for types that are added: a later change of it has no effect. */
function warnOfRuntimes(runtimes: Config['runtimes'], types: readonly InstanceType[], log: Logger): void {
  const offered = types.map(({ name }) => name);
  const unknown = Object.keys(runtimes).filter((name) => !offered.includes(name));
  if (unknown.length > 0)
    log.warn({ unknown, offered }, 'BERTH_RUNTIMES names instance types that the catalog does not offer');
  const differing = types.filter(({ name, runtime }) => (runtimes[name] ?? runtime) !== runtime);
  for (const { id, name, runtime = '' } of differing)
    log.warn(
      { instanceTypeId: id, name, stored: runtime, setting: runtimes[name] },
      'BERTH_RUNTIMES names another container runtime than the catalog, which counts: the setting is for types that are added. Change the type with POST /api/admin/type/update',
    );
}

async function warnOfOwnDomain(store: Store, region: RegionId, config: Config, log: Logger): Promise<void> {
  const stored = await managedRegionById(store.read, region);
  if (!stored || (config.domain ?? config.gatewayUrl) === null) return;
  const { ownDomain, settingsDomain } = stored;
  if (ownDomain === null || ownDomain === settingsDomain) return;
  const text =
    'BERTH_DOMAIN or BERTH_GATEWAY_URL says another domain than the administrators, whose domain instances show: set the same, or send "domain": null to POST /api/admin/region/update';
  log.warn({ stored: ownDomain, setting: settingsDomain }, text);
}

function warnOfSharedParent(domain: string | null, log: Logger): void {
  if (domain === null) return;
  const text = `pages on hosts of ports can set cookies for ${domain}, which browsers send to the API, too: they could log people out of it. Set another domain for instances (BERTH_DOMAIN) or for the API (BERTH_API_URL)`;
  log.warn({ domain }, text);
}

function sayPathMode({ portDomain }: Addresses, log: Logger): void {
  if (portDomain !== null) return;
  const text =
    'BERTH_DOMAIN has no wildcard: pages of ports are shown in a sandbox to all but the owner of the instance, where apps such as Gradio and Streamlit stay blank. People can pass on node ports instead; BERTH_DOMAIN=*.gpu.example.org gives each port a host of its own';
  log.info(text);
}

function warnOfUnservedPorts(addresses: Addresses, config: Config, gatewayPort: number, log: Logger): void {
  const ports = unservedPorts(addresses, config, gatewayPort);
  if (ports.length === 0) return;
  const { gatewayUrl, domain } = addresses;
  const text = `links to instances lead to port ${ports.join(' and ')}, but the gateway listens on port ${gatewayPort}: set BERTH_GATEWAY_URL (and a port in BERTH_DOMAIN, if it has one) to the port that browsers reach, or let the gateway listen on it (BERTH_GATEWAY_LISTEN). If a reverse proxy forwards the port, name it in BERTH_TRUSTED_PROXIES`;
  log.warn({ gatewayUrl, domain, gatewayPort }, text);
}
