/**
 * The whole program on an engine with user namespaces, and the way there for an installation
 * without: instances are archived, then started on the engine with another data folder.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { setUpUserNamespaces } from '../../../scripts/lib/user-namespaces.mjs';
import type { LaunchRequest } from '../../../src/contract/compute/instance.ts';
import { BUILD_DEADLINE_MS, copyDefaultImage } from '../../fixtures/default-images.ts';
import { firstLaunchRequest, nodePortOf, running } from '../../fixtures/first-launch.ts';
import { runCell } from '../../fixtures/jupyter.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';
import { shell } from './container-shell.ts';
import { makeSshUser, type SshUser } from '../../fixtures/ssh-user.ts';
import { startOwnEngine, type OwnEngine } from './test-engine.ts';

const run = promisify(execFile);
const TUN = '/dev/net/tun';

/** As many ids as a rootless Docker inside needs. */
const ids = { user: 'mail', first: 2_200_000_000, count: 1_879_179_264 };
const VOLUME = '/root/kept';

let tunMode: number;
let user: SshUser;
beforeAll(async () => {
  tunMode = (await stat(TUN)).mode & 0o777;
  await chmod(TUN, 0o666);
  user = await makeSshUser();
});
afterAll(async () => {
  await chmod(TUN, tunMode);
  await user?.remove();
});

/** As the commands in `docs/operate.md`. */
const engineCli = ({ dockerHost }: OwnEngine, ...args: string[]) => run('docker', ['--host', dockerHost, ...args]);

interface Running {
  server: ServerProcess;
  client: Client;
  token: string;
}

async function serve(engine: OwnEngine, nodePorts: string, pool: string): Promise<Running> {
  const settings = { DOCKER_HOST: engine.dockerHost, BERTH_POOL: pool };
  const server = await startServerProcess({ nodePorts, settings });
  const { client, token } = await login(server);
  await client.createSshKey({ name: 'laptop', publicKey: user.publicKey });
  // Launches with Docker are refused until the engine has answered.
  await until(
    () => client.listRegions(),
    ({ regions }) => regions[0]?.capabilities.dockerInside !== undefined,
  );
  return { server, client, token };
}

/** Launches the default image with a volume; returns the ids of both. */
async function launch(client: Client, more: Partial<LaunchRequest['instanceConfiguration']> = {}) {
  const request = await firstLaunchRequest(client, { name: 'remapped' });
  const disk = { name: 'kept', sizeGB: 1, region: request.region, volumeType: 'filesystem' } as const;
  const { volume } = await client.createVolume(disk);
  const mount = { mountPath: VOLUME, remoteStorageName: 'kept', remoteStorageId: volume.id, type: 'filesystem' };
  const { instanceId } = await client.launch({
    ...request,
    remoteStorages: [mount],
    instanceConfiguration: { ...request.instanceConfiguration, ...more },
  });
  await running(client, instanceId);
  return { id: instanceId, volumeId: volume.id };
}

async function reaches(client: Client, instanceId: string, status: string): Promise<void> {
  await until(
    () => client.getInstance({ instanceId }),
    ({ instance }) => instance.instanceRuntimeInfo.status === status,
  );
}

const sshPort = async (client: Client, instanceId: string): Promise<number> =>
  nodePortOf((await client.getInstance({ instanceId })).instance, 22).nodePort;

/** Runs a script over ssh; returns what it printed. */
async function ssh(client: Client, id: string, script: string): Promise<string> {
  const { code, stdout, stderr } = await user.sh(await sshPort(client, id), '$SSH sh -s', script);
  expect(code, stderr + stdout).toBe(0);
  return stdout;
}

const FILES = ['/root/of-root', '/opt/of-ada', '/root/dataDisk/of-ada', `${VOLUME}/of-ada`];
const writeFiles = `set -e
  useradd --uid 1000 ada
  for file in ${FILES.join(' ')}; do echo $file >$file; chmod 600 $file; done
  chown 1000:1000 /opt/of-ada /root/dataDisk/of-ada ${VOLUME}/of-ada`;
