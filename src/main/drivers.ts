/** Drivers of the default region: its engine and its storage pools. */
import { SIMULATED_GPU } from '../engines/simulated/host-gpus.ts';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { EngineFault } from '../domain/regions/engine-fault.ts';
import type { RegionId } from '../domain/kernel/ids.ts';
import type { Log } from '../control/kernel/logger.ts';
import type { RegionDrivers } from '../control/kernel/regions.ts';
import type { Endpoint } from '../docker/docker-client.ts';
import type { Engine } from '../engines/contract.ts';
import type { BuildLocalImage } from '../engines/docker/image/images.ts';
import { buildRecipe } from '../engines/docker/image/build.ts';
import { readRecipe, recipeRef } from '../engines/docker/image/recipes.ts';
import type { Logger } from 'pino';
import { nodePortAddressOf } from './public-addresses.ts';
import type { Config } from './config.ts';
import { readInstanceNetwork } from './instance-network.ts';
import { HOST_MEMORY_MIB, type OfferedImage } from './first-run.ts';

const IMAGES_FOLDER = join(import.meta.dirname, '../../images');
const NOTEBOOK_RECIPE = join(IMAGES_FOLDER, 'notebook');
const SMALL_NOTEBOOK = 'notebook-small';
const PYTORCH_NOTEBOOK = 'notebook-pytorch';
const DOCKER_RECIPE = join(IMAGES_FOLDER, 'docker-inside');
const USUAL_SOCKET = 'unix:///var/run/docker.sock';

/** Capacity of the simulated region: large enough for every client test. */
const SIMULATED_CAPACITY = { cpuMilli: 1_000_000_000, memoryMiB: 1_000_000_000, gpus: { [SIMULATED_GPU]: 64 } };

export interface Drivers {
  drivers: RegionDrivers;
  /** The first one is built at the start, the others with their first use; none for a cluster. */
  images: readonly OfferedImage[];
  width: number;
}

/** Default image. */
export const notebookRef = async (): Promise<string> => recipeRef(await readRecipe(NOTEBOOK_RECIPE));

/** Prefix of images in the engine's store; no registry can own it (RFC 6762 reserves `.local`). */
const LOCAL = 'berth.local';

const prefixesUnder = (prefix: string) => ({ archivePrefix: `${prefix}/archive`, savedPrefix: `${prefix}/saved` });

/** Image names of archived and saved root disks. */
function rootDiskPrefixes(registry: Config['archiveRegistry']) {
  if (registry === null) return { ...prefixesUnder(LOCAL), archivePushed: false };
  const { prefix, username, secret } = registry;
  const archiveCredentials = username === '' ? undefined : { username, secret };
  return { ...prefixesUnder(prefix), archivePushed: true, archiveCredentials };
}

export async function makeDrivers(
  config: Config,
  region: RegionId,
  {
    engine,
    pools,
    sharedDiskGB,
    nodePortRange,
    cpuOvercommit,
  }: Pick<RegionDrivers, 'engine' | 'pools' | 'sharedDiskGB' | 'nodePortRange' | 'cpuOvercommit'>,
): Promise<Drivers> {
  const isCluster = config.engine === 'kubernetes';
  await mkdir(config.commonDataFolder, { recursive: true, mode: 0o755 });
  const startScript = await readFile(join(IMAGES_FOLDER, 'start.sh'), 'utf8');
  const jupyterConfig = await readFile(join(IMAGES_FOLDER, 'jupyter_server_config.py'), 'utf8');
  return {
    drivers: {
      regionId: region,
      engine,
      pools,
      sharedDiskGB,
      nodePortRange,
      nodePortAddress: await nodePortAddressOf(config),
      commonDataFolder: isCluster ? null : config.commonDataFolder,
      cpuOvercommit,
      hostMemoryMiB: isCluster ? 0 : HOST_MEMORY_MIB,
      ...rootDiskPrefixes(config.archiveRegistry),
      startScript,
      jupyterConfig,
      instanceNetwork: {
        ...(await readInstanceNetwork(config)),
        script: await readFile(join(IMAGES_FOLDER, 'networks.sh'), 'utf8'),
      },
      health: { probe: null, answers: false, text: 'the engine has not been probed yet' },
    },
    images: isCluster
      ? []
      : [
          {
            key: 'notebook',
            name: 'JupyterLab (Debian)',
            ref: await notebookRef(),
            tags: ['jupyterlab', 'python3', 'numpy', 'pandas', 'matplotlib', 'ipywidgets', 'gcc', 'ssh'],
          },
          {
            key: 'notebook-small',
            name: 'JupyterLab (Debian, small)',
            ref: recipeRef(await readRecipe(NOTEBOOK_RECIPE, SMALL_NOTEBOOK)),
            tags: ['jupyterlab', 'python3', 'ssh'],
          },
          {
            key: 'notebook-pytorch',
            name: 'JupyterLab (Debian, PyTorch)',
            ref: recipeRef(await readRecipe(NOTEBOOK_RECIPE, PYTORCH_NOTEBOOK)),
            tags: ['jupyterlab', 'python3', 'numpy', 'pandas', 'matplotlib', 'pytorch', 'cuda', 'gcc', 'ssh'],
          },
        ],
    width: config.engine === 'docker' ? 4 * availableParallelism() : 64,
  };
}

