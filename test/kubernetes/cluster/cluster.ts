/**
 * A real Kubernetes of one node on this machine: its components run in namespaces, control groups
 * and a folder of their own, and end with the process that started them. Several clusters can run
 * at once. Needs root, and the programs that `npm run test:kubernetes` builds.
 */
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { installedKubernetes } from '../../../scripts/lib/kubernetes.mjs';
import { clusterCount, layoutOf, overlappingRoute, type Layout } from './addresses.ts';
import { makeClient, runHost, type Client } from './client.ts';
import { addons as allAddons, components, controlPlane, ctr, type Addon, type Component } from './components.ts';
import {
  configFiles,
  csiDriver,
  metricsManifests,
  nodeName,
  pauseImage,
  snapshotClass,
  storageManifests,
} from './config.ts';
import { imageArchive } from './image-archive.ts';
import { startNode, type Node } from './node.ts';
import { ensurePki, identities, kubeconfigOf, type Pki } from './pki.ts';

const DEADLINE_MS = 120_000;

export interface ClusterOptions {
  /** 0 to 15; default: the first that is free. */
  number?: number;
  /** Default: all. */
  addons?: readonly Addon[];
  /**
   * Where the state is kept for the next start with this folder and number. Default: a temporary
   * folder, which `stop` removes.
   */
  folder?: string;
}

export interface Cluster extends Omit<Client, 'close'> {
  number: number;
  /** URL of the API server, reachable from this machine. */
  apiUrl: string;
  /** Certificate of its authority in PEM. */
  ca: string;
  /** Bearer token of the administrator. */
  token: string;
  /** Kubeconfig of the administrator, complete in itself. */
  kubeconfig: string;
  /** Has the node ports, 30000 to 32767. Pods and Services answer this machine, too. */
  nodeAddress: string;
  /** Address of this machine on its link to the node. */
  hostAddress: string;
  /** Process id of PID 1 of the node. */
  nodePid: number;
  /** Imports an archive as `docker save` writes it: a file, or a stream. */
  importImage(archive: string | Readable): Promise<void>;
  /** Sends SIGKILL. A lost node: `kubelet` and `containerd`, whose containers run on. */
  kill(...names: readonly Component[]): Promise<void>;
  /** Starts components that do not run; returns when what runs of API server and node is ready. */
  start(...names: readonly Component[]): Promise<void>;
  /**
   * Adds nodes without machines by KWOK, labeled `type=kwok`, whose Pods are Running at once. With
   * 0 KWOK only serves the nodes that another program adds.
   */
  simulateNodes(count: number): Promise<void>;
  /** Last lines of the log of a component. */
  log(name: Component): Promise<string>;
  /** Ends all processes; returns when nothing of the cluster is left on the machine. */
  stop(): Promise<void>;
}

