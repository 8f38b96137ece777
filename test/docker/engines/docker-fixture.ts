/**
 * Fixture of the Docker engine: a real daemon (`DOCKER_HOST` or the default socket), a tiny image
 * of Debian's static busybox, and removal of every created object.
 */
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { access, chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type Docker from 'dockerode';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { z } from 'zod';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import { endpointOf, makeDockerClient, type Endpoint } from '../../../src/docker/docker-client.ts';
import { idMappedFolder, makeIdMappedMounts } from '../../../src/engines/docker/container/id-mapped-mounts.ts';
import { makeControlFiles } from '../../../src/engines/docker/container/control-files.ts';
import { makeControlVolumes } from '../../../src/engines/docker/container/control-volumes.ts';
import { makeDockerEngine, type DockerEngineOptions } from '../../../src/engines/docker/docker.ts';
import { makeHost, NO_JOINS, NO_SOCKETS, type HostFacts } from '../../../src/engines/docker/client/host-facts.ts';
import { makeIsolation, type IsolationConfig } from '../../../src/engines/docker/host/isolation.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { Engine } from '../../../src/engines/contract.ts';
import { containerName, dockerName, labels, networkName } from '../../../src/engines/labels.ts';
import { buildRecipe } from '../../../src/engines/docker/image/build.ts';
import { readRecipe, recipeRef } from '../../../src/engines/docker/image/recipes.ts';
import { splitRef } from '../../../src/engines/docker/image/refs.ts';
import { credentials, startDebianRegistries, type DebianRegistries } from './debian-registry.ts';
import { machineTime, type Fixture, type Neighbour } from '../../conformance/fixture.ts';
import { makeSubject, until, type Subject } from '../../conformance/subject.ts';

const run = promisify(execFile);

/** The machine's own daemon. */
export const endpoint: Endpoint = endpointOf(process.env['DOCKER_HOST'] ?? '/var/run/docker.sock');

const DOCKER_RECIPE = path.join(import.meta.dirname, '../../../images/docker-inside');

/** Leaves the machine's limits as they are. */
export const isolation: IsolationConfig = { kernelLimits: 'check', hostMemoryMiB: 1_024, diskRates: [] };

/** Pauses a container: on a busy host the runtime gives up freezing, and may be asked again. */
export async function pauseContainer(container: Docker.Container): Promise<void> {
  await until('the engine pauses the container', async () => {
    await container.pause().catch(() => {});
    return (await container.inspect()).State.Paused;
  });
}

/** End of a tar: two empty blocks. */
const emptyTar = Buffer.alloc(1024);

export interface DockerFixture extends Fixture {
  /** Client without the engine. */
  docker: Docker;
  facts: HostFacts;
  stateFolder: string;
  /** Warnings of the engine's log. */
  warnings: string[];
  make(options?: Partial<DockerEngineOptions>): Engine;
  inspect(id: InstanceId): Promise<Docker.ContainerInspectInfo>;
}

/**
 * Passes a daemon's fixture to the tests of a file, cleans up after each, and removes all at the
 * end.
 */
export function onDocker(hand: (made: { fixture: DockerFixture; subject: Subject }) => void): void {
  let made: { fixture: DockerFixture; subject: Subject } | undefined;
  beforeAll(async () => {
    const fixture = await makeDockerFixture();
    made = { fixture, subject: makeSubject(fixture) };
    hand(made);
  });
  afterEach(() => made?.subject.clear());
  afterAll(() => made?.fixture.stop());
}

/** `unreachable`: options of an engine that does not answer, other than a socket of nobody. */
export async function makeDockerFixture(
  daemon = endpoint,
  unreachable: Partial<DockerEngineOptions> = {},
): Promise<DockerFixture> {
  const client = makeDockerClient(daemon);
  const { docker } = client;
  const mode = 'rootless';
  const warnings: string[] = [];
  const log = {
    debug: () => {},
    info: () => {},
    warn: (...said: unknown[]) => void warnings.push(said.map(String).join(' ')),
  };
  const ensureFirewall = async () => ({ connectionLimit: false, linkLocalClosed: false, egressPolicy: false });
  const ensureIsolation = makeIsolation(isolation, ensureFirewall, log);
  const { Driver } = z.object({ Driver: z.string() }).parse(await docker.info());
  const facts = await makeHost(client, mode, ensureIsolation).facts(AbortSignal.timeout(20_000));
  const recipe = await readRecipe(DOCKER_RECIPE);
  const installation = randomUUID();
  const installations = new Set<string>([installation]);
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-docker-'));
  const stateFolder = path.join(folder, 'state');
  const imageRef = `berth.local/test-busybox:${installation}`;
  const engines: Engine[] = [];
  const others: Neighbour[] = [];
  let debian: Promise<DebianRegistries> | undefined;

  const buildLocalImage: DockerEngineOptions['buildLocalImage'] = async (ref, onProgress, signal) => {
    if (ref === recipeRef(recipe)) return buildRecipe({ docker, recipe, folder: DOCKER_RECIPE, signal, onProgress });
    throw new EngineFault('not_found', `there is no recipe for ${ref}`, { retry: false, reason: 'imageMissing' });
  };

  const make = (options: Partial<DockerEngineOptions> = {}): Engine => {
    installations.add(options.installation ?? installation);
    const dockerInside = { mode, imageRef: recipeRef(recipe) } as const;
    const engine = makeDockerEngine({
      endpoint: daemon,
      installation,
      stateFolder,
      log,
      dockerInside,
      buildLocalImage,
      isolation,
      ...(client.local ? {} : { helperImage: imageRef }),
      ...options,
    });
    engines.push(engine);
    return engine;
  };

  async function removeAll(): Promise<void> {
    for (const other of others) await other.remove();
    for (const one of installations) {
      const filters = { label: [`${labels.installation}=${one}`] };
      for (const { Id } of await docker.listContainers({ all: true, filters })) {
        await docker.getContainer(Id).remove({ force: true, v: true });
      }
      for (const { Id } of await docker.listNetworks({ filters })) await docker.getNetwork(Id).remove();
      const { Volumes } = await docker.listVolumes({ filters });
      for (const { Name } of Volumes) await unlessGone(docker.getVolume(Name).remove());
      for (const { Id } of await docker.listImages({ filters: JSON.stringify(filters) })) {
        await unlessGone(docker.getImage(Id).remove({ force: true }));
      }
    }
    await docker.getImage(imageRef).remove({ force: true });
  }

  await importBusybox(docker, imageRef, folder);
  return {
    docker,
    facts,
    stateFolder,
    warnings,
    make,
    inspect: (id) => docker.getContainer(containerName(id)).inspect(),
    engine: make(),
    time: machineTime,
    installation,
    imageRef,
    missingImageRef: `berth.local/not-there:${installation}`,
    nodePortAddress: '127.0.0.1',
    releaseNodePort,
    hostFolder: () => mkdtemp(path.join(folder, 'host-')),
    async mountSource(source) {
      if (client.local) return source;
      // The engine elsewhere is on this machine, too: a volume can show a folder of the test.
      const DriverOpts = { type: 'none', o: 'bind', device: source };
      const Labels = { [labels.installation]: installation };
      const Name = randomUUID();
      await docker.createVolume({ Name, Driver: 'local', DriverOpts, Labels });
      return Name;
    },
    engineName: containerName,
    again: async () => make(),
    elsewhere: async (other) => make({ installation: other, stateFolder: path.join(folder, `state-${other}`) }),
    unreachable: async () => make({ endpoint: { socketPath: path.join(folder, 'nobody.sock') }, ...unreachable }),
    async neighbour({ name, labels: Labels }) {
      const container = await docker.createContainer({
        name,
        Image: imageRef,
        Entrypoint: ['sleep', '3600'],
        Labels,
        HostConfig: { NetworkMode: 'none' },
      });
      await container.start();
      const { Id, State } = await container.inspect();
      const neighbour: Neighbour = {
        untouched: () =>
          container.inspect().then(
            (now) => now.Id === Id && now.State.Running && now.State.StartedAt === State.StartedAt,
            () => false,
          ),
        remove: () => unlessGone(container.remove({ force: true, v: true })),
      };
      others.push(neighbour);
      return neighbour;
    },
    async neighbourNetwork({ name, labels: Labels }) {
      const Config = [{ Subnet: '10.213.0.0/28' }];
      const network = await docker.createNetwork({ Name: name, Labels, IPAM: { Driver: 'default', Config } });
      const neighbour: Neighbour = {
        untouched: () =>
          network.inspect().then(
            () => true,
            () => false,
          ),
        remove: () => unlessGone(network.remove()),
      };
      others.push(neighbour);
      return neighbour;
    },
    async neighbourImage({ ref, labels: Labels }) {
      const changes = Object.entries(Labels).map(([name, value]) => `LABEL ${name}=${JSON.stringify(value)}`);
      const { repository: repo, tag } = splitRef(ref);
      const answer = await text(await docker.importImage(Readable.from([emptyTar]), { repo, tag, changes }));
      if (answer.includes('"error"')) throw new Error(answer);
      const image = docker.getImage(ref);
      const { Id } = await image.inspect();
      const neighbour: Neighbour = {
        untouched: () =>
          image.inspect().then(
            (now) => now.Id === Id,
            () => false,
          ),
        remove: () => unlessGone(image.remove({ force: true })),
      };
      others.push(neighbour);
      return neighbour;
    },
    async registries() {
      debian ??= startDebianRegistries();
      const { open, closed } = await debian;
      return { open, closed, credentials, wrongCredentials: { username: 'berth', secret: 'barnacle' } };
    },
    async leaveHalfMade(spec) {
      const ensureImage = async (): Promise<void> => {};
      const files = client.local
        ? makeControlFiles(stateFolder)
        : makeControlVolumes({ client, installation, helperImage: imageRef, ensureImage });
      await files.write(spec.id, [], AbortSignal.timeout(20_000));
      const network = networkName(installation, spec.ownerId);
      const ours = { [labels.installation]: installation, [labels.kind]: 'network', [labels.owner]: spec.ownerId };
      await docker.createNetwork({ Name: network, Labels: { ...ours, [labels.id]: spec.ownerId } });
      const placement = { installation, network, controlFolder: files.source(spec.id), gpuIds: [], host: facts };
      const mounts = makeIdMappedMounts(idMappedFolder(stateFolder));
      await docker.createContainer(await mounts.open(createOptions(spec, placement), facts.userNamespace));
      await mounts.stop();
    },
    async stopOutside(id) {
      await docker.getContainer(containerName(id)).kill();
    },
    async connectUnix(id, pathInside) {
      // Through the mounts of its processes.
      const { State } = await docker.getContainer(containerName(id)).inspect();
      const connection = net.connect({ path: `/proc/${State.Pid}/root${pathInside}`, allowHalfOpen: true });
      await once(connection, 'connect');
      return connection;
    },
    async loseDocker(id) {
      await docker.getContainer(dockerName(id)).remove({ force: true });
    },
    async dropImage(ref) {
      await unlessGone(docker.getImage(ref).remove({ force: true }));
    },
    generationFollows: 'creation',
    lacks: {
      ...(facts.whyNoDocker === null ? {} : { dockerInside: facts.whyNoDocker }),
      ...(facts.nsenter === null ? { joinNetwork: NO_JOINS } : {}),
      // The image store of containerd: `overlay2` is Docker's own.
      ...(Driver === 'overlayfs' ? { pushProgress: 'the engine looks at its pushes ten times a second' } : {}),
      ...(client.local ? {} : { listenUnix: NO_SOCKETS }),
    },
    async stop() {
      try {
        await Promise.all(engines.map((engine) => engine.stop()));
        await removeAll();
      } finally {
        await debian?.then((registries) => registries.stop());
        client.stop();
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

async function unlessGone(removal: Promise<unknown>): Promise<void> {
  await removal.catch((error: unknown) => {
    if (!(error instanceof Error && 'statusCode' in error && error.statusCode === 404)) throw error;
  });
}

async function releaseNodePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

/** File of an image, by its absolute path. */
export interface ImageFile {
  content: string | Buffer;
  mode: number;
}

/**
 * Stand-in for `/usr/sbin/sshd` that sends only the banner, the sign of readiness. Silent while
 * `/tmp/silent` exists.
 */
export const bannerOfSshd: ImageFile = {
  mode: 0o755,
  content: `#!/bin/sh
for word; do [ "$word" = -t ] && exit 0; done
while :; do
  if [ -e /tmp/silent ]; then sleep 0.1; else echo SSH-2.0-tiny | nc -l -p 22 -w 5; fi
done
`,
};

/**
 * Imports busybox under `ref`, with all applets or `only` these, `files`, and `changes`: lines of a
 * Dockerfile. The caller removes `folder`.
 */
export async function importBusybox(
  docker: Docker,
  ref: string,
  folder: string,
  files: Readonly<Record<string, ImageFile>> = {},
  only?: readonly string[],
  changes: readonly string[] = [],
): Promise<void> {
  const busybox = '/bin/busybox';
  if (
    !(await access(busybox).then(
      () => true,
      () => false,
    ))
  )
    await run('apt-get', ['install', '-y', 'busybox-static']);
  const root = await mkdtemp(path.join(folder, 'root-'));
  await chmod(root, 0o755);
  for (const name of ['bin', 'etc', 'root', 'tmp', 'proc', 'sys', 'dev'])
    await mkdir(path.join(root, name), { recursive: true });
  await copyFile(busybox, path.join(root, 'bin/busybox'));
  await chmod(path.join(root, 'bin/busybox'), 0o755);
  const { stdout: applets } = await run(busybox, ['--list']);
  for (const applet of only ?? applets.trim().split('\n')) {
    if (applet !== 'busybox') await symlink('busybox', path.join(root, 'bin', applet));
  }
  for (const [name, { content, mode }] of Object.entries(files)) {
    const file = path.join(root, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, content);
    await chmod(file, mode);
  }
  const tar = spawn('tar', ['-C', root, '--owner=0', '--group=0', '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [repo, tag] = [ref.slice(0, ref.lastIndexOf(':')), ref.slice(ref.lastIndexOf(':') + 1)];
  const answer = await text(await docker.importImage(tar.stdout, { repo, tag, changes: [...changes] }));
  if (answer.includes('"error"')) throw new Error(answer);
}
