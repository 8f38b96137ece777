/**
 * A real Kubernetes of one to three nodes on this machine. The components of a node run in
 * namespaces, control groups and a folder of their own, and end with the process that started them.
 * Several clusters can run at once. Needs root, and the programs that `npm run test:kubernetes`
 * builds.
 */
import { createReadStream } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { installedKubernetes } from '../../../scripts/lib/kubernetes.mjs';
import { clusterCount, layoutOf, nodeNames, overlappingRoute, type Layout } from './addresses.ts';
import { makeClient, runHost, type Client } from './client.ts';
import {
  addons as allAddons,
  components,
  controlPlane,
  ctr,
  ofFurtherNodes,
  type Addon,
  type Component,
} from './components.ts';
import { configFiles, csiDriver, metricsManifests, pauseImage, snapshotClass, storageManifests } from './config.ts';
import { imageArchive } from './image-archive.ts';
import { startNode, type Node, type NodeOptions } from './node.ts';
import { ensurePki, identities, kubeconfigOf, type Pki } from './pki.ts';

const DEADLINE_MS = 120_000;

export interface ClusterOptions {
  /** 0 to 15; default: the first that is free. */
  number?: number;
  /** 1 to 3; default 1. With more, a volume is attached to one node at a time. */
  nodes?: number;
  /** Default: all. */
  addons?: readonly Addon[];
  /**
   * Where the state is kept for the next start with this folder and number. Default: a temporary
   * folder, which `stop` removes.
   */
  folder?: string;
}

/** The control plane and the drivers of volumes run on the first node. */
export interface ClusterNode {
  name: string;
  /** Has the node ports, 30000 to 32767. Pods and Services answer this machine, too. */
  address: string;
  /** Process id of PID 1 of the node. */
  pid: number;
  /** Sends SIGKILL. A lost node: `kubelet` and `containerd`, whose containers run on. */
  kill(...names: readonly Component[]): Promise<void>;
  /** Starts components that do not run; returns when what runs of API server and node is ready. */
  start(...names: readonly Component[]): Promise<void>;
  /** Last lines of the log of a component. */
  log(name: Component): Promise<string>;
}

/** `kill`, `start` and `log` are those of the first node. */
export interface Cluster extends Omit<Client, 'close'>, Pick<ClusterNode, 'kill' | 'start' | 'log'> {
  number: number;
  nodes: readonly ClusterNode[];
  /** URL of the API server, reachable from this machine. */
  apiUrl: string;
  /** Certificate of its authority in PEM. */
  ca: string;
  /** Bearer token of the administrator. */
  token: string;
  /** Kubeconfig of the administrator, complete in itself. */
  kubeconfig: string;
  /** Address of the first node. */
  nodeAddress: string;
  /** Address of this machine on its link to the first node. */
  hostAddress: string;
  /** Process id of PID 1 of the first node. */
  nodePid: number;
  /** Imports an archive as `docker save` writes it to each node: a file, or a stream. */
  importImage(archive: string | Readable): Promise<void>;
  /**
   * Adds nodes without machines by KWOK, labeled `type=kwok`, whose Pods are Running at once. With
   * 0 KWOK only serves the nodes that another program adds.
   */
  simulateNodes(count: number): Promise<void>;
  /** Ends all processes; returns when nothing of the cluster is left on the machine. */
  stop(): Promise<void>;
}

