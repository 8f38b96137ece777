/**
 * Berth installed by its manifests in the cluster that it drives, with exactly the rights of
 * `rbac.yaml`, and used: instances of its own region and of an added one, a restart of the API, the
 * loss of its Pod, and the removal. Once more with PostgreSQL instead of SQLite.
 */
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFailed, onTestFinished, test } from 'vitest';
import { BERTH_IMAGE, buildBerthImage, savedBerthImage } from '../../fixtures/berth-image.ts';
import { nodePortOf, running } from '../../fixtures/first-launch.ts';
import { startPostgres } from '../../fixtures/postgres-server.ts';
import { login, until, type Client } from '../../fixtures/server-process.ts';
import { startCluster, type Cluster } from '../cluster/cluster.ts';
import { storageClass } from '../cluster/config.ts';
import { busyboxImage } from '../engine/kubernetes-fixture.ts';

const DEPLOY = path.join(import.meta.dirname, '../../../deploy/kubernetes');
const BERTH = 'app.kubernetes.io/name=berth';
const IMAGE = 'registry.test/busybox:1';
/** The second page never ends: a byte each tenth of a second. */
const SERVES = `mkdir -p /tmp/www/cgi-bin && cd /tmp/www && echo mine >file
printf '%s\\n' '#!/bin/sh' 'printf "Content-Type: text/plain\\r\\n\\r\\n"' 'while sleep 0.1; do printf .; done' >cgi-bin/ticks
chmod +x cgi-bin/ticks && httpd -p 8000 -h /tmp/www`;

let cluster: Cluster;
let folder: string;
let apiUrl: string;
let gatewayUrl: string;
let client: Client;
let headers: Record<string, string>;

