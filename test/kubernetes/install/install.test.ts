/**
 * Berth installed by its chart in the cluster that it drives, with exactly the rights of the chart,
 * and used: notebook, ssh and ports of its own region and of an added one, while the API is
 * upgraded, fails, is rolled back and lost; then removed, and installed again on its data. Once
 * more with PostgreSQL instead of SQLite.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Docker from 'dockerode';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFailed, onTestFinished, test } from 'vitest';
import { BERTH_IMAGE, buildBerthImage, docker, savedImage } from '../../fixtures/berth-image.ts';
import { ensureDefaultImage } from '../../fixtures/default-images.ts';
import { nodePortOf, running } from '../../fixtures/first-launch.ts';
import { CHART, helm } from '../../fixtures/helm.ts';
import { countInKernel } from '../../fixtures/jupyter.ts';
import { startPostgres } from '../../fixtures/postgres-server.ts';
import { bringsProgram } from '../../fixtures/programs.ts';
import { login, until, type Client } from '../../fixtures/server-process.ts';
import { makeSshKey, type SshKey } from '../../fixtures/ssh.ts';
import { startCluster, type Cluster } from '../cluster/cluster.ts';
import { storageClass } from '../cluster/config.ts';
import { busyboxImage } from '../engine/kubernetes-fixture.ts';
import { networkImageArchive } from '../engine/network-image.ts';

bringsProgram('go');

const [REPOSITORY = '', TAG = ''] = BERTH_IMAGE.split(':');
const NEXT_TAG = `${TAG}-next`;
const IMAGE = 'registry.test/busybox:1';
const NOTEBOOK = 'registry.test/notebook:1';
const NETWORK_IMAGE = 'registry.test/node:1';
/** The second page never ends: a byte each tenth of a second. */
const SERVES = `mkdir -p /tmp/www/cgi-bin && cd /tmp/www && echo mine >file
printf '%s\\n' '#!/bin/sh' 'printf "Content-Type: text/plain\\r\\n\\r\\n"' 'while sleep 0.1; do printf .; done' >cgi-bin/ticks
chmod +x cgi-bin/ticks && httpd -p 8000 -h /tmp/www`;

let cluster: Cluster;
let folder: string;
let key: SshKey;
let apiUrl: string;
let gatewayUrl: string;
let client: Client;
let headers: Record<string, string>;

beforeAll(async () => {
  await buildBerthImage();
  await docker('tag', BERTH_IMAGE, `${REPOSITORY}:${NEXT_TAG}`);
  await docker('tag', await ensureDefaultImage(new Docker(), 'notebook', 'notebook-small'), NOTEBOOK);
  cluster = await startCluster({ addons: ['storage', 'networkPolicy', 'dns'] });
  await cluster.importImage(await busyboxImage(IMAGE));
  await cluster.importImage(await networkImageArchive(NETWORK_IMAGE));
  for (const name of [BERTH_IMAGE, `${REPOSITORY}:${NEXT_TAG}`, NOTEBOOK])
    await cluster.importImage(await savedImage(name));
  folder = await mkdtemp(path.join(tmpdir(), 'berth-install-'));
  key = await makeSshKey();
  apiUrl = `http://${cluster.nodeAddress}:30080`;
  gatewayUrl = `http://${cluster.nodeAddress}:30081`;
  await writeFile(path.join(folder, 'kubeconfig'), cluster.kubeconfig, { mode: 0o600 });
  await writeFile(path.join(folder, 'values.yaml'), JSON.stringify(valuesOf(cluster)));
}, 900_000);
afterAll(async () => {
  await cluster?.stop();
  await key?.remove();
  if (folder) await rm(folder, { recursive: true, force: true });
});

