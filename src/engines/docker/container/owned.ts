/** All that bears this installation's label, told one by one, and taken away one by one. */
import { z } from 'zod';
import { isInstanceId, userId } from '../../../domain/ids.ts';
import type { OwnedObject } from '../../contract.ts';
import { labels } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import type { Containers } from './containers.ts';
import { hasDocker, type DockerInside } from './docker-inside.ts';
import { isOwnImage, type Images } from '../image/images.ts';
import type { Networks } from '../network/networks.ts';
import { generationOf, imageRefOf, isDockerOf, isOurs } from './observation.ts';

const imageList = z.array(
  z.object({
    Id: z.string(),
    RepoTags: z.array(z.string()).nullish(),
    Labels: z.record(z.string(), z.string()).nullish(),
    Created: z.number(),
  }),
);

const isHeld = (state: string): boolean => state === 'running' || state === 'restarting';

export interface OwnedObjects {
  list(signal: AbortSignal): Promise<OwnedObject[]>;
  discard(owned: OwnedObject, signal: AbortSignal): Promise<void>;
}

export function makeOwnedObjects(options: {
  client: Client;
  installation: string;
  containers: Containers;
  inside: DockerInside;
  networks: Networks;
  images: Images;
}): OwnedObjects {
  const { client, installation, containers, inside, networks, images } = options;
  const ours = { label: [`${labels.installation}=${installation}`] };

  async function containersOf(signal: AbortSignal): Promise<OwnedObject[]> {
    const found = await client.call(signal, (abortSignal) =>
      client.docker.listContainers({ all: true, filters: ours, abortSignal }),
    );
    const dockers = new Set(
      found.flatMap(({ Labels, State }) =>
        isDockerOf(Labels, installation) && isHeld(State) ? [Labels[labels.id] ?? ''] : [],
      ),
    );
    return found.flatMap(({ Labels, Names, State, Created, Image, Mounts }): OwnedObject[] => {
      const id = Labels[labels.id] ?? '';
      const about = {
        id,
        ownerId: Labels[labels.owner] ?? '',
        generation: generationOf(Labels),
        engineName: (Names[0] ?? '').replace(/^\//, ''),
        createdAtMs: Created * 1000,
      };
      if (isDockerOf(Labels, installation))
        return [{ ...about, kind: 'docker', running: isHeld(State), imageRef: null }];
      if (!isOurs(Labels, installation)) return [];
      const docker = dockers.has(id) ? 'running' : 'stopped';
      const imageRef = imageRefOf(Labels) ?? Image;
      const one: OwnedObject = { ...about, kind: 'instance', running: State === 'running', imageRef };
      return [hasDocker(Mounts) ? { ...one, docker } : one];
    });
  }

  async function accounts(signal: AbortSignal): Promise<OwnedObject[]> {
    return (await networks.list(signal)).map(({ Name, Labels, Created }): OwnedObject => {
      const owner = Labels?.[labels.owner] ?? '';
      return {
        kind: 'network',
        id: owner,
        ownerId: owner,
        generation: 0,
        running: false,
        engineName: Name,
        createdAtMs: Date.parse(Created) || 0,
        imageRef: null,
      };
    });
  }

  async function saved(signal: AbortSignal): Promise<OwnedObject[]> {
    const filters = encodeURIComponent(JSON.stringify({ label: [...ours.label, `${labels.kind}=image`] }));
    const answer = await client.get(`/images/json?filters=${filters}`, signal);
    return imageList.parse(answer).flatMap(({ Id, RepoTags, Labels, Created }) => {
      const named = [...(RepoTags ?? []), Id].find((name) => isOwnImage(installation, { RepoTags, Labels }, name));
      if (named === undefined) return [];
      const about = { id: Labels?.[labels.id] ?? '', ownerId: Labels?.[labels.owner] ?? '', generation: 0 };
      const owned: OwnedObject = {
        ...about,
        kind: 'image',
        running: false,
        engineName: named,
        createdAtMs: Created * 1000,
        imageRef: null,
      };
      return [owned];
    });
  }

  return {
    async list(signal) {
      const all = await Promise.all([containersOf(signal), accounts(signal), saved(signal)]);
      return all.flat();
    },
    discard({ kind, id, engineName }, signal) {
      switch (kind) {
        case 'instance':
          if (!isInstanceId(id)) return Promise.reject(new Error(`"${id}" is no instance's id`)); // it becomes a name of a folder
          return containers.discard(engineName, id, signal);
        case 'docker':
          if (!isInstanceId(id)) return Promise.reject(new Error(`"${id}" is no instance's id`));
          return containers.alone(id, signal, () => inside.discard(engineName, id, signal));
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
