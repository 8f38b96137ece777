/** Describes a present image. A container created and never started shows the programs. */
import { z } from 'zod';
import { makeBoundedMap } from '../../../async/bounded-map.ts';
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { abortFault, isContainerGone, statusOf } from '../../../docker/faults.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { PROGRAM_FOLDERS, type ImageFacts } from '../../../domain/regions/image-facts.ts';
import type { Engine } from '../../contract.ts';
import type { DockerImages, ImageInfo } from './images.ts';
import { listedRef, splitRef } from './refs.ts';

const MAX_LOOKED_INTO = 1_000;
const MAX_FOLDERS = 40;
/** Limits ports, and volumes: an image may declare each port that there is. */
const MAX_DECLARED = 100;
const MAX_LINKS = 8;
const JUPYTERS = ['jupyter-lab', 'jupyter-notebook', 'jupyter-server'];

const texts = z.array(z.string()).nullish();
const named = z.record(z.string(), z.unknown()).nullish();
const settings = z.object({
  Env: texts,
  Entrypoint: texts,
  Cmd: texts,
  User: z.string().nullish(),
  WorkingDir: z.string().nullish(),
  ExposedPorts: named,
  Volumes: named,
  Healthcheck: z.object({ Test: texts }).nullish(),
});
type Settings = z.infer<typeof settings>;

export const settingsOf = ({ Config }: Pick<ImageInfo, 'Config'>): Settings => settings.parse(Config ?? {});

const fileStat = z.object({ mode: z.number(), linkTarget: z.string() });
const FOLDER = 0x8000_0000;
const LINK = 0x0800_0000;
const EXECUTABLE = 0o111;

export function makeDescribeImage(deps: {
  client: DockerClient;
  installation: string;
  images: Pick<DockerImages, 'inspect'>;
}): Engine['describeImage'] {
  const { client, installation, images } = deps;
  const { docker, call } = client;
  const lookedInto = makeBoundedMap<NonNullable<ImageFacts['contains']>>({ maxEntries: MAX_LOOKED_INTO });
  const mutex = makeKeyedMutex<string>({ abortError: abortFault });

  async function lookInto(imageId: string, { Env, Volumes }: Settings, signal: AbortSignal) {
    const name = `berth-look-${installation.slice(0, 8)}-${imageId.replace('sha256:', '').slice(0, 12)}`;
    const remove = (): Promise<unknown> =>
      docker
        .getContainer(name)
        .remove({ force: true, v: true })
        .catch((error: unknown) => {
          if (!isContainerGone(error)) throw error;
        });
    await call(signal, remove);
    const Tmpfs = Object.fromEntries(Object.keys(Volumes ?? {}).map((path) => [path, '']));
    const HostConfig = { NetworkMode: 'none', Tmpfs };
    const request = { name, Image: imageId, Entrypoint: ['/never'], Cmd: [], HostConfig, abortSignal: signal };
    const container = await call(signal, () => docker.createContainer(request));

    const runs = async (path: string, links = 0): Promise<boolean> => {
      try {
        const answer = await call(signal, (abortSignal) => container.infoArchive({ path, abortSignal }));
        const { mode, linkTarget } = statIn(answer);
        if ((mode & LINK) === 0) return (mode & FOLDER) === 0 && (mode & EXECUTABLE) !== 0;
        return linkTarget !== '' && links < MAX_LINKS && (await runs(linkTarget, links + 1));
      } catch (error) {
        if (statusOf(error) === 404) return false;
        throw error;
      }
    };
    const has = async (programs: readonly string[]): Promise<boolean> => {
      for (const folder of foldersOf(Env ?? [])) {
        for (const program of programs) if (await runs(`${folder}/${program}`)) return true;
      }
      return false;
    };
    try {
      const [shell, sshd, jupyter] = await Promise.all([runs('/bin/sh'), has(['sshd']), has(JUPYTERS)]);
      return { shell, sshd, jupyter };
    } finally {
      await call(signal, remove).catch(() => {});
    }
  }

  return async (ref, signal) => {
    const info = await images.inspect(ref, signal);
    if (info === null) return null;
    const config = settingsOf(info);
    const contains = await mutex.run(
      info.Id,
      async () => {
        const known = lookedInto.get(info.Id);
        if (known !== undefined) return known;
        const found = await lookInto(info.Id, config, signal);
        lookedInto.set(info.Id, found);
        return found;
      },
      signal,
    );
    return { ...factsOf(ref, info, config), contains };
  };
}

function factsOf(ref: string, info: ImageInfo, config: Settings): Omit<ImageFacts, 'contains'> {
  const repository = repositoryOf(ref);
  const createdAtMs = Date.parse(info.Created ?? '');
  const [kind = '', ...test] = config.Healthcheck?.Test ?? [];
  return {
    digests: (info.RepoDigests ?? [])
      .filter((named) => repositoryOf(named) === repository)
      .map((named) => splitRef(named).tag)
      .toSorted(),
    createdAtMs: createdAtMs > 0 ? createdAtMs : 0,
    sizeBytes: info.Size,
    declares: {
      entrypoint: config.Entrypoint ?? [],
      command: config.Cmd ?? [],
      user: config.User ?? '',
      workingDir: config.WorkingDir ?? '',
      ports: Object.keys(config.ExposedPorts ?? {})
        .filter((port) => !port.endsWith('/udp') && !port.endsWith('/sctp'))
        .map((port) => Number.parseInt(port, 10))
        .filter((port) => port > 0 && port < 65_536)
        .toSorted((a, b) => a - b)
        .slice(0, MAX_DECLARED),
      volumes: Object.keys(config.Volumes ?? {})
        .toSorted()
        .slice(0, MAX_DECLARED),
      healthCheck: kind === 'CMD' || kind === 'CMD-SHELL' ? test : [],
    },
  };
}

const repositoryOf = (ref: string): string => {
  const listed = listedRef(splitRef(ref).repository);
  return listed.slice(0, listed.lastIndexOf(':'));
};

function foldersOf(env: readonly string[]): string[] {
  const ofImage = env.findLast((line) => line.startsWith('PATH='))?.slice('PATH='.length) ?? '';
  const absolute = ofImage.split(':').filter((folder) => folder.startsWith('/'));
  return [...new Set([...absolute.slice(0, MAX_FOLDERS), ...PROGRAM_FOLDERS])];
}

const STAT_HEADER = 'x-docker-container-path-stat';

function statIn(answer: unknown): z.infer<typeof fileStat> {
  const { headers } = z.object({ headers: z.record(z.string(), z.unknown()) }).parse(answer);
  return fileStat.parse(JSON.parse(Buffer.from(String(headers[STAT_HEADER]), 'base64').toString()));
}