export async function startCluster({
  number,
  nodes: count = 1,
  addons = allAddonNames,
  folder,
}: ClusterOptions = {}): Promise<Cluster> {
  const installed = installedKubernetes();
  const { programs } = installed;
  const { layout, claim } = await claimNumber(number);
  const nodes: Node[] = [];
  let client: Client | undefined;
  const stop = async (): Promise<void> => {
    // The first has the volumes of the others, and their way to this machine.
    for (const node of nodes.toReversed()) await node.stop();
    await client?.close();
    claim.close();
  };
  try {
    const at = folder ?? (await mkdtemp(path.join(tmpdir(), `${layout.name}-`)));
    const pki = await writeFiles(at, layout);
    client = makeClient({ layout, pki, folder: at, programs });
    const { kubectl, apply, request } = client;
    const add = async (options: Pick<NodeOptions, 'layout' | 'folder' | 'first'>): Promise<Running> => {
      const node = await startNode({ ...options, isTemporary: folder === undefined, ...installed });
      nodes.push(node);
      return makeRunning(options.layout, node, { request });
    };
    const running = await add({ layout, folder: at });
    const runningNodes = [running];
    await startComponents({ running, layout, client, programs, addons, attaches: count > 1 });
    for (let index = 1; index < count; index++) {
      const further = layoutOf(layout.number, index);
      const options = { layout: further, folder: `${at}-${index + 1}`, first: { pid: running.node.pid, folder: at } };
      await writeFilesOfNode(options, pki);
      runningNodes.push(await add(options));
    }
    await Promise.all(runningNodes.slice(1).map((one) => joinNode(one, programs, addons)));
    return {
      number: layout.number,
      apiUrl: layout.apiUrl,
      ca: pki.ca,
      token: pki.tokens.admin,
      kubeconfig: kubeconfigOf(layout, pki, 'admin'),
      nodes: runningNodes.map(({ kill, start, node }, index) => {
        const { nodeName: name, nodeAddress: address } = layoutOf(layout.number, index);
        return { name, address, pid: node.pid, kill, start, log: node.log };
      }),
      nodeAddress: layout.nodeAddress,
      hostAddress: layout.hostAddress,
      nodePid: running.node.pid,
      kubectl,
      apply,
      request,
      async importImage(archive) {
        if (typeof archive !== 'string' && count > 1) {
          const bytes = await buffer(archive);
          for (const one of runningNodes) await one.importImage(Readable.from([bytes]));
        } else for (const one of runningNodes) await one.importImage(archive);
      },
      kill: running.kill,
      start: running.start,
      async simulateNodes(count) {
        running.spawn('kwok');
        if (count > 0) await apply(...Array.from({ length: count }, (_, index) => simulatedNode(index)));
      },
      log: running.node.log,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

const allAddonNames = Object.keys(allAddons) as Addon[];

/**
 * Claims a number by an abstract socket, which ends with this process, and checks that no route of
 * the host overlaps its addresses.
 */
async function claimNumber(number: number | undefined): Promise<{ layout: Layout; claim: Server }> {
  const { stdout: routes } = await runHost('ip', ['route', 'show', 'table', 'all']);
  const why: string[] = [];
  for (const one of number === undefined ? Array.from({ length: clusterCount }, (_, at) => at) : [number]) {
    const layout = layoutOf(one);
    const claim = createServer().unref();
    const isFree = await new Promise<boolean>((resolve) => {
      claim.once('error', () => resolve(false));
      claim.listen(`\0${layout.name}`, () => resolve(true));
    });
    const route = overlappingRoute(layout, routes);
    if (isFree && route === undefined) return { layout, claim };
    claim.close();
    why.push(isFree ? `the addresses of ${one} overlap the route ${route?.trim()}` : `${one} runs already`);
  }
  throw new Error(`No cluster can start: ${why.join('; ')}.`);
}

async function writeFiles(folder: string, layout: Layout): Promise<Pki> {
  const pki = await ensurePki(path.join(folder, 'pki'), layout);
  await writeConfig(folder, layout, pki);
  return pki;
}

/** Files of a node after the first, and the folder of volumes that it shares. */
async function writeFilesOfNode(
  { layout, folder, first }: { layout: Layout; folder: string; first: { folder: string } },
  pki: Pki,
): Promise<void> {
  await writeConfig(folder, layout, pki);
  await mkdir(path.join(folder, 'pki'), { recursive: true });
  for (const name of ['ca.crt', 'node.crt', 'node.key'])
    await copyFile(path.join(first.folder, 'pki', name), path.join(folder, 'pki', name));
  await mkdir(path.join(first.folder, 'var/lib/csi-driver'), { recursive: true });
}

async function writeConfig(folder: string, layout: Layout, pki: Pki): Promise<void> {
  const files = configFiles(layout);
  for (const identity of identities) files[`${identity}.kubeconfig`] = kubeconfigOf(layout, pki, identity);
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(folder, 'config', name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, content, { mode: 0o600 });
  }
}

interface Running extends Pick<Cluster, 'importImage' | 'kill' | 'start'> {
  node: Node;
  spawn(name: Component): void;
  /** Waits for a condition. Throws when a component has ended, with its last words. */
  wait(what: string, isSo: () => Promise<boolean>): Promise<void>;
  containerdAnswers(): Promise<void>;
  apiIsReady(): Promise<void>;
  /** Whether the kubelet has reported since then. */
  nodeIsReady(sinceMs: number): Promise<void>;
  driverIsRegistered(): Promise<void>;
}

function makeRunning(layout: Layout, node: Node, { request }: Pick<Client, 'request'>): Running {
  const { groups, nodeName } = layout;
  const desired = new Set<Component>();
  const running: Running = {
    node,
    spawn(name) {
      if (desired.has(name)) return;
      desired.add(name);
      node.start(name, components[name](layout));
    },
    async wait(what, isSo) {
      const endMs = Date.now() + DEADLINE_MS;
      while (!(await isSo().catch(() => false))) {
        const ended = [...desired].find((name) => !node.isRunning(name));
        if (ended !== undefined) throw new Error(`${ended} of ${groups} has ended: ${await node.log(ended)}`);
        if (Date.now() > endMs) throw new Error(`${what} of ${groups} after ${DEADLINE_MS} ms: still not`);
        await delay(50);
      }
    },
    containerdAnswers: () => running.wait('containerd answers', () => node.run(ctr('version')).then(() => true)),
    apiIsReady: () =>
      running.wait('the API server is ready', async () => (await request('GET', '/readyz')).body === 'ok'),
    nodeIsReady: (sinceMs) =>
      running.wait('the node is ready', async () => {
        const at = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${nodeName}`;
        const lease = (await request('GET', at)).body as { spec: { renewTime: string } };
        const { status } = (await request('GET', `/api/v1/nodes/${nodeName}`)).body as {
          status: { conditions: { type: string; status: string }[] };
        };
        const isReady = status.conditions.some((one) => one.type === 'Ready' && one.status === 'True');
        return isReady && Date.parse(lease.spec.renewTime) >= sinceMs;
      }),
    driverIsRegistered: () =>
      running.wait('the storage driver is registered', async () => {
        const answer = await request('GET', `/apis/storage.k8s.io/v1/csinodes/${nodeName}`);
        const { spec } = answer.body as { spec: { drivers: { name: string }[] | null } };
        return spec.drivers?.some(({ name }) => name === csiDriver) === true;
      }),
    async importImage(archive) {
      const input = typeof archive === 'string' ? createReadStream(archive) : archive;
      await node.run(ctr('images', 'import', '-'), input);
    },
    async kill(...names) {
      for (const name of names) {
        desired.delete(name);
        await node.kill(name);
      }
    },
    async start(...names) {
      const sinceMs = Date.now();
      if (names.includes('containerd')) {
        running.spawn('containerd');
        await running.containerdAnswers();
      }
      for (const name of names) running.spawn(name);
      if (nodeName === nodeNames[0]) {
        if (!desired.has('kube-apiserver') || !desired.has('etcd')) return;
        await running.apiIsReady();
      }
      if (desired.has('kubelet') && desired.has('containerd')) await running.nodeIsReady(sinceMs);
    },
  };
  return running;
}

interface StartOptions {
  running: Running;
  layout: Layout;
  client: Client;
  programs: string;
  addons: readonly Addon[];
  attaches: boolean;
}

async function startComponents({ running, layout, client, programs, addons, attaches }: StartOptions): Promise<void> {
  const exists = async (at: string): Promise<boolean> => (await client.request('GET', at)).status === 200;
  for (const name of ['etcd', 'containerd', 'kube-apiserver'] as const) running.spawn(name);
  await importPause(running, programs);
  await running.apiIsReady();
  const sinceMs = Date.now();
  for (const name of controlPlane) running.spawn(name);

  for (const name of addons.filter((one) => one !== 'storage').flatMap((one) => allAddons[one])) running.spawn(name);
  if (addons.includes('metrics')) await client.apply(...metricsManifests(layout));
  if (addons.includes('storage')) {
    await client.apply(
      ...storageManifests({ attaches }),
      await readFile(path.join(programs, 'snapshots.yaml'), 'utf8'),
    );
    const classes = '/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses';
    await running.wait('the resource of snapshots exists', () => exists(classes));
    await client.apply(snapshotClass);
    for (const name of allAddons.storage) running.spawn(name);
    if (attaches) running.spawn('csi-attacher');
  }
  await running.nodeIsReady(sinceMs);
  if (addons.includes('storage')) await running.driverIsRegistered();
  if (addons.includes('metrics'))
    await running.wait('the metrics API answers', () => exists('/apis/metrics.k8s.io/v1beta1'));
  // Pods are refused before.
  const account = '/api/v1/namespaces/default/serviceaccounts/default';
  await running.wait('the namespace default has its service account', () => exists(account));
}

async function joinNode(running: Running, programs: string, addons: readonly Addon[]): Promise<void> {
  running.spawn('containerd');
  await importPause(running, programs);
  const sinceMs = Date.now();
  const absent = allAddonNames.filter((addon) => !addons.includes(addon)).flatMap((addon) => allAddons[addon]);
  for (const name of ofFurtherNodes.filter((one) => !absent.some((other) => other === one))) running.spawn(name);
  await running.nodeIsReady(sinceMs);
  if (addons.includes('storage')) await running.driverIsRegistered();
}

async function importPause(running: Running, programs: string): Promise<void> {
  await running.containerdAnswers();
  const files = { pause: await readFile(path.join(programs, 'pause')) };
  await running.importImage(imageArchive({ name: pauseImage, files, entrypoint: ['/pause'] }));
}

function simulatedNode(index: number): object {
  const resources = { cpu: '64', memory: '512Gi', pods: '1000' };
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: `kwok-${index}`,
      labels: { type: 'kwok' },
      annotations: { 'kwok.x-k8s.io/node': 'fake' },
    },
    spec: { taints: [{ key: 'kwok.x-k8s.io/node', value: 'fake', effect: 'NoSchedule' }] },
    status: { allocatable: resources, capacity: resources },
  };
}
