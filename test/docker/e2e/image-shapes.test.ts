/**
 * Images in the shapes that people bring, and tags that move, on a real engine and registry: what
 * lists say of them, and how each is launched.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { findProgram } from '../../../scripts/lib/run.mjs';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import type { Limits } from '../../../src/domain/compute/instance-states.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { startDebianRegistries, type DebianRegistries } from '../engines/debian-registry.ts';
import { importBusybox, type ImageFile } from '../engines/docker-fixture.ts';
import { docker, until } from '../../fixtures/server-process.ts';
import { makeSshUser } from '../../fixtures/ssh-user.ts';
import { shell } from './container-shell.ts';
import { startInside, type ServerInside } from './in-process-server.ts';

const limits = { maxAttempts: 2, backOffBaseMs: 300, engineRetryMs: 200, stopGraceMs: 1_000 } satisfies Partial<Limits>;
const script = (content: string): ImageFile => ({ content: `#!/bin/sh\n${content}\n`, mode: 0o755 });

let registries: DebianRegistries;
let inside: ServerInside;
let folder: string;
const refs = new Set<string>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-shapes-'));
  registries = await startDebianRegistries();
  inside = await startInside({ nodePorts: '31200-31229', limits });
});
afterAll(async () => {
  await inside?.stop();
  for (const ref of refs) await docker.getImage(ref).remove({ force: true }).catch(ignoreMissing);
  await registries?.stop();
  await rm(folder, { recursive: true, force: true });
});

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Error && 'statusCode' in error && error.statusCode === 404)) throw error;
}

/** Builds an image on the host, and offers it to all accounts. */
async function offer(name: string, { files = {}, only, changes = [] }: Shape): Promise<string> {
  const ref = `berth.local/shape-${name}:${process.pid}`;
  refs.add(ref);
  await importBusybox(docker, ref, folder, files, only, changes);
  return inside.offer(ref);
}
interface Shape {
  files?: Record<string, ImageFile>;
  only?: string[];
  changes?: string[];
}

async function detailsOf(imageId: string) {
  const { images } = await inside.client.listImages({ pager: { currentPage: 1, pageSize: 100 } });
  return images.find((image) => image.imageId === imageId) ?? expect.fail();
}

async function run(options: Parameters<ServerInside['launch']>[0]): Promise<string> {
  const id = await inside.launch(options);
  await inside.sees(id, { status: 'Running', diagnosisReason: '' });
  return id;
}

const containerOf = (id: string) => docker.getContainer(containerName(instanceId(id)));

const consoleOf = async (id: string): Promise<string> =>
  (await containerOf(id).logs({ stdout: true, stderr: true })).toString();

/** Process 1 of the instance, as the kernel has it. */
const ofProcess1 = async (id: string): Promise<string[]> =>
  (await shell(id, `tr '\\0' ' ' </proc/1/cmdline; echo; readlink /proc/1/cwd; sed -n 's/^Uid:.//p' /proc/1/status`))
    .trim()
    .split('\n');

