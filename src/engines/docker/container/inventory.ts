import { z } from 'zod';
import { isInstanceId, userId } from '../../../domain/kernel/ids.ts';
import type { Engine, OwnedObject } from '../../contract.ts';
import { installationLabel, labels } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { listContainers } from './container-calls.ts';
import type { Containers } from './containers.ts';
import { hasDocker, type DockerInside } from './docker-inside.ts';
import { isOwnImage, type DockerImages } from '../image/images.ts';
import type { Networks } from '../network/networks.ts';
import { generationOf, isDockerOf, isOurs } from './observation.ts';

const imageList = z.array(
  z.object({
    Id: z.string(),
    RepoTags: z.array(z.string()).nullish(),
    Labels: z.record(z.string(), z.string()).nullish(),
    Created: z.number(),
  }),
);

const neverRuns = { generation: 0, running: false, imageRef: null };

const countsAsRunning = (state: string): boolean => state === 'running' || state === 'restarting';

export function makeInventory(options: {
  client: DockerClient;
  installation: string;
  containers: Containers;
  daemons: DockerInside;
  networks: Networks;
  images: DockerImages;
}): Pick<Engine, 'listOwned' | 'discard'> {
  const { client, installation, containers, daemons, networks, images } = options;
  const ours = installationLabel(installation);

  async function listInstances(signal: AbortSignal): Promise<OwnedObject[]> {
    const found = await listContainers(client, [ours], signal);
    const runningDaemons = new Set(
      found.flatMap(({ Labels, State }) =>
        isDockerOf(Labels, installation) && countsAsRunning(State) ? [Labels[labels.id] ?? ''] : [],
      ),
    );
    return found.flatMap(({ Labels, Names, State, Created, Mounts }): OwnedObject[] => {
      const id = Labels[labels.id] ?? '';
      const common = {
        id,
        ownerId: Labels[labels.owner] ?? '',
        generation: generationOf(Labels),
        engineName: (Names[0] ?? '').replace(/^\//, ''),
        createdAtMs: Created * 1000,
      };
      if (isDockerOf(Labels, installation))
        return [{ ...common, kind: 'docker', running: countsAsRunning(State), imageRef: null }];
      if (!isOurs(Labels, installation)) return [];
      const docker = runningDaemons.has(id) ? 'running' : 'stopped';
      const imageRef = Labels[labels.imageRef] ?? null;
      const object: OwnedObject = { ...common, kind: 'instance', running: State === 'running', imageRef };
      return [hasDocker(Mounts) ? { ...object, docker } : object];
    });
  }

  async function listNetworks(signal: AbortSignal): Promise<OwnedObject[]> {
    return (await networks.list(signal)).map(({ Name, Labels, Created }): OwnedObject => {
      const owner = Labels?.[labels.owner] ?? '';
      const createdAtMs = Date.parse(Created) || 0;
      return { ...neverRuns, kind: 'network', id: owner, ownerId: owner, engineName: Name, createdAtMs };
    });
  }

  async function listImages(signal: AbortSignal): Promise<OwnedObject[]> {
    const filters = encodeURIComponent(JSON.stringify({ label: [ours, `${labels.kind}=image`] }));
    const answer = await client.get(`/images/json?filters=${filters}`, signal);
    return imageList.parse(answer).flatMap(({ Id, RepoTags, Labels, Created }): OwnedObject[] => {
      const engineName = [...(RepoTags ?? []), Id].find((name) => isOwnImage(installation, { RepoTags, Labels }, name));
      if (engineName === undefined) return [];
      const [id, ownerId] = [Labels?.[labels.id] ?? '', Labels?.[labels.owner] ?? ''];
      return [{ ...neverRuns, kind: 'image', id, ownerId, engineName, createdAtMs: Created * 1000 }];
    });
  }

  return {
    async listOwned(signal) {
      const all = await Promise.all([listInstances(signal), listNetworks(signal), listImages(signal)]);
      return all.flat();
    },
    discard({ kind, id, engineName }, signal) {
      switch (kind) {
        case 'instance':
        case 'docker':
          if (!isInstanceId(id)) return Promise.reject(new Error(`"${id}" is not the id of an instance`));
          if (kind === 'instance') return containers.discard(engineName, id, signal);
          return containers.exclusively(id, signal, () => daemons.discard(engineName, id, signal));
        case 'network':
          return networks.discard(engineName, userId(id), signal);
        case 'image':
          return images.remove(engineName, signal, { id });
        default:
          return kind satisfies never;
      }
    },
  };
}