export const toolsFolderOf = ({ dataFolder }: Pick<Config, 'dataFolder'>): string => join(dataFolder, 'tools');

/** Engine of this machine. */
export const makeEngine = (config: Config, installation: string, log: Logger): Promise<Engine> =>
  config.engine === 'simulated' ? simulatedEngine(config, installation) : dockerEngine(config, installation, log);

// Loads only the engine in use: dockerode takes 10 MB and a tenth of the start.

async function dockerEngine(config: Config, installation: string, log: Logger): Promise<Engine> {
  const { endpointOf } = await import('../docker/docker-client.ts');
  const { makeDockerEngine } = await import('../engines/docker/docker.ts');
  const endpoint = endpointOf(config.dockerHost ?? USUAL_SOCKET);
  if (!('socketPath' in endpoint)) {
    const why =
      'disks and control files are folders of this machine, and an engine elsewhere cannot mount them; an engine on another host is a region of its own (POST /api/admin/region/create)';
    throw new Error(`DOCKER_HOST is ${config.dockerHost}: ${why}. Set the socket of an engine on this machine.`);
  }
  await checkDevices(config.diskRates);
  const notebook = await notebookRef();
  return makeDockerEngine({
    endpoint,
    installation,
    stateFolder: join(config.dataFolder, 'control-files'),
    buildLocalImage: buildImageFor(endpoint, log),
    dockerInside:
      config.dockerInside === null
        ? undefined
        : { mode: config.dockerInside, imageRef: recipeRef(await readRecipe(DOCKER_RECIPE)) },
    linkLocal: config.linkLocal,
    sudo: config.sudo,
    tools: { folder: toolsFolderOf(config), imageRef: notebook },
    cards: { image: notebook },
    sizes: config.sizes,
    isolation: { kernelLimits: config.kernelLimits, hostMemoryMiB: HOST_MEMORY_MIB, diskRates: config.diskRates },
    log,
  });
}

/** Builds an image of Berth on this machine, and sends it to the engine. */
export const buildImageFor =
  (endpoint: Endpoint, log: Pick<Log, 'warn'>): BuildLocalImage =>
  async (ref, onProgress, signal) => {
    const { archivePrefix, savedPrefix } = prefixesUnder(LOCAL);
    const { makeDockerClient } = await import('../docker/docker-client.ts');
    if (ref.startsWith(`${archivePrefix}/`) || ref.startsWith(`${savedPrefix}/`)) {
      const text = `the root disk saved as ${ref} is no longer on the host; ask the operator for a backup`;
      throw new EngineFault('not_found', text, { retry: false, reason: 'imageMissing' });
    }
    const made = [
      { folder: NOTEBOOK_RECIPE, recipe: await readRecipe(NOTEBOOK_RECIPE) },
      { folder: NOTEBOOK_RECIPE, recipe: await readRecipe(NOTEBOOK_RECIPE, SMALL_NOTEBOOK) },
      { folder: NOTEBOOK_RECIPE, recipe: await readRecipe(NOTEBOOK_RECIPE, PYTORCH_NOTEBOOK) },
      { folder: DOCKER_RECIPE, recipe: await readRecipe(DOCKER_RECIPE) },
    ];
    const found = made.find(({ recipe }) => recipeRef(recipe) === ref);
    if (found === undefined) {
      throw new EngineFault('not_found', `the recipe of ${ref} has changed; launch with the current image`, {
        retry: false,
      });
    }
    const { docker, stop } = makeDockerClient(endpoint);
    try {
      const onWarning = (reason: string): void =>
        log.warn({ image: ref, reason }, 'the image has the Python packages of Debian: PyPI could not be reached');
      await buildRecipe({ docker, ...found, signal, onProgress, onWarning, environment: process.env });
    } finally {
      stop();
    }
  };

async function checkDevices(rates: Config['diskRates']): Promise<void> {
  for (const { device } of rates) {
    const found = await stat(device).catch(() => null);
    if (found?.isBlockDevice() === true) continue;
    throw new Error(`BERTH_DISK_RATES: ${device} is no block device of this machine; name a disk that lsblk lists.`);
  }
}

async function simulatedEngine(config: Config, installation: string): Promise<Engine> {
  const { makeSimulatedEngine } = await import('../engines/simulated/simulated.ts');
  return makeSimulatedEngine({
    installation,
    capacity: SIMULATED_CAPACITY,
    publishPorts: false,
    stateFile: join(config.dataFolder, 'simulated-engine.json'),
  });
}