test('a tag that moved is followed by the next launch alike, and a registry that is away stops nobody', async () => {
  const ref = `${registries.open}/team/app:latest`;
  refs.add(ref);
  const push = async (version: string): Promise<void> => {
    await importBusybox(docker, ref, folder, { '/version': { content: version, mode: 0o644 } });
    const said = await text(await docker.getImage(ref).push({ authconfig: {} }));
    if (said.includes('"error"')) throw new Error(said);
  };
  const versionOf = (id: string): Promise<string> => shell(id, 'cat /version');
  await push('1');
  const { imageId: own } = await inside.client.createImage({ name: 'own', ref });
  const offered = await inside.client.createCatalogImage({ name: 'app', ref, tags: [] });
  const { imageId } = offered.image;
  const first = await run({ imageId });
  expect(await versionOf(first)).toBe('1');
  const before = await detailsOf(imageId);
  expect(before.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  const { Id: old } = await docker.getImage(ref).inspect();
  refs.add(old);

  // The registry moves on; the host still has the first under the tag.
  await push('2');
  await docker.getImage(old).tag({ repo: `${registries.open}/team/app`, tag: 'latest' });
  const second = await run({ imageId });
  expect(await versionOf(second)).toBe('2');
  expect(await versionOf(await run({ imageId: own }))).toBe('2');
  expect(await versionOf(first), 'a running instance keeps its image').toBe('1');
  const after = await detailsOf(imageId);
  expect(after).toMatchObject({ isNewerAvailable: false, details: { shell: true, sshd: false, jupyter: false } });
  expect(after.digest).not.toBe(before.digest);
  expect((await detailsOf(own)).digest).toBe(after.digest);

  await registries.stop();
  const without = await run({ imageId });
  const { instanceRuntimeInfo } = await inside.sees(without, { status: 'Running' });
  expect(instanceRuntimeInfo.message).toContain('the registry gave no image now');
  expect(await versionOf(without)).toBe('2');
  expect(await versionOf(await run({ imageId: own }))).toBe('2');
  await expect(inside.client.refreshImage({ imageId: own })).resolves.toMatchObject({ imageId: own });
});

test('user 1000 with a PATH and home of its own: its command runs as it is, with the variables of the instance', async () => {
  const imageId = await offer('user', {
    files: {
      '/opt/conda/bin/serve': script(
        'echo "home $HOME color $COLOR"; touch /data/own; exec httpd -f -p 8000 -h /srv/ann',
      ),
      '/srv/ann/index.html': { content: 'of ann', mode: 0o644 },
      '/etc/passwd': { content: 'root:x:0:0::/root:/bin/sh\nann:x:1000:100::/srv/ann:/bin/sh\n', mode: 0o644 },
    },
    changes: [
      'ENV PATH=/opt/conda/bin:/bin',
      'USER 1000',
      'WORKDIR /srv/ann',
      'CMD ["serve"]',
      'EXPOSE 8000',
      'HEALTHCHECK CMD wget -q -O /dev/null http://127.0.0.1:8000/',
    ],
  });
  const type = 'filesystem';
  const disk = { name: randomUUID(), sizeGB: 1, region: inside.server.example.region, volumeType: type } as const;
  const { id: remoteStorageId } = (await inside.client.createVolume(disk)).volume;
  const mount = { mountPath: '/data', remoteStorageName: disk.name, remoteStorageId, type } as const;
  const id = await run({
    imageId,
    runImageCommand: true,
    environment: { COLOR: "it's blue" },
    remoteStorages: [mount],
  });
  expect(await shell(id, 'stat -c %u:%g /data /data/own /root/dataDisk')).toBe('1000:100\n'.repeat(3));
  expect(await detailsOf(imageId)).toMatchObject({
    digest: '',
    details: {
      command: ['serve'],
      user: '1000',
      workingDir: '/srv/ann',
      ports: [8000],
      healthCheck: ['wget -q -O /dev/null http://127.0.0.1:8000/'],
      shell: true,
      sshd: false,
      jupyter: false,
    },
  });
  const [command, cwd, uids] = await ofProcess1(id);
  expect(command).toContain('httpd -f -p 8000');
  expect(cwd).toBe('/srv/ann');
  expect(uids).toContain('1000');
  expect(await consoleOf(id)).toContain("home /srv/ann color it's blue");
  const { ports } = await inside.client.listPorts({ instanceId: id });
  expect(ports).toMatchObject([{ port: 8000, access: 'owner' }]);

  const person = await makeSshUser();
  onTestFinished(() => person.remove());
  await inside.client.createSshKey({ name: randomUUID(), publicKey: person.publicKey });
  await inside.client.restart({ instanceId: id });
  await until(
    () => consoleOf(id),
    (lines) => lines.split('home /srv/ann').length === 3,
  );
  const { instanceSpecInfo } = await inside.sees(id, { status: 'Running', phase: 'Ready' });
  const { nodePort } = instanceSpecInfo.nodePorts.find(({ port }) => port === 22) ?? expect.fail();
  const said = await person.sh(nodePort, `$SSH 'id -u; echo $COLOR; ls /data'`);
  expect(said).toMatchObject({ code: 0, stdout: "0\nit's blue\nown\n" });

  const refused = { status: 400, message: expect.stringContaining('must be empty') };
  await expect(inside.client.updateInstance({ instanceId: id, startCommand: 'true' })).rejects.toMatchObject(refused);
  for (const scripts of [{ initScript: 'true' }, { startCommand: 'true' }])
    await expect(inside.launch({ imageId, runImageCommand: true, ...scripts })).rejects.toMatchObject(refused);
});

test('an entry point that must be process 1 is process 1, and its end is a start as for others', async () => {
  const imageId = await offer('entry', {
    files: {
      '/entry': script('[ $$ -eq 1 ] || exit 9\necho "entry: $*"\ntrap "exit 0" TERM\nwhile :; do sleep 1; done'),
    },
    changes: ['ENTRYPOINT ["/entry"]', 'CMD ["-g", "serve it"]', 'WORKDIR /tmp'],
  });
  const id = await run({ imageId, runImageCommand: true });
  const [command, cwd] = await ofProcess1(id);
  expect(command).toContain('/entry -g serve it');
  expect(cwd).toBe('/tmp');
  expect(await consoleOf(id)).toContain('entry: -g serve it');
  await inside.client.stop({ instanceId: id });
  await inside.sees(id, { status: 'Stopped' });
  expect((await containerOf(id).inspect()).State.ExitCode).toBe(0);
  await inside.client.start({ instanceId: id });
  await inside.sees(id, { status: 'Running' });
  expect(await consoleOf(id)).toMatch(/serve it[^]*serve it/);
  await containerOf(id).kill();
  await inside.sees(id, { status: 'Running', diagnosisReason: '' });
});

test('tini before a command for user 1000: left out of the start script, and process 1 of its own command', async () => {
  // tini, without libraries.
  const tini = await readFile(findProgram('docker-init') ?? expect.fail('the engine has no docker-init'));
  const imageId = await offer('tini', {
    files: {
      '/usr/bin/tini': { content: tini, mode: 0o755 },
      '/opt/conda/bin/lab': script(
        // Process 1 ends with it, and takes a page along that still writes its line.
        'echo "lab: $*"\ntrap "wait; echo lab ended; exit 0" TERM\npage &\nwhile :; do wait; done',
      ),
      '/opt/conda/bin/page': script('trap "echo page ended; exit 0" TERM\nwhile :; do sleep 0.1; done'),
      '/etc/passwd': { content: 'root:x:0:0::/root:/bin/sh\njovyan:x:1000:100::/tmp:/bin/sh\n', mode: 0o644 },
    },
    changes: [
      'ENV PATH=/opt/conda/bin:/bin',
      'ENTRYPOINT ["/usr/bin/tini", "-g", "--"]',
      'CMD ["lab", "--port 8888"]',
      'USER 1000',
    ],
  });
  const usual = await run({ imageId });
  const [started, , root] = await ofProcess1(usual);
  expect(started).toContain('/bin/sh /etc/berth/start');
  expect(root).toMatch(/^0\t0/);
  expect(await consoleOf(usual)).not.toContain('lab:');

  const id = await run({ imageId, runImageCommand: true });
  const [command, , uids] = await ofProcess1(id);
  expect(command).toMatch(/^\/usr\/bin\/tini -g -- lab --port 8888 ?$/);
  expect(uids).toMatch(/^1000\t1000/);
  await until(
    () => consoleOf(id),
    (lines) => lines.includes('lab: --port 8888'),
  );
  for (const one of [usual, id]) {
    await inside.client.stop({ instanceId: one });
    await inside.sees(one, { status: 'Stopped' });
    expect((await containerOf(one).inspect()).State.ExitCode).toBe(0);
  }
  const said = await consoleOf(id);
  expect(said, 'tini -g ends the whole group').toContain('page ended');
  expect(said).toContain('lab ended');
});

test('a server of models without a shell runs by its own command, and is refused without it before a try', async () => {
  const imageId = await offer('bare', {
    only: ['busybox', 'httpd'],
    files: { '/srv/v1/models': { content: '{"data":[]}', mode: 0o644 } },
    changes: ['ENTRYPOINT ["/bin/httpd"]', 'CMD ["-f", "-p", "8000", "-h", "/srv"]', 'EXPOSE 8000/tcp 53/udp'],
  });
  const refused = await inside.launch({ imageId });
  const why = await inside.givenUp(refused, { status: 'InitializationFailed', reason: 'ImageUnfit' });
  expect(why).toMatch(/^this image has no \/bin\/sh, and Berth needs one/);
  expect(await inside.story(refused)).not.toContain('Starting/Queued/ContainerExited');
  await expect(inside.launch({ imageId }), 'known from now on').rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining('this image has no /bin/sh'),
  });
  expect((await detailsOf(imageId)).details).toMatchObject({ shell: false, ports: [8000] });

  const id = await run({ imageId, runImageCommand: true, nodePorts: [8000] });
  const { instanceSpecInfo } = await inside.sees(id, { status: 'Running' });
  const { nodePort } = instanceSpecInfo.nodePorts.find(({ port }) => port === 8000) ?? expect.fail();
  const answer = await fetch(`http://127.0.0.1:${nodePort}/v1/models`);
  expect(await answer.json()).toEqual({ data: [] });
});

test('an image with volumes and without a command: shown, launched by the start script, refused by its own', async () => {
  const imageId = await offer('volumes', { changes: ['VOLUME ["/data", "/var/lib/db"]', 'EXPOSE 1000-1200'] });
  const id = await run({ imageId });
  expect((await detailsOf(imageId)).details).toMatchObject({
    volumes: ['/data', '/var/lib/db'],
    user: '',
    ports: Array.from({ length: 100 }, (_, at) => 1000 + at),
  });
  expect((await ofProcess1(id))[2]).toMatch(/^0\t0/);
  await expect(inside.launch({ imageId, runImageCommand: true })).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining('this image declares no command'),
  });
  const containers = await docker.listContainers({ all: true });
  expect(containers.flatMap(({ Names }) => Names.filter((name) => name.startsWith('/berth-look-')))).toEqual([]);
});