const valuesOf = ({ nodeAddress }: Cluster): object => ({
  image: { repository: REPOSITORY, tag: TAG },
  apiUrl,
  gatewayUrl,
  publicAddress: nodeAddress,
  instances: { storageClass },
  region: {
    kubernetes: { cpuOvercommit: 10, podRanges: ['10.98.0.0/16'], networkImage: NETWORK_IMAGE },
    pools: [
      {
        name: 'default',
        sizeGB: 1000,
        claims: { accessMode: 'ReadWriteOnce', sizeLimit: 'hard', filesImage: IMAGE },
      },
    ],
  },
  api: { service: { type: 'NodePort', port: 8080, nodePort: 30_080 } },
  gateway: { service: { type: 'NodePort', port: 8081, nodePort: 30_081 } },
});

/** A command of Helm on the release `berth`. */
const release = (command: string, ...args: readonly string[]): Promise<string> =>
  helm([command, 'berth', ...args, '--namespace', 'berth', '--kubeconfig', path.join(folder, 'kubeconfig')]);
const withValues = (...args: readonly string[]): string[] => [
  CHART,
  '--values',
  path.join(folder, 'values.yaml'),
  '--wait',
  '--timeout=180s',
  ...args,
];
const kubectl = (...args: string[]): Promise<string> => cluster.kubectl(args);
const answer = (url: string) =>
  fetch(url, { headers, signal: AbortSignal.timeout(10_000) }).then(
    async (reply) => `${reply.status} ${await reply.text()}`,
    (error: unknown) => String(error),
  );
const serves = (url: string) =>
  until(
    () => answer(url),
    (text) => text === '200 mine\n',
  );
const apiAnswers = () =>
  until(
    () => answer(`${apiUrl}/readyz`),
    (text) => text.startsWith('200'),
  );
/** Changes when any Pod of an instance is replaced or its container starts again. */
const runs = (): Promise<string> =>
  podsOf(
    '-A',
    'berth.kind=instance',
    '{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].containerID} {end}',
  );
/** Ids of the Pods of a part, with the restarts of their containers. */
const partOf = (part: 'api' | 'gateway'): Promise<string> =>
  podsOf(
    '-n=berth',
    `app.kubernetes.io/component=${part}`,
    '{range .items[*]}{.metadata.uid}={.status.containerStatuses[*].restartCount} {end}',
  );
const podsOf = (where: '-A' | '-n=berth', labels: string, template: string): Promise<string> =>
  kubectl('get', 'pods', where, '-l', labels, '-o', `jsonpath=${template}`);

interface Launched {
  instanceId: string;
  url: string;
  nodePort: (port: number) => { address: string; nodePort: number };
}

async function launched(name: string, region: string, image = 'busybox'): Promise<Launched> {
  const prices = { tidePerHour: 0.05, perHour: 0.1, perDay: 2, perWeek: 12, perMonth: 40 };
  const size = { cpuCores: 1, memoryGB: image === 'busybox' ? 1 : 2, rootDiskGB: 1, dataDiskGB: 1 };
  const { type } = await client.createType({ regionId: region, name: `tiny-${name}`, ...size, prices });
  const { images } = await client.listImages({ pager: { currentPage: 1, pageSize: 10 } });
  const { instanceId } = await client.launch({
    name,
    region,
    instanceTypeId: type.instanceTypeId,
    imageId: images.find((one) => one.name === image)?.imageId ?? '',
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [],
    nodePorts: image === 'busybox' ? [8000] : [],
    instanceConfiguration: {
      enableCommonData: false,
      enableDocker: false,
      initScript: image === 'busybox' ? SERVES : '',
    },
  });
  const instance = await running(client, instanceId);
  return {
    instanceId,
    url: `${gatewayUrl}/forward/${instanceId}/8000/`,
    nodePort: (port) => nodePortOf(instance, port),
  };
}