const readFiles = `set -e
  cat ${FILES.join(' ')}
  stat -c %u:%g:%a ${FILES.join(' ')}
  su ada -c 'cat /opt/of-ada'`;
const FILES_READ = `${FILES.join('\n')}
0:0:600
1000:1000:600
1000:1000:600
1000:1000:600
/opt/of-ada
`;

describe.each([
  ['image files', 'engine=image-file,size=200,overcommit=100', '32330-32339'],
  ['folders', 'engine=directory,overcommit=100', '32340-32349'],
] as const)('an instance on an engine with user namespaces, disks in %s', (_, pool, nodePorts) => {
  let engine: OwnEngine;
  let server: ServerProcess;
  let client: Client;
  let token: string;
  let id: string;
  let volumeId: string;
  beforeAll(async () => {
    engine = await startOwnEngine({ ids });
    await copyDefaultImage(engine.docker, 'notebook');
    ({ server, client, token } = await serve(engine, nodePorts, pool));
    ({ id, volumeId } = await launch(client));
  }, BUILD_DEADLINE_MS);
  afterAll(async () => {
    await server?.stop();
    await engine?.stop();
  });

  test('has root inside that is no root of the host, over ssh too', async () => {
    const { regions } = await client.listRegions();
    expect(regions[0]?.capabilities).toMatchObject({ isolation: { userNamespaces: 'shared' } });
    expect(await ssh(client, id, 'id -u; tr -s " " </proc/self/uid_map')).toBe(`0\n 0 ${ids.first} ${ids.count}\n`);
  });

  test('gives files that come by scp to root, and serves those of others', async () => {
    await writeFile(join(user.folder, 'file'), 'by scp', { mode: 0o600 });
    const copied = await user.sh(
      await sshPort(client, id),
      `set -e; cd $DIR; for to in /root ${VOLUME} /root/dataDisk; do scp -q $SSH_OPTIONS -P $PORT file root@127.0.0.1:$to/by-scp
       scp -q $SSH_OPTIONS -P $PORT root@127.0.0.1:$to/by-scp back; cmp file back; rm back; done`,
    );
    expect(copied).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await ssh(client, id, `stat -c %u:%g:%a /root/by-scp ${VOLUME}/by-scp /root/dataDisk/by-scp`)).toBe(
      '0:0:600\n0:0:600\n0:0:600\n',
    );
  });

  test('shares files of a volume with the files API, with their owners', async () => {
    const headers = { authorization: `Bearer ${token}` };
    const file = (name: string) => `${server.apiUrl}/api/storage/volume/${volumeId}/files/${name}`;
    const uploaded = await fetch(file('uploaded'), { method: 'PUT', headers, body: 'by the API' });
    expect(uploaded.status, await uploaded.text()).toBeLessThan(300);
    const script = `set -e; cd ${VOLUME}; cat uploaded; stat -c :%u:%g uploaded
      echo >>uploaded; chown 1000:1000 uploaded; echo secret >made; chmod 600 made`;
    expect(await ssh(client, id, script)).toBe('by the API:0:0\n');
    expect(await (await fetch(file('made'), { headers })).text()).toBe('secret\n');
    expect(await (await fetch(file('uploaded'), { headers })).text()).toBe('by the API\n');
    expect(await ssh(client, id, `stat -c %u:%g ${VOLUME}/uploaded`)).toBe('1000:1000\n');
  });

  test('serves its notebook over the gateway', async () => {
    const { instance } = await client.getInstance({ instanceId: id });
    const notebookUrl = `${server.gatewayUrl}${instance.instanceRuntimeInfo.subUrl}`;
    const headers = { authorization: `Bearer ${token}` };
    await until(
      () => fetch(`${notebookUrl}api/status`, { headers }),
      ({ ok }) => ok,
    );
    const cell = `import os\nopen('${VOLUME}/by-notebook', 'w').close()\nprint(os.stat('${VOLUME}/by-notebook').st_uid)`;
    expect(await runCell(notebookUrl, headers, cell)).toBe('0\n');
  });

  test('keeps files and owners over stop and start, and over archive and start', async () => {
    await ssh(client, id, writeFiles);
    expect(await ssh(client, id, readFiles)).toBe(FILES_READ);
    for (const [rest, status] of [
      ['stop', 'Stopped'],
      ['archive', 'Archived'],
    ] as const) {
      await client[rest]({ instanceId: id });
      await reaches(client, id, status);
      await client.start({ instanceId: id });
      await running(client, id);
      expect(await ssh(client, id, readFiles), rest).toBe(FILES_READ);
    }
  });
});

