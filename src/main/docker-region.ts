/** Drivers of a region on the Docker engine of another host, loaded with the first such region. */
import type { PoolDrivers, RegionDrivers } from '../control/kernel/regions.ts';
import type { Log } from '../control/kernel/logger.ts';
import type { DockerEngineSettings, PoolSettings } from '../domain/regions/region-settings.ts';
import type { BuildLocalImage } from '../engines/docker/image/images.ts';
import type { Endpoint } from '../docker/docker-client.ts';
import type { LinkLocal } from '../engines/docker/network/firewall-rules.ts';

export interface DockerRegion {
  installation: string;
  settings: DockerEngineSettings;
  pools: readonly PoolSettings[];
  rulesOf: (pool: PoolSettings) => Omit<PoolDrivers, 'storage'>;
  secret: string | null;
  /** Builds an image of Berth on this machine, and sends it to the engine. */
  buildImageFor: (endpoint: Endpoint, log: Log) => BuildLocalImage;
  /** Image of the helper container that reads cards. */
  cards: { image: string };
  linkLocal: LinkLocal;
  sudo: boolean;
  log: Log;
}

export async function dockerDrivers(region: DockerRegion): Promise<Pick<RegionDrivers, 'engine' | 'pools'>> {
  const { makeDockerClient } = await import('../docker/docker-client.ts');
  const { remoteEndpoint } = await import('../docker/remote-endpoint.ts');
  const { makeDockerEngine } = await import('../engines/docker/docker.ts');
  const { makeVolumeStorage } = await import('../storage/volumes/volume-storage.ts');
  const { installation, settings, secret, cards, linkLocal, sudo, log } = region;
  const { helperImage } = settings;
  const endpoint = remoteEndpoint(settings, secret);
  const client = makeDockerClient(endpoint);
  const engine = makeDockerEngine({
    endpoint,
    client,
    installation,
    stateFolder: null,
    helperImage,
    buildLocalImage: region.buildImageFor(endpoint, region.log),
    cards,
    linkLocal,
    sudo,
    // Devices, kernel and memory of this machine are not the engine's.
    isolation: { kernelLimits: 'check', hostMemoryMiB: 0, diskRates: [] },
    log,
  });
  const ensureImage = (ref: string, signal: AbortSignal): Promise<void> => engine.ensureImage(ref, () => {}, signal);
  return {
    engine,
    pools: region.pools.map((pool): PoolDrivers => {
      const at = { installation, pool: pool.name, sizeGB: pool.sizeGB };
      return { ...region.rulesOf(pool), storage: makeVolumeStorage({ client, ...at, helperImage, ensureImage }) };
    }),
  };
}