/** A region with the rights of a release of its own, which has only them, and its lasting token. */
async function addRegion(): Promise<string> {
  const [namespace, account] = ['annex', 'annex-rights'];
  const values = ['--set', `rbac.only=true,instances.namespace=${namespace}`];
  const where = ['--namespace', account, '--create-namespace', '--kubeconfig', path.join(folder, 'kubeconfig')];
  await helm(['install', account, CHART, ...values, ...where]);
  const token = await until(
    () => kubectl('get', 'secret', `${account}-token`, '-n', account, '-o', 'jsonpath={.data.token}'),
    (text) => text !== '',
  );
  const { region } = await client.createRegion({
    name: 'Annex',
    value: 'annex',
    location: 'cellar',
    sshAddress: cluster.nodeAddress,
    settings: {
      kubernetes: {
        login: 'token',
        apiUrl: cluster.apiUrl,
        ca: cluster.ca,
        namespace,
        reach: 'podAddress',
        networkPolicies: true,
        cpuOvercommit: 10,
        peers: [{ namespace: 'berth' }],
        podRanges: ['10.98.0.0/16'],
      },
      pools: [
        {
          name: 'default',
          sizeGB: 1000,
          claims: { storageClass, accessMode: 'ReadWriteOnce', sizeLimit: 'hard', filesImage: IMAGE },
        },
      ],
      nodePorts: { first: 32_000, last: 32_099 },
    },
    credentials: Buffer.from(token, 'base64').toString(),
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

const inApi = ['exec', '-n', 'berth', 'deployment/berth', '--', './node', '-p'];
const readPassword = (): Promise<string> =>
  kubectl(...inApi, `fs.readFileSync('/var/lib/berth/admin-password', 'utf8').trim()`).then((text) => text.trim());

async function logIn(password: string): Promise<void> {
  const session = await login({ apiUrl }, 'admin', password);
  client = session.client;
  headers = { authorization: `Bearer ${session.token}` };
}

/** Installs Berth, logs in, and offers images. Returns the id of its own region. */
async function install(...values: readonly string[]): Promise<string> {
  onTestFailed(async () => {
    for (const part of ['api', 'gateway'])
      console.error(await kubectl('logs', '-n', 'berth', '-l', `app.kubernetes.io/component=${part}`).catch(String));
    console.error(await kubectl('get', 'pods,pvc,events', '-A').catch(String));
  });
  await release('install', ...withValues('--create-namespace', ...values));
  await apiAnswers();
  await logIn(await readPassword());
  await client.createCatalogImage({ name: 'busybox', ref: IMAGE });
  await client.createCatalogImage({ name: 'notebook', ref: NOTEBOOK });
  return (await client.listRegions()).regions[0]?.regionId ?? '';
}

async function losePod(part: 'api' | 'gateway'): Promise<void> {
  await kubectl('delete', 'pod', '-n', 'berth', '-l', `app.kubernetes.io/component=${part}`);
  const name = part === 'api' ? 'berth' : 'berth-gateway';
  await kubectl('rollout', 'status', `deployment/${name}`, '-n', 'berth', '--timeout=180s');
  await apiAnswers();
}

async function terminateAll(...instances: readonly { instanceId: string }[]): Promise<void> {
  for (const { instanceId } of instances) await client.terminate({ instanceId });
  await until(runs, (left) => left === '');
}

interface BackedUpFile {
  name: string;
  base64: string;
}

/** As docs/kubernetes.md has it, with the check of what has arrived. */
async function backUp(): Promise<BackedUpFile[]> {
  const copy = `new (require('node:sqlite').DatabaseSync)('/var/lib/berth/berth.db').exec("vacuum into '/tmp/copy'")`;
  await kubectl(...inApi, copy);
  return Promise.all(
    [
      ['berth.db', '/tmp/copy'],
      ['secrets.key', '/var/lib/berth/secrets.key'],
    ].map(async ([name = '', file]) => {
      const base64 = await kubectl(...inApi, `fs.readFileSync('${file}', 'base64')`);
      const sum = `crypto.createHash('sha256').update(fs.readFileSync('${file}')).digest('hex')`;
      expect(sha256(base64), `${name}, of ${base64.length} characters`).toBe((await kubectl(...inApi, sum)).trim());
      return { name, base64 };
    }),
  );
}

const sha256 = (base64: string): string => createHash('sha256').update(Buffer.from(base64, 'base64')).digest('hex');

async function restore(backup: readonly BackedUpFile[]): Promise<void> {
  const pod = {
    securityContext: { runAsUser: 10_001, fsGroup: 10_001 },
    containers: [
      {
        name: 'restore',
        image: IMAGE,
        command: ['sleep', '3600'],
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
    ],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'restored' } }],
  };
  const metadata = (name: string) => ({ name, namespace: 'berth' });
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } };
  await cluster.apply(
    { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: metadata('restored'), spec },
    { apiVersion: 'v1', kind: 'Pod', metadata: metadata('restore'), spec: pod },
  );
  await kubectl('wait', '-n', 'berth', '--for=condition=Ready', 'pod/restore', '--timeout=180s');
  const inPod = ['exec', '-i', '-n', 'berth', 'restore', '--', 'sh', '-c'];
  // containerd ends the input of a command once nothing holds its output: the sum is printed last.
  for (const { name, base64 } of backup) {
    const command = `umask 077; base64 -d >/data/${name}; sha256sum /data/${name}`;
    expect(await cluster.kubectl([...inPod, command], base64), name).toContain(sha256(base64));
  }
  await kubectl('delete', 'pod', '-n', 'berth', 'restore', '--grace-period=1');
}

