/** Drivers of regions that administrators added, and of a cluster that the settings name. */
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../control/kernel/logger.ts';
import type { PoolDrivers, RegionDrivers, Regions } from '../control/kernel/regions.ts';
import { openCredentials, type OpenRegion, type RegionToOpen } from '../control/regions/region-engine.ts';
import type { Seal } from '../control/kernel/seal.ts';
import { regionSettings } from '../contract/regions/region-admin.ts';
import { errorText } from '../domain/kernel/unknown-error.ts';
import { capacityOf } from '../domain/regions/catalog.ts';
import { SIMULATED_GPU } from '../engines/simulated/host-gpus.ts';
import {
  faultOfRegionSettings,
  type PoolSettings,
  type RegionSettings,
  type SimulatedEngineSettings,
} from '../domain/regions/region-settings.ts';
import type { Engine } from '../engines/contract.ts';
import { rangesMeeting } from '../engines/docker/network/subnets.ts';
import { makeDirectoryStorage } from '../storage/directory/directory.ts';
import { prepareRoot } from '../storage/layout.ts';
import { managedRegions } from '../store/tables/catalog-rows.ts';
import type { Store } from '../store/store.ts';
import type { Config } from './config.ts';
import { dockerDrivers } from './docker-region.ts';
import { buildImageFor, notebookRef } from './drivers.ts';
import { kubernetesDrivers } from './kubernetes-region.ts';
import { portsOfGateway } from './public-addresses.ts';

/** For published ports of a host whose addresses Berth does not know. */
const ALL_ADDRESSES = '0.0.0.0';

type Made = Pick<RegionDrivers, 'engine' | 'pools'>;

interface OpenRegionDeps {
  config: Pick<
    Config,
    | 'dataFolder'
    | 'diskOvercommit'
    | 'diskReserveShare'
    | 'accountPoolShare'
    | 'role'
    | 'linkLocal'
    | 'sudo'
    | 'gatewayListen'
    | 'gatewayUrl'
    | 'trustedProxies'
  >;
  installation: string;
  log: Log;
  /** Drivers of this machine's region. */
  common: Common;
}

type Common = Pick<
  RegionDrivers,
  | 'sharedDiskGB'
  | 'archivePrefix'
  | 'archivePushed'
  | 'archiveCredentials'
  | 'savedPrefix'
  | 'startScript'
  | 'jupyterConfig'
  | 'instanceNetwork'
>;

export const makeOpenRegion =
  (deps: OpenRegionDeps): OpenRegion =>
  async (region) => {
    const { id, address, settings } = region;
    refuseSimulatedApart(deps.config, settings);
    return {
      ...commonOf(deps.common),
      ...(settings.sharedFolder === false ? { sharedDiskGB: null } : {}),
      ...(await enginesAndPools(deps, region)),
      regionId: id,
      nodePortRange: settings.nodePorts,
      nodePortAddress: settings.docker ? (settings.docker.nodePortBind ?? ALL_ADDRESSES) : address,
      commonDataFolder: null,
      cpuOvercommit: settings.kubernetes?.cpuOvercommit ?? settings.docker?.cpuOvercommit ?? 1,
      hostMemoryMiB: 0,
      health: { probe: null, answers: false, text: 'the engine has not been probed yet' },
    };
  };

/** The engine alone, for the gateway process: pools stay with the API's. */
export async function openEngine(
  deps: Omit<OpenRegionDeps, 'common'>,
  { id, settings, secret }: RegionToOpen,
): Promise<Engine> {
  refuseSimulatedApart(deps.config, settings);
  return (await enginesAndPools(deps, { id, secret, settings: { ...settings, pools: [] } })).engine;
}

function refuseSimulatedApart({ role }: Pick<Config, 'role'>, { simulated }: RegionSettings): void {
  if (role !== 'all' && simulated !== undefined)
    throw new Error(
      'a simulated engine runs in the process that opened it, and the separate gateway process cannot reach it; run Berth as one process (leave BERTH_ROLE out)',
    );
}

/** Engine and pools of the server's own region, from its file. */
export async function openOwnCluster(
  deps: Omit<OpenRegionDeps, 'common'>,
  file: string,
): Promise<Made & Pick<RegionDrivers, 'nodePortRange' | 'cpuOvercommit'> & { hasSharedFolder: boolean }> {
  const settings = readRegionFile(file, await readFile(file, 'utf8'));
  const made = await enginesAndPools(deps, { id: '', settings, secret: null });
  return {
    ...made,
    nodePortRange: settings.nodePorts,
    cpuOvercommit: settings.kubernetes?.cpuOvercommit ?? 1,
    hasSharedFolder: settings.sharedFolder !== false,
  };
}

const CHECK_MS = 60_000;

/** Logs faults of the own cluster, at each start. For other regions an administrator gets them. */
export async function checkOwnCluster(engine: Engine, log: Log): Promise<void> {
  try {
    for (const warning of (await engine.check?.(AbortSignal.timeout(CHECK_MS))) ?? []) log.warn({}, warning);
  } catch (error) {
    log.error({ reason: errorText(error) }, 'the cluster lacks what the region needs');
  }
}

