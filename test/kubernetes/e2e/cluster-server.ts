/**
 * The whole program with a region on a real cluster. The server runs as a process of its own, with
 * the rights of `deploy/kubernetes/rbac.yaml`; users reach it by API, gateway and node ports.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { InstanceObject, LaunchRequest } from '../../../src/contract/compute/instance.ts';
import type { InputOf } from '../../../src/contract/routes.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';
import { makeSshKey, type SshKey } from '../../fixtures/ssh.ts';
import { startCluster, type Cluster } from '../cluster/cluster.ts';
import type { Addon } from '../cluster/components.ts';
import { fastStorageClass, storageClass } from '../cluster/config.ts';
import { busyboxImage } from '../engine/kubernetes-fixture.ts';

/** Namespace of the instances, and that of Berth's service account. */
export const NAMESPACE = 'berth-instances';
export const HOME_NAMESPACE = 'berth';
const MANIFESTS = path.join(import.meta.dirname, '../../../deploy/kubernetes');
/** Names of a registry that nobody has: the nodes have the images. */
const BUSYBOX = 'registry.test/busybox:1';
const NOTEBOOK = 'registry.test/notebook:1';
const NODE_PORTS = { first: 31_000, last: 31_099 };
const run = promisify(execFile);
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
const pager = { currentPage: 1, pageSize: 100 };

/** Fields in which a launch differs from the default. */
export type Launch = Partial<LaunchRequest> & { initScript?: string };

export interface ClusterServer {
  cluster: Cluster;
  server: ServerProcess;
  /** An administrator, who has the key for ssh. */
  admin: Client;
  token: string;
  key: SshKey;
  region: string;
  /** Image and type of launches by default. */
  imageId: string;
  instanceTypeId: string;
  createType(of: Partial<InputOf<'createType'>> & { name: string }): Promise<string>;
  /** A new account with balance, and the key for ssh. */
  account(username: string): Promise<{ client: Client; token: string }>;
  launch(client: Client, options?: Launch): Promise<string>;
  /** Waits for a state; throws when the instance fails. */
  reaches(client: Client, instanceId: string, state: 'Running' | 'Stopped' | 'Cleaned'): Promise<InstanceObject>;
  /**
   * `KIND/NAME` of all objects in the namespace and all volumes, without those that every namespace
   * has and the shared folders of accounts, which stay.
   */
  objects(): Promise<string[]>;
  stop(): Promise<void>;
}

export interface ClusterServerOptions {
  addons?: readonly Addon[];
  reach?: 'podAddress' | 'portForward';
  /** `notebook`: small JupyterLab with sshd, which the host's engine builds once. */
  image: 'notebook' | 'busybox';
  /** The region of the server's own settings, as in a Pod; else one that an administrator adds. */
  isOwnRegion?: boolean;
  /** Makes what the region's settings name. */
  prepare?: (cluster: Cluster) => Promise<unknown>;
  /** Further settings of the cluster. */
  kubernetes?: object;
  /** Further variables of a server outside of the cluster. */
  variables?: Record<string, string>;
}