/** What a Pod of another namespace reads of an address of the release within three seconds. */
const reachedFrom = async (namespace: string, address: string): Promise<string> => {
  const [host = '', port = ''] = address.split(':');
  const command = `echo | nc -w 3 ${host} ${port} >/dev/null && echo reached || echo refused`;
  const run = ['run', 'stranger', '-n', namespace, '--image', IMAGE, '--restart=Never', '--rm', '-i', '--quiet'];
  // kubectl prints a line twice that it reads both live and from the log.
  return (await kubectl(...run, '--', 'sh', '-c', command)).split('\n')[0] ?? '';
};

test('upgrades, failures and losses of the API cut no notebook, and an uninstalled Berth comes back with its data', async () => {
  const own = await install();
  const first = await launched('own', own);
  await serves(`${first.url}file`);
  await client.createSshKey({ name: 'test', publicKey: key.publicKey });
  const { address, nodePort } = first.nodePort(8000);
  await serves(`http://${address}:${nodePort}/file`);
  const second = await launched('added', await addRegion());
  await serves(`${second.url}file`);
  const notebook = await launched('notebook', own, 'notebook');
  const page = `${gatewayUrl}/notebook/${notebook.instanceId}/`;
  await until(
    () => answer(`${page}lab`),
    (text) => text.startsWith('200') && text.includes('JupyterLab'),
  );
  // The gateway serves ssh of an image without sshd; the other has its own.
  const ssh = (to: Launched, command: string): Promise<string> =>
    until(
      () => key.ssh(to.nodePort(22).nodePort, command, to.nodePort(22).address).catch(() => ''),
      (text) => text !== '',
    );
  for (const to of [first, notebook]) expect(await ssh(to, 'hostname')).toBe(`${to.instanceId}-0\n`);

  expect(await reachedFrom('default', 'berth.berth:8080')).toBe('reached');
  expect(await reachedFrom('default', 'berth-link.berth:8082')).toBe('refused');
  expect(await reachedFrom('default', 'berth-gateway-link.berth:8082')).toBe('refused');

  const before = await runs();
  const [api, gateway] = [await partOf('api'), await partOf('gateway')];
  const stream = await openStream(`${first.url}cgi-bin/ticks`);
  const kernel = await countInKernel(page, headers);
  const connectionsLive = async (): Promise<void> => {
    await stream.grows();
    await kernel.grows();
  };
  const answers = new Set<string>();
  /** Requests of both regions while something happens to the API. */
  const watched = async (work: Promise<unknown>): Promise<void> => {
    let isDone = false;
    const done = work.finally(() => (isDone = true));
    // The caller gets the failure of the work.
    done.catch(() => {});
    while (!isDone) for (const { url } of [first, second]) answers.add(await answer(`${url}file`));
    await done;
    await apiAnswers();
    await connectionsLive();
  };

  // A new image of the API, and a setting of it alone.
  const next = ['--set', `image.tag=${NEXT_TAG},gateway.tag=${TAG}`, '--set', 'api.settings.BERTH_EVENTS_DAYS=31'];
  await watched(release('upgrade', ...withValues(...next)));
  const upgraded = await partOf('api');
  expect(upgraded).not.toBe(api);
  expect(await podsOf('-n=berth', 'app.kubernetes.io/component=api', '{.items[*].spec.containers[*].image}')).toContain(
    NEXT_TAG,
  );
  // A value that the API refuses, and the way back.
  const wrong = withValues(...next, '--set', 'api.settings.BERTH_EVENTS_DAYS=never', '--timeout=20s');
  await expect(release('upgrade', ...wrong)).rejects.toThrow(/timed out|deadline|not ready/i);
  await connectionsLive();
  await watched(release('rollback', '--wait', '--timeout=180s'));
  await watched(losePod('api'));
  expect([...answers]).toEqual(['200 mine\n']);
  expect(await partOf('gateway')).toBe(gateway);
  expect(await client.getInstance({ instanceId: notebook.instanceId })).toMatchObject({
    instance: { instanceRuntimeInfo: { status: 'Running' } },
  });

  // The gateway itself is lost: its connections end, its next one serves the same instances.
  stream.close();
  kernel.close();
  await losePod('gateway');
  for (const { url } of [first, second]) await serves(`${url}file`);
  expect(await ssh(first, 'hostname')).toBe(`${first.instanceId}-0\n`);
  expect(await runs()).toBe(before);

  // Removed, with the data kept, and installed again on it, then on a backup: instances run on.
  const password = await readPassword();
  const backup = await backUp();
  await release('uninstall', '--wait', '--timeout=180s');
  expect(await kubectl('get', 'clusterrole', '-o', 'name')).not.toMatch(/\/berth$/m);
  expect(await kubectl('get', 'clusterrole', '-o', 'name')).toMatch(/\/annex-rights$/m);
  expect(await runs()).toBe(before);
  const returns = async (...values: readonly string[]): Promise<void> => {
    await release('install', ...withValues(...values));
    await apiAnswers();
    await logIn(password);
    for (const { url } of [first, second]) await serves(`${url}file`);
    expect(await runs()).toBe(before);
  };
  await returns();
  await release('uninstall', '--wait', '--timeout=180s');
  await restore(backup);
  await returns('--set', 'data.existingClaim=restored,api.settings.BERTH_STRAYS=report');

  await terminateAll(first, second, notebook);
  await release('uninstall', '--wait', '--timeout=180s');
  await kubectl('delete', 'namespace', 'berth', 'berth-instances', '--timeout=180s');
  await helm(['uninstall', 'annex-rights', '-n', 'annex-rights', '--kubeconfig', path.join(folder, 'kubeconfig')]);
  const left = await kubectl('get', 'namespaces,clusterroles,clusterrolebindings', '-o', 'name');
  expect(left.split('\n').filter((name) => name.includes('berth'))).toEqual([]);
}, 1_500_000);

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
  await kubectl('create', 'namespace', 'berth');
  await kubectl('create', 'secret', 'generic', 'berth-database', '-n', 'berth', `--from-literal=url=${url}`);
  const own = await install('--set', 'secrets.databaseUrl.name=berth-database,secrets.databaseUrl.key=url');
  const { instanceId, url: page } = await launched('own', own);
  await serves(`${page}file`);
  expect(await rowsOf('instance')).toBe(1);
  const files = await kubectl(...inApi, `fs.readdirSync('/var/lib/berth').join(' ')`);
  expect(files).toContain('secrets.key');
  expect(files).not.toContain('berth.db');

  await losePod('api');
  await serves(`${page}file`);
  expect((await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.status).toBe('Running');
  await terminateAll({ instanceId });
  await release('uninstall', '--wait', '--timeout=180s');
  await kubectl('delete', 'namespace', 'berth', 'berth-instances', '--timeout=180s');
}, 900_000);