function readRegionFile(file: string, text: string): RegionSettings {
  const { data, error } = regionSettings.safeParse(JSON.parse(text));
  const fault = data
    ? faultOfRegionSettings(data)
    : error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
  const unfit =
    data && fault === null && data.kubernetes?.login !== 'inCluster'
      ? '"kubernetes" with "login": "inCluster" is needed'
      : fault;
  if (!data || unfit !== null) throw new Error(`BERTH_REGION_FILE, ${file}: ${unfit}`);
  return data;
}

async function enginesAndPools(
  deps: Omit<OpenRegionDeps, 'common'>,
  { id, settings, secret }: Omit<RegionToOpen, 'id' | 'address'> & { id: string },
): Promise<Made> {
  const { simulated, kubernetes, docker, pools } = settings;
  if (simulated) return simulatedDrivers(deps, id, { engine: simulated, pools });
  const { installation, log, config } = deps;
  const rulesOf = (pool: PoolSettings) => poolRules(config, pool);
  if (docker) {
    const { linkLocal, sudo } = config;
    const cards = { image: await notebookRef() };
    const made = { installation, settings: docker, pools, rulesOf, secret, buildImageFor, cards, linkLocal, sudo, log };
    return dockerDrivers(made);
  }
  if (!kubernetes) throw new Error('the settings of the region have no engine');
  const gatewayPorts = portsOfGateway(config);
  warnOfTrustedInstances(config, kubernetes.podRanges ?? [], log);
  return kubernetesDrivers({ installation, settings: kubernetes, pools, rulesOf, secret, gatewayPorts, log });
}

export function warnOfTrustedInstances(
  { trustedProxies }: Pick<Config, 'trustedProxies'>,
  ofInstances: readonly string[],
  log: Log,
): void {
  const ranges = [...new Set(ofInstances.flatMap((cidr) => rangesMeeting(cidr, trustedProxies)))];
  if (ranges.length === 0) return;
  const text = `BERTH_TRUSTED_PROXIES contains addresses of instances (${ofInstances.join(', ')}): they can forge client addresses, evade the rate limit of logins and take all connections. List the addresses of your proxies only`;
  log.warn({ ranges }, text);
}

async function simulatedDrivers(
  { config, installation }: Pick<OpenRegionDeps, 'config' | 'installation'>,
  id: string,
  { engine, pools }: { engine: SimulatedEngineSettings; pools: readonly PoolSettings[] },
): Promise<Made> {
  const { makeSimulatedEngine } = await import('../engines/simulated/simulated.ts');
  const folder = join(config.dataFolder, 'regions', id);
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const { cpuCores, memoryGB, gpus } = engine;
  return {
    engine: makeSimulatedEngine({
      installation,
      capacity: capacityOf({ cpuCores, memoryGB, gpuCount: gpus, gpuName: SIMULATED_GPU }),
      publishPorts: false,
      stateFile: join(folder, 'simulated-engine.json'),
    }),
    pools: await Promise.all(
      pools.map(async (pool): Promise<PoolDrivers> => {
        const at = { root: join(folder, `disks-${pool.name}`), installation, reserveShare: config.diskReserveShare };
        await prepareRoot(at);
        return { ...poolRules(config, pool), storage: makeDirectoryStorage(at) };
      }),
    ),
  };
}

/** Members that the settings of the server give all regions. */
const commonOf = ({ sharedDiskGB, archivePrefix, archivePushed, archiveCredentials, ...of }: Common): Common => ({
  sharedDiskGB,
  archivePrefix,
  archivePushed,
  archiveCredentials,
  savedPrefix: of.savedPrefix,
  startScript: of.startScript,
  jupyterConfig: of.jupyterConfig,
  instanceNetwork: of.instanceNetwork,
});

const poolRules = (
  { diskOvercommit, accountPoolShare }: OpenRegionDeps['config'],
  { name, sizeGB }: PoolSettings,
): Omit<PoolDrivers, 'storage'> => ({
  name,
  sizeGB,
  overcommit: 1,
  diskOvercommit,
  accountShare: accountPoolShare,
  space: null,
  unwrittenBytes: 0,
});

const PAGE = 100;

/** Opens the regions of earlier starts. One that cannot be opened stays, and the log says why. */
export async function openRegions(
  { store, seal, regions, openRegion }: { store: Store; seal: Seal; regions: Regions; openRegion: OpenRegion },
  log: Log,
): Promise<void> {
  for (let offset = 0; ; offset += PAGE) {
    const { rows } = await managedRegions(store.read, offset, PAGE);
    for (const { facts, settings, credentials } of rows) {
      if (settings === null) continue;
      const { id, name, sshAddress: address } = facts;
      try {
        const secret = credentials && openCredentials({ seal }, id, credentials);
        regions.put(await openRegion({ id, address, settings, secret }));
      } catch (error) {
        log.error({ region: id, name, err: error }, 'a region cannot be opened; its instances wait');
      }
    }
    if (rows.length < PAGE) return;
  }
}