export async function startClusterServer(options: ClusterServerOptions): Promise<ClusterServer> {
  const cleanups: (() => Promise<unknown>)[] = [];
  const stop = async (): Promise<void> => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  };
  try {
    return { ...(await start(options, cleanups)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(
  options: ClusterServerOptions,
  cleanups: (() => Promise<unknown>)[],
): Promise<Omit<ClusterServer, 'stop'>> {
  const { addons = ['storage', 'networkPolicy'], image, isOwnRegion = false } = options;
  const cluster = await startCluster({ addons });
  cleanups.push(() => cluster.stop());
  const [key, secret] = await Promise.all([
    makeSshKey(),
    makeAccount(cluster),
    cluster.importImage(await busyboxImage(BUSYBOX)),
  ]);
  cleanups.push(() => key.remove());
  await options.prepare?.(cluster);
  const imageRef = image === 'busybox' ? BUSYBOX : await copyNotebook(cluster);
  const settings = settingsOf(cluster, options);
  const server = await (isOwnRegion
    ? startInside(cluster, settings, { secret, cleanups })
    : startOutside(options.variables));
  cleanups.push(() => server.stop());
  const { client: admin, token } = await login(server);
  await admin.createSshKey({ name: 'e2e', publicKey: key.publicKey });
  const region = isOwnRegion ? await ownRegion(admin) : await addRegion(admin, { cluster, settings, secret });
  const made = await admin.createCatalogImage({ name: image, ref: imageRef });
  const { imageId } = made.image;

  const createType: ClusterServer['createType'] = async (of) => {
    const prices = { tidePerHour: 0.01, perHour: 0.02, perDay: 0.4, perWeek: 2, perMonth: 7 };
    const size = { cpuCores: 1, memoryGB: 1, rootDiskGB: 5, dataDiskGB: 1 };
    const { type } = await admin.createType({ ...size, regionId: region, prices, ...of });
    return type.instanceTypeId;
  };
  const instanceTypeId = await createType({ name: 'small' });
  let launches = 0;
  return {
    cluster,
    server,
    admin,
    token,
    key,
    region,
    imageId,
    instanceTypeId,
    createType,
    async account(username) {
      const password = `the password of ${username}`;
      await admin.createUser({ username, password, balance: 100 });
      const session = await login(server, username, password);
      await session.client.createSshKey({ name: 'e2e', publicKey: key.publicKey });
      return session;
    },
    async launch(client, { initScript = '', ...more } = {}) {
      launches += 1;
      const { instanceId } = await client.launch({
        name: `e2e ${launches}`,
        region,
        imageId,
        instanceTypeId,
        billing: { chargeMode: 'perHour', duration: 1 },
        remoteStorages: [],
        nodePorts: [],
        instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript },
        ...more,
      });
      return instanceId;
    },
    reaches,
    objects: () => objectsOf(cluster),
  };
}

async function reaches(client: Client, instanceId: string, state: string): Promise<InstanceObject> {
  const statesOf = ({ instance }: { instance: InstanceObject }): string[] => {
    const { phase, status } = instance.instanceRuntimeInfo;
    return [phase, status];
  };
  const answer = await until(
    () => client.getInstance({ instanceId }),
    (one) => statesOf(one).some((now) => [state, 'Failed'].includes(now)),
  );
  const states = statesOf(answer);
  if (states.includes(state)) return answer.instance;
  throw new Error(`${instanceId} is not ${state}: ${JSON.stringify(answer.instance.instanceRuntimeInfo)}`);
}

/** Makes the documented service account with its rights. Returns its token. */
async function makeAccount(cluster: Cluster): Promise<string> {
  const applied = ['namespace.yaml', 'rbac.yaml'].map((file) => path.join(MANIFESTS, file));
  for (const file of applied) await cluster.kubectl(['apply', '-f', file]);
  const token = await cluster.kubectl(['create', 'token', 'berth', '-n', HOME_NAMESPACE]);
  // The admission of Pods needs it.
  await until(
    () => cluster.request('GET', `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/default`),
    ({ status }) => status === 200,
  );
  return token.trim();
}

/** As an operator does. The host's engine builds the image at its first use, and keeps it. */
async function copyNotebook(cluster: Cluster): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-notebook-'));
  try {
    const file = path.join(folder, 'notebook.tar');
    const script = path.join(import.meta.dirname, '../../../scripts/image.mjs');
    await run(process.execPath, [script, NOTEBOOK, '--variant', 'small', '--save', file]);
    await cluster.importImage(file);
  } finally {
    await rm(folder, { recursive: true });
  }
  return NOTEBOOK;
}

type Settings = NonNullable<InputOf<'createRegion'>['settings']>;

function settingsOf(
  cluster: Cluster,
  { addons = ['storage', 'networkPolicy'], reach = 'podAddress', isOwnRegion, kubernetes }: ClusterServerOptions,
): Settings {
  const connection = isOwnRegion
    ? { login: 'inCluster' as const }
    : { login: 'token' as const, apiUrl: cluster.apiUrl, ca: cluster.ca };
  const { nodeAddress } = cluster;
  const claims = {
    accessMode: 'ReadWriteOnce' as const,
    sizeLimit: 'hard' as const,
    filesImage: BUSYBOX,
  };
  return {
    kubernetes: {
      ...connection,
      namespace: NAMESPACE,
      reach,
      networkPolicies: addons.includes('networkPolicy'),
      cpuOvercommit: 10,
      podRanges: ['10.98.0.0/16'],
      // Connections of this machine come from its side of the node's link.
      peers: [{ cidr: nodeAddress.replace(/\d+$/, '0/24') }],
      ...kubernetes,
    },
    pools: [
      { name: 'default', sizeGB: 1_000, claims: { ...claims, storageClass } },
      { name: 'highspeedstorage', sizeGB: 100, claims: { ...claims, storageClass: fastStorageClass } },
    ],
    nodePorts: NODE_PORTS,
  };
}

/** The server's own region is a simulation, which nothing uses. */
const startOutside = (variables: Record<string, string> = {}): Promise<ServerProcess> =>
  startServerProcess({ nodePorts: '32000-32099', settings: { BERTH_ENGINE: 'simulated', ...variables } });

async function addRegion(
  admin: Client,
  { cluster, settings, secret }: { cluster: Cluster; settings: Settings; secret: string },
): Promise<string> {
  const { region } = await admin.createRegion({
    name: 'cluster',
    value: 'cluster',
    location: 'here',
    sshAddress: cluster.nodeAddress,
    credentials: secret,
    settings,
  });
  return region.regionId;
}

/** A server that finds what a Pod finds: files of its service account, and the API's address. */
async function startInside(
  cluster: Cluster,
  settings: Settings,
  { secret, cleanups }: { secret: string; cleanups: (() => Promise<unknown>)[] },
): Promise<ServerProcess> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-in-cluster-'));
  cleanups.push(() => rm(folder, { recursive: true }));
  const files = {
    token: secret,
    'ca.crt': cluster.ca,
    namespace: HOME_NAMESPACE,
    'region.json': JSON.stringify(settings),
  };
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), content);
  const { hostname, port } = new URL(cluster.apiUrl);
  return startServerProcess({
    nodePorts: '32000-32099',
    setup: [
      'mount -t tmpfs berth-e2e /var/run',
      `mkdir -p ${SERVICE_ACCOUNT}`,
      `mount --bind ${folder} ${SERVICE_ACCOUNT}`,
    ],
    settings: {
      BERTH_ENGINE: 'kubernetes',
      BERTH_REGION_FILE: path.join(folder, 'region.json'),
      BERTH_NODE_PORT_ADDRESS: cluster.nodeAddress,
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
    },
  });
}