export async function startCluster({ number, addons, folder }: ClusterOptions = {}): Promise<Cluster> {
  const { programs, cniPlugins } = installedKubernetes();
  const { layout, claim } = await claimNumber(number);
  let node: Node | undefined;
  let client: Client | undefined;
  const stop = async (): Promise<void> => {
    await node?.stop();
    await client?.close();
    claim.close();
  };
  try {
    const at = folder ?? (await mkdtemp(path.join(tmpdir(), `${layout.name}-`)));
    const pki = await writeFiles(at, layout);
    client = makeClient({ layout, pki, folder: at, programs });
    node = await startNode({ layout, folder: at, isTemporary: folder === undefined, programs, cniPlugins });
    const { kubectl, apply, request } = client;
    const running = makeRunning(layout, node, client);
    await startComponents({ running, layout, client, programs, addons: addons ?? allAddonNames });
    return {
      number: layout.number,
      apiUrl: layout.apiUrl,
      ca: pki.ca,
      token: pki.tokens.admin,
      kubeconfig: kubeconfigOf(layout, pki, 'admin'),
      nodeAddress: layout.nodeAddress,
      hostAddress: layout.hostAddress,
      nodePid: node.pid,
      kubectl,
      apply,
      request,
      importImage: running.importImage,
      kill: running.kill,
      start: running.start,
      async simulateNodes(count) {
        running.spawn('kwok');
        if (count > 0) await apply(...Array.from({ length: count }, (_, index) => simulatedNode(index)));
      },
      log: node.log,
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
  const files = configFiles(layout);
  for (const identity of identities) files[`${identity}.kubeconfig`] = kubeconfigOf(layout, pki, identity);
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(folder, 'config', name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, content, { mode: 0o600 });
  }
  return pki;
}

interface Running extends Pick<Cluster, 'importImage' | 'kill' | 'start'> {
  spawn(name: Component): void;
  /** Waits for a condition. Throws when a component has ended, with its last words. */
  wait(what: string, isSo: () => Promise<boolean>): Promise<void>;
  containerdAnswers(): Promise<void>;
  apiIsReady(): Promise<void>;
  /** Whether the kubelet has reported since then. */
  nodeIsReady(sinceMs: number): Promise<void>;
}

function makeRunning(layout: Layout, node: Node, { request }: Client): Running {
  const desired = new Set<Component>();
  const running: Running = {
    spawn(name) {
      if (desired.has(name)) return;
      desired.add(name);
      node.start(name, components[name](layout));
    },
    async wait(what, isSo) {
      const endMs = Date.now() + DEADLINE_MS;
      while (!(await isSo().catch(() => false))) {
        const ended = [...desired].find((name) => !node.isRunning(name));
        if (ended !== undefined) throw new Error(`${ended} of ${layout.name} has ended: ${await node.log(ended)}`);
        if (Date.now() > endMs) throw new Error(`${what} of ${layout.name} after ${DEADLINE_MS} ms: still not`);
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
      if (!desired.has('kube-apiserver') || !desired.has('etcd')) return;
      await running.apiIsReady();
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
}

async function startComponents({ running, layout, client, programs, addons }: StartOptions): Promise<void> {
  const exists = async (at: string): Promise<boolean> => (await client.request('GET', at)).status === 200;
  for (const name of ['etcd', 'containerd', 'kube-apiserver'] as const) running.spawn(name);
  await running.containerdAnswers();
  const files = { pause: await readFile(path.join(programs, 'pause')) };
  await running.importImage(imageArchive({ name: pauseImage, files, entrypoint: ['/pause'] }));
  await running.apiIsReady();
  const sinceMs = Date.now();
  for (const name of controlPlane) running.spawn(name);

  for (const name of addons.filter((one) => one !== 'storage').flatMap((one) => allAddons[one])) running.spawn(name);
  if (addons.includes('metrics')) await client.apply(...metricsManifests(layout));
  if (addons.includes('storage')) {
    await client.apply(...storageManifests, await readFile(path.join(programs, 'snapshots.yaml'), 'utf8'));
    const classes = '/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses';
    await running.wait('the resource of snapshots exists', () => exists(classes));
    await client.apply(snapshotClass);
    for (const name of allAddons.storage) running.spawn(name);
  }
  await running.nodeIsReady(sinceMs);
  if (addons.includes('storage')) {
    await running.wait('the storage driver is registered', async () => {
      const answer = await client.request('GET', `/apis/storage.k8s.io/v1/csinodes/${nodeName}`);
      const { spec } = answer.body as { spec: { drivers: { name: string }[] | null } };
      return spec.drivers?.some(({ name }) => name === csiDriver) === true;
    });
  }
  if (addons.includes('metrics'))
    await running.wait('the metrics API answers', () => exists('/apis/metrics.k8s.io/v1beta1'));
  // Pods are refused before.
  const account = '/api/v1/namespaces/default/serviceaccounts/default';
  await running.wait('the namespace default has its service account', () => exists(account));
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