describe('an installation whose instances are on an engine without user namespaces', () => {
  const folders: string[] = [];
  let engine: OwnEngine;
  let server: ServerProcess;
  let client: Client;
  beforeAll(async () => {
    engine = await startOwnEngine();
    for (const name of ['notebook', 'docker-inside'] as const) await copyDefaultImage(engine.docker, name);
    ({ server, client } = await serve(engine, '32350-32359', 'engine=image-file,size=200,overcommit=100'));
  }, BUILD_DEADLINE_MS);
  afterAll(async () => {
    await server?.stop();
    await engine?.stop();
    for (const folder of folders) await rm(folder, { recursive: true });
  });

  /** A host whose Docker has the engine's data. */
  async function hostOf({ docker }: OwnEngine): Promise<string> {
    const root = await mkdtemp(join(tmpdir(), 'berth-root-'));
    folders.push(root);
    await mkdir(join(root, 'etc'));
    await mkdir(join(root, 'var/lib'), { recursive: true });
    await symlink((await docker.info()).DockerRootDir, join(root, 'var/lib/docker'));
    return root;
  }

  test('moves by archive: instances keep files, owners, volumes and their Docker', async () => {
    const { id } = await launch(client, { enableDocker: true, dockerStorageSize: 1 });
    await ssh(client, id, writeFiles);
    const answers = 'until docker version >/dev/null 2>&1; do sleep 0.2; done';
    const port = await sshPort(client, id);
    await user.sh(port, 'scp -q $SSH_OPTIONS -P $PORT /bin/busybox root@127.0.0.1:/root/busybox');
    await ssh(
      client,
      id,
      `set -e; ${answers}; tar -C /root -c busybox | docker import - tiny >/dev/null
       docker run --rm -v state:/state tiny /busybox sh -c 'echo kept >/state/file'`,
    );
    const root = await hostOf(engine);
    expect(setUpUserNamespaces(root)).toMatch(/holds \d containers of Berth, .*; archive the instances first/);

    await client.archive({ instanceId: id });
    await reaches(client, id, 'Archived');
    expect(setUpUserNamespaces(root)).toBeUndefined();
    expect(JSON.parse(await readFile(join(root, 'etc/docker/daemon.json'), 'utf8'))).toMatchObject({
      'userns-remap': 'default',
    });

    const images = await engine.docker.listImages({ filters: '{"label":["berth.kind=image"]}' });
    const names = images.flatMap(({ RepoTags }) => RepoTags ?? []);
    const tar = join(server.folder, 'images.tar');
    await engineCli(engine, 'save', '-o', tar, ...names);
    await server.kill('SIGTERM');
    await engine.kill('SIGTERM');
    await engine.start({ ids });
    for (const name of ['notebook', 'docker-inside'] as const) await copyDefaultImage(engine.docker, name);
    await server.start();
    await engineCli(engine, 'load', '-i', tar);

    await client.start({ instanceId: id });
    await running(client, id);
    expect((await shell(id, 'cat /proc/self/uid_map', engine.docker)).trim().split(/\s+/)).toEqual(
      [0, ids.first, ids.count].map(String),
    );
    expect(await ssh(client, id, readFiles)).toBe(FILES_READ);
    expect(await ssh(client, id, `${answers}; docker run --rm -v state:/state tiny /busybox cat /state/file`)).toBe(
      'kept\n',
    );
  });
});