async function ownRegion(admin: Client): Promise<string> {
  const { regions } = await admin.listManagedRegions({ pager });
  const [region] = regions;
  if (region === undefined) throw new Error('the server has no region');
  return region.regionId;
}

/** Of every namespace, or made with it. */
const ownOfCluster = /^(configmap\/kube-root-ca|serviceaccount\/|role\S*\/berth|event|pod\.metrics|podmetrics|lease)/;

async function objectsOf(cluster: Cluster): Promise<string[]> {
  const lines = async (...args: string[]): Promise<string[]> =>
    (await cluster.kubectl(args)).split('\n').filter((line) => line !== '');
  const kinds = await lines('api-resources', '--verbs=list', '--namespaced', '-o', 'name');
  const listed = kinds.filter((kind) => !kind.startsWith('events') && !kind.includes('metrics.k8s.io'));
  const inside = await lines('get', listed.join(','), '-n', NAMESPACE, '-o', 'name');
  const volumes = await lines('get', 'persistentvolumes,volumeattachments', '-o', 'name');
  const named = 'jsonpath={range .items[*]}{.metadata.name}{"\\n"}{.spec.volumeName}{"\\n"}{end}';
  const shared = await lines('get', 'persistentvolumeclaims', '-n', NAMESPACE, '-l', 'berth.kind=shared', '-o', named);
  return [...inside, ...volumes]
    .filter((name) => !ownOfCluster.test(name) && !shared.some((one) => name.endsWith(`/${one}`)))
    .toSorted();
}