beforeAll(async () => {
  await buildBerthImage();
  cluster = await startCluster({ addons: ['storage', 'networkPolicy'] });
  await cluster.importImage(await busyboxImage(IMAGE));
  await cluster.importImage(await savedBerthImage());
  folder = await mkdtemp(path.join(tmpdir(), 'berth-install-'));
  apiUrl = `http://${cluster.nodeAddress}:30080`;
  gatewayUrl = `http://${cluster.nodeAddress}:30081`;
  await writeOverlay();
}, 900_000);
afterAll(async () => {
  await cluster?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** As docs/kubernetes.md has it. */
async function writeOverlay(): Promise<void> {
  await cp(DEPLOY, path.join(folder, 'kubernetes'), { recursive: true });
  const region: { kubernetes: object; pools: { claims: object }[] } = JSON.parse(
    await readFile(path.join(DEPLOY, 'region.json'), 'utf8'),
  );
  Object.assign(region.kubernetes, { cpuOvercommit: 10, podRanges: ['10.98.0.0/16'] });
  for (const { claims } of region.pools) Object.assign(claims, { storageClass, filesImage: IMAGE });
  const [name, tag] = BERTH_IMAGE.split(':');
  const overlay = path.join(folder, 'site');
  await mkdir(overlay);
  await writeFile(path.join(overlay, 'region.json'), JSON.stringify(region));
  await writeFile(
    path.join(overlay, 'kustomization.yaml'),
    `resources: [../kubernetes]
images: [{ name: registry.example.org/berth, newName: ${name}, newTag: '${tag}' }]
configMapGenerator:
  - { name: berth-region, namespace: berth, behavior: replace, files: [region.json] }
  - name: berth-settings
    namespace: berth
    behavior: merge
    literals:
      - BERTH_PUBLIC_ADDRESS=${cluster.nodeAddress}
      - BERTH_API_URL=${apiUrl}
      - BERTH_GATEWAY_URL=${gatewayUrl}
`,
  );
}

const kubectl = (...args: string[]): Promise<string> => cluster.kubectl(args);
const answer = (url: string) =>
  fetch(url, { headers, signal: AbortSignal.timeout(10_000) }).then(
    async (reply) => `${reply.status} ${await reply.text()}`,
    (error: unknown) => String(error),
  );
/** The status of a Deployment is that of its last Pod for a moment: the API must answer, too. */
async function isReady(): Promise<void> {
  await kubectl('rollout', 'status', 'deployment/berth', '-n', 'berth', '--timeout=180s');
  await until(
    () => answer(`${apiUrl}/healthz`),
    (text) => text.startsWith('200'),
  );
}
const serves = (url: string) =>
  until(
    () => answer(url),
    (text) => text === '200 mine\n',
  );
/** Changes when any Pod of an instance is replaced or its container starts again. */
const runs = (): Promise<string> =>
  podsOf('-A', '{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].containerID} {end}');
const restarts = (): Promise<string> =>
  podsOf('-n=berth', '{range .items[0].status.containerStatuses[*]}{.name}={.restartCount} {end}');
const podsOf = (where: '-A' | '-n=berth', template: string): Promise<string> =>
  kubectl('get', 'pods', where, '-l', where === '-A' ? 'berth.kind=instance' : BERTH, '-o', `jsonpath=${template}`);

async function launched(name: string, region: string): Promise<{ instanceId: string; url: string; nodePort: string }> {
  const prices = { tidePerHour: 0.05, perHour: 0.1, perDay: 2, perWeek: 12, perMonth: 40 };
  const size = { cpuCores: 1, memoryGB: 1, rootDiskGB: 1, dataDiskGB: 1 };
  const { type } = await client.createType({ regionId: region, name: `tiny-${name}`, ...size, prices });
  const { images } = await client.listImages({ pager: { currentPage: 1, pageSize: 1 } });
  const { instanceId } = await client.launch({
    name,
    region,
    instanceTypeId: type.instanceTypeId,
    imageId: images[0]?.imageId ?? '',
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [],
    nodePorts: [8000],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: SERVES },
  });
  const { nodePort } = nodePortOf(await running(client, instanceId), 8000);
  return {
    instanceId,
    url: `${gatewayUrl}/forward/${instanceId}/8000/`,
    nodePort: `http://${cluster.nodeAddress}:${nodePort}/`,
  };
}

/** A namespace with the same role, used by a token instead of the Pod's own account. */
async function addRegion(): Promise<string> {
  const namespace = 'annex';
  const rights = await readFile(path.join(DEPLOY, 'rbac.yaml'), 'utf8');
  await kubectl('create', 'namespace', namespace);
  await cluster.apply(rights.replaceAll('namespace: berth-instances', `namespace: ${namespace}`));
  const settings = JSON.parse(await readFile(path.join(folder, 'site/region.json'), 'utf8'));
  Object.assign(settings.kubernetes, { login: 'token', apiUrl: cluster.apiUrl, ca: cluster.ca, namespace });
  settings.nodePorts = { first: 32_000, last: 32_099 };
  const { region } = await client.createRegion({
    name: 'Annex',
    value: 'annex',
    location: 'cellar',
    sshAddress: cluster.nodeAddress,
    settings,
    credentials: (await kubectl('create', 'token', 'berth', '-n', 'berth')).trim(),
  });
  return region.regionId;
}

/** An endless answer: `bytes` grows while it is alive. */
async function openStream(url: string): Promise<{ grows: () => Promise<unknown>; close: () => void }> {
  const ending = new AbortController();
  const { body } = await fetch(url, { headers, signal: ending.signal });
  let bytes = 0;
  let ended: Error | null = null;
  const read = async (): Promise<void> => {
    for await (const chunk of body ?? []) bytes += chunk.length;
    throw new Error(`the stream has ended after ${bytes} bytes`);
  };
  void read().catch((error: Error) => {
    ended = error;
  });
  return {
    async grows() {
      const before = bytes;
      return until(
        async () => {
          if (ended !== null) throw ended;
          return bytes;
        },
        (now) => now > before,
      );
    },
    close: () => ending.abort(),
  };
}

const inBerth = ['exec', '-n', 'berth', 'deployment/berth', '-c', 'api', '--', './node'];

/** Installs Berth, logs in, and offers the image. Returns the id of its own region. */
async function install(): Promise<string> {
  onTestFailed(async () => {
    for (const name of ['api', 'gateway'])
      console.error(await kubectl('logs', '-n', 'berth', '-l', BERTH, '-c', name).catch(String));
    console.error(await kubectl('get', 'pods,pvc,events', '-A').catch(String));
  });
  await kubectl('apply', '-k', path.join(folder, 'site'));
  await isReady();
  const readPassword = `fs.readFileSync('/var/lib/berth/admin-password', 'utf8').trim()`;
  const password = (await kubectl(...inBerth, '-p', readPassword)).trim();
  const session = await login({ apiUrl }, 'admin', password);
  client = session.client;
  headers = { authorization: `Bearer ${session.token}` };
  await client.createCatalogImage({ name: 'busybox', ref: IMAGE });
  return (await client.listRegions()).regions[0]?.regionId ?? '';
}

async function loseBerth(): Promise<void> {
  await kubectl('delete', 'pod', '-n', 'berth', '-l', BERTH);
  await isReady();
}

async function terminateAll(...instances: readonly { instanceId: string }[]): Promise<void> {
  for (const { instanceId } of instances) await client.terminate({ instanceId });
  await until(runs, (left) => left === '');
}

test('is installed, drives its cluster and an added region, outlives losses, and is removed', async () => {
  const first = await launched('own', await install());
  await serves(`${first.url}file`);
  await serves(`${first.nodePort}file`);
  const { stdout } = await client.exec({ instanceId: first.instanceId, command: ['hostname'] });
  expect(stdout).toBe(`${first.instanceId}-0\n`);
  const second = await launched('added', await addRegion());
  await serves(`${second.url}file`);

  // The API ends and comes back; the gateway serves both regions meanwhile.
  const before = await runs();
  const stream = await openStream(`${first.url}cgi-bin/ticks`);
  await stream.grows();
  expect(await restarts()).toBe('api=0 gateway=0 ');
  await kubectl(...inBerth, '-e', 'process.kill(1)');
  const answers = new Set<string>();
  await until(
    async () => {
      answers.add(await answer(`${first.url}file`)).add(await answer(`${second.url}file`));
      return restarts();
    },
    (text) => text.startsWith('api=1'),
  );
  await isReady();
  expect([...answers]).toEqual(['200 mine\n']);
  await stream.grows();
  stream.close();
  expect(await restarts()).toBe('api=1 gateway=0 ');

  // The Pod is lost; the next one takes over claim and lock.
  await loseBerth();
  for (const { url, instanceId } of [first, second]) {
    await serves(`${url}file`);
    expect((await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.status).toBe('Running');
  }
  expect(await runs()).toBe(before);

  await terminateAll(first, second);
  await kubectl('delete', '-k', path.join(folder, 'site'), '--timeout=180s');
  const left = await kubectl('get', 'namespaces,clusterroles,clusterrolebindings', '-o', 'name');
  expect(left.split('\n').filter((name) => name.includes('berth'))).toEqual([]);
}, 900_000);

/** A new database, and its address as Pods of the cluster reach it. */
async function startDatabase(): Promise<{ url: string; rowsOf(table: string): Promise<number> }> {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const local = postgres.urlOf('postgres');
  const socket = path.join(new URL(local).searchParams.get('host') ?? '', '.s.PGSQL.5432');
  const proxy = net.createServer((from) => {
    const to = net.connect(socket);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const)
      one.on('error', () => other.destroy()).pipe(other);
  });
  onTestFinished(() => void proxy.close());
  await once(proxy.listen(0, cluster.hostAddress), 'listening');
  const { port } = proxy.address() as AddressInfo;
  return {
    url: `postgres://berth@${cluster.hostAddress}:${port}/postgres`,
    async rowsOf(table) {
      const database = new pg.Client({ connectionString: local });
      await database.connect();
      const { rows } = await database.query(`select count(*)::int as count from "${table}"`);
      await database.end();
      return rows[0].count;
    },
  };
}

test('keeps its rows in PostgreSQL where a Secret names a database', async () => {
  const { url, rowsOf } = await startDatabase();
  // As docs/kubernetes.md has it: before the first start.
  await kubectl('apply', '-f', path.join(DEPLOY, 'namespace.yaml'));
  await kubectl('create', 'secret', 'generic', 'berth-database', '-n', 'berth', `--from-literal=url=${url}`);
  const { instanceId, url: page } = await launched('own', await install());
  await serves(`${page}file`);
  expect(await rowsOf('instance')).toBe(1);
  const files = await kubectl(...inBerth, '-p', `fs.readdirSync('/var/lib/berth').join(' ')`);
  expect(files).toContain('secrets.key');
  expect(files).not.toContain('berth.db');

  await loseBerth();
  await serves(`${page}file`);
  expect((await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.status).toBe('Running');
  await terminateAll({ instanceId });
  await kubectl('delete', '-k', path.join(folder, 'site'), '--timeout=180s');
}, 900_000);
