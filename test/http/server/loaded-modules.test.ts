/** An installation without a Kubernetes region pays nothing for what drives clusters. */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { program } from '../../../scripts/lib/program.mjs';
import { makeClient } from '../../../src/contract/client.ts';
import { until } from '../../fixtures/server-process.ts';

const ROOT = join(import.meta.dirname, '../../..');
const PASSWORD = 'correct horse battery';
const OF_CLUSTERS = /\/node_modules\/@kubernetes\/|\/src\/(kubernetes|engines\/kubernetes|storage\/claims)\//;

/** The program with these settings, once it serves. */
async function serve(env: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-modules-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'modules');
  const recorder = join(ROOT, 'test/fixtures/record-modules.mjs');
  const child = spawn(process.execPath, ['--import', recorder, ...program], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      RECORDED_MODULES: file,
      BERTH_DATA: join(folder, 'data'),
      BERTH_LISTEN: '127.0.0.1:0',
      BERTH_GATEWAY_LISTEN: '127.0.0.1:0',
      BERTH_ADMIN_PASSWORD: PASSWORD,
      ...env,
    },
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => void (text += bytes.toString()));
  const isReady = (seen: string): boolean => seen.includes('Berth is ready.') || child.exitCode !== null;
  await until(async () => text, isReady);
  const apiUrl = /API\s+(http:\/\/\S+)\/api/.exec(text)?.[1];
  if (apiUrl === undefined) throw new Error(`it does not serve:\n${text}`);
  const baseUrl = `${apiUrl}/api`;
  const { accessToken } = await makeClient({ baseUrl }).login({ username: 'admin', password: PASSWORD });
  const client = makeClient({ baseUrl, credential: { kind: 'token', token: accessToken } });
  const modules = async (): Promise<string[]> => (await readFile(file, 'utf8')).trim().split('\n');
  return { client, modules, ofClusters: async () => (await modules()).filter((url) => OF_CLUSTERS.test(url)) };
}

test('a simulated instance runs, and nothing of clusters is loaded until a region is one', async () => {
  const { client, modules, ofClusters } = await serve({ BERTH_ENGINE: 'simulated' });
  const { images } = await client.listImages({ pager: { currentPage: 1, pageSize: 1 } });
  const region = (await client.catalog()).instanceInfos[0]?.regionInfos[0];
  const { instanceId } = await client.launch({
    name: 'one',
    imageId: images[0]?.imageId ?? '',
    instanceTypeId: region?.instanceTypeInfos[0]?.instanceTypeId ?? '',
    region: region?.regionId ?? '',
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    nodePorts: [],
  });
  await until(
    async () => (await client.listInstances({ pager: { currentPage: 1, pageSize: 10 } })).instances,
    ([instance]) =>
      instance?.instanceMetadata.instanceId === instanceId && instance.instanceRuntimeInfo.status === 'Running',
  );
  expect(await modules()).toContainEqual(expect.stringMatching(/\/src\/engines\/simulated\/simulated\.ts$/));
  expect(await ofClusters()).toEqual([]);

  const refused = client.createRegion({
    name: 'cluster',
    value: 'cluster',
    location: 'nowhere',
    sshAddress: '127.0.0.1',
    credentials: 'token',
    settings: {
      kubernetes: { login: 'token', apiUrl: 'https://127.0.0.1:1', namespace: 'berth', networkPolicies: false },
      pools: [{ name: 'default', sizeGB: 10, claims: { storageClass: 'any', sizeLimit: 'hard', filesImage: 'any' } }],
      nodePorts: { first: 31_000, last: 31_099 },
    },
  });
  await expect(refused).rejects.toThrow('127.0.0.1:1');
  const loaded = await ofClusters();
  for (const one of ['@kubernetes/client-node', 'src/kubernetes', 'src/engines/kubernetes', 'src/storage/claims'])
    expect(loaded).toContainEqual(expect.stringContaining(`/${one}/`));
});

test('a container engine loads nothing of clusters', async () => {
  const { client, modules, ofClusters } = await serve({
    BERTH_ENGINE: 'docker',
    DOCKER_HOST: 'unix:///nonexistent/docker.sock',
  });
  await client.listInstances({ pager: { currentPage: 1, pageSize: 1 } });
  expect(await modules()).toContainEqual(expect.stringMatching(/\/src\/engines\/docker\/docker\.ts$/));
  expect(await ofClusters()).toEqual([]);
});
