/**
 * Fixture of the Kubernetes engine: a real cluster of one node on this machine, an image of
 * Debian's busybox on it, and a namespace for the region.
 */
import { execFile } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import type { KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import type { Engine } from '../../../src/engines/contract.ts';
import { makeKubernetesEngine } from '../../../src/engines/kubernetes/kubernetes.ts';
import { accountPolicy } from '../../../src/engines/kubernetes/manifests/network-rules.ts';
import { instanceSet } from '../../../src/engines/kubernetes/manifests/instance-set.ts';
import { objectName, podName } from '../../../src/engines/kubernetes/manifests/object-names.ts';
import { openEgress } from '../../../src/domain/regions/egress.ts';
import { resources } from '../../../src/kubernetes/api-resources.ts';
import { openCluster, type Cluster as ClusterClient } from '../../../src/kubernetes/cluster.ts';
import { machineTime, type Fixture, type Neighbour } from '../../conformance/fixture.ts';
import { deadline, until } from '../../conformance/subject.ts';
import { startCluster, type Cluster } from '../cluster/cluster.ts';
import type { Addon } from '../cluster/components.ts';
import { imageArchive } from '../cluster/image-archive.ts';
import { networkImageArchive } from './network-image.ts';

const run = promisify(execFile);

const quiet = { debug: () => {}, info: () => {}, warn: () => {} };

export interface KubernetesFixture extends Fixture {
  cluster: Cluster;
  client: ClusterClient;
  settings: KubernetesEngineSettings;
  make(options?: {
    installation?: string;
    settings?: Partial<KubernetesEngineSettings>;
    apiUrl?: string;
  }): Promise<Engine>;
}

export interface FixtureOptions {
  settings?: Partial<KubernetesEngineSettings>;
  addons?: readonly Addon[];
  /** Whether the region has a `networkImage`. */
  joinsNetworks?: boolean;
}

export async function makeKubernetesFixture({
  settings: given = {},
  addons = ['networkPolicy'],
  joinsNetworks = false,
}: FixtureOptions = {}): Promise<KubernetesFixture> {
  const cluster = await startCluster({ addons });
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-kubernetes-'));
  const installation = randomUUID();
  const namespace = `berth-${installation.slice(0, 8)}`;
  const networkImage = `berth.local/test-network:${installation}`;
  const settings: KubernetesEngineSettings = {
    login: 'token',
    apiUrl: cluster.apiUrl,
    ca: cluster.ca,
    namespace,
    reach: 'podAddress',
    networkPolicies: addons.includes('networkPolicy'),
    userNamespaces: false,
    cpuOvercommit: 10,
    podRanges: ['10.98.0.0/16'],
    // Connections of this machine come from its side of the node's link.
    peers: [{ cidr: `${cluster.nodeAddress.replace(/\d+$/, '')}0/24` }],
    ...(joinsNetworks ? { networkImage } : {}),
    ...given,
  };
  const engines: Engine[] = [];
  const others: Neighbour[] = [];
  const ports = new Set<number>();

  const open = (apiUrl = cluster.apiUrl): Promise<ClusterClient> =>
    openCluster({ credentials: { kind: 'token', apiUrl, ca: cluster.ca, token: cluster.token }, namespace });
  const make: KubernetesFixture['make'] = async (options = {}) => {
    const engine = makeKubernetesEngine({
      cluster: await open(options.apiUrl),
      installation: options.installation ?? installation,
      settings: { ...settings, ...options.settings },
      log: quiet,
    });
    engines.push(engine);
    return engine;
  };

  const client = await open();
  await client.create(resources.namespaces, { metadata: { name: namespace } }, deadline());
  // The admission of Pods needs it.
  await until('the namespace has its service account', async () => {
    const account = `/api/v1/namespaces/${namespace}/serviceaccounts/default`;
    return client.json(account, deadline()).then(
      () => true,
      () => false,
    );
  });
  const imageRef = `berth.local/test-busybox:${installation}`;
  await cluster.importImage(await busyboxImage(imageRef));
  if (joinsNetworks) await cluster.importImage(await networkImageArchive(networkImage));

  const neighbourOf = (kind: 'statefulSets' | 'networkPolicies', name: string, uid: string | undefined): Neighbour => {
    const neighbour: Neighbour = {
      async untouched() {
        const now = await client.get<{ metadata?: { uid?: string; deletionTimestamp?: string }; spec?: object }>(
          resources[kind],
          name,
          deadline(),
        );
        const isSame = now?.metadata?.uid === uid && now?.metadata?.deletionTimestamp === undefined;
        if (kind === 'networkPolicies') return isSame;
        const set = await client.get(resources.statefulSets, name, deadline());
        const pod = await client.get(resources.pods, `${name}-0`, deadline());
        return isSame && set?.spec?.replicas === 1 && pod?.metadata?.deletionTimestamp === undefined;
      },
      async remove() {
        await client.remove(resources[kind], name, deadline());
        if (kind === 'statefulSets') {
          await client.remove(resources.pods, `${name}-0`, deadline(), { graceSeconds: 0 });
          await until(
            'the Pod is gone',
            async () => (await client.get(resources.pods, `${name}-0`, deadline())) === null,
          );
        }
      },
    };
    others.push(neighbour);
    return neighbour;
  };

  return {
    cluster,
    client,
    settings,
    make,
    engine: await make(),
    time: machineTime,
    installation,
    imageRef,
    missingImageRef: `berth.local/not-there:${installation}`,
    nodePortAddress: cluster.nodeAddress,
    async releaseNodePort() {
      let port = randomInt(30_000, 32_768);
      while (ports.has(port)) port = randomInt(30_000, 32_768);
      ports.add(port);
      return port;
    },
    hostFolder: () => mkdtemp(path.join(folder, 'host-')),
    async mountSource(source) {
      const name = `folder-${randomUUID()}`;
      const capacity = { storage: '1Gi' };
      await client.create(
        resources.volumes,
        {
          metadata: { name },
          spec: {
            capacity,
            accessModes: ['ReadWriteMany'],
            storageClassName: '',
            hostPath: { path: source },
            claimRef: { namespace, name },
          },
        },
        deadline(),
      );
      const spec = {
        accessModes: ['ReadWriteMany'],
        storageClassName: '',
        volumeName: name,
        resources: { requests: capacity },
      };
      await client.create(resources.claims, { metadata: { name }, spec }, deadline());
      return name;
    },
    engineName: objectName,
    again: () => make(),
    elsewhere: (other) => make({ installation: other }),
    unreachable: () => make({ apiUrl: 'https://127.0.0.1:1' }),
    async neighbour({ name, labels }) {
      const app = { app: name };
      const set = await client.create(
        resources.statefulSets,
        {
          metadata: { name, labels },
          spec: {
            replicas: 1,
            serviceName: name,
            selector: { matchLabels: app },
            template: {
              metadata: { labels: { ...labels, ...app } },
              spec: {
                terminationGracePeriodSeconds: 0,
                containers: [{ name: 'main', image: imageRef, imagePullPolicy: 'Never', command: ['sleep', '3600'] }],
              },
            },
          },
        },
        deadline(),
      );
      await until(
        'the neighbour runs',
        async () => (await client.get(resources.pods, `${name}-0`, deadline()))?.status?.phase === 'Running',
      );
      return neighbourOf('statefulSets', name, set.metadata?.uid);
    },
    async neighbourNetwork({ name, labels }) {
      const spec = { podSelector: { matchLabels: { app: 'nobody' } }, policyTypes: ['Ingress'] };
      const policy = await client.create(resources.networkPolicies, { metadata: { name, labels }, spec }, deadline());
      return neighbourOf('networkPolicies', name, policy.metadata?.uid);
    },
    neighbourImage: () => Promise.reject(new Error('images of a cluster have no labels of ours')),
    registries: () => Promise.reject(new Error('nothing is pushed')),
    async leaveHalfMade(spec) {
      const { ownerId } = spec;
      const rules = {
        installation,
        ownerId,
        egress: openEgress,
        nameServers: [],
        closed: [],
        gatewayPorts: [],
        settings,
      };
      await client.apply(resources.networkPolicies, accountPolicy(rules), deadline());
      const set = instanceSet(spec, {
        installation,
        settings,
        replicas: 0,
        hasPullSecret: false,
        can: { restartPolicies: true, storageLimits: true },
      });
      await client.apply(resources.statefulSets, set, deadline());
    },
    async stopOutside(id) {
      const pod = await client.get(resources.pods, podName(id), deadline());
      process.kill(await mainProcessOf(pod?.metadata?.uid ?? ''), 'SIGKILL');
    },
    connectUnix: () => Promise.reject(new Error('no sockets of Berth are inside')),
    loseDocker: () => Promise.reject(new Error('no Docker is inside')),
    dropImage: async () => {},
    generationFollows: 'ensure',
    lacks: {
      dockerInside: 'the region of the tests allows no privileged sidecars',
      ...(joinsNetworks ? {} : { joinNetwork: 'the region has no "networkImage"' }),
      listenUnix: 'a capability that clusters lack',
      saveImage: 'a capability that clusters lack',
      processLimit: 'a capability that clusters lack',
      rootDisk: 'a capability that clusters lack',
      rootDiskUsage: 'the metrics API counts no files',
      neighbourImages: 'images of a cluster have no labels of ours',
      hostPorts: 'a node port of a cluster is a rule of its network, whatever listens on the node',
    },
    async stop() {
      try {
        await Promise.all(engines.map((engine) => engine.stop()));
        client.stop();
      } finally {
        await cluster.stop();
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

/** With all of busybox's programs, and the folders that an instance needs. */
export async function busyboxImage(name: string): Promise<Readable> {
  const { stdout: applets } = await run('/bin/busybox', ['--list']);
  const names = applets
    .trim()
    .split('\n')
    .filter((applet) => applet !== 'busybox');
  const empty = Buffer.alloc(0);
  return imageArchive({
    name,
    files: { 'bin/busybox': await readFile('/bin/busybox'), 'root/.keep': empty, 'tmp/.keep': empty },
    links: Object.fromEntries(names.map((applet) => [`bin/${applet}`, 'busybox'])),
  });
}

export interface PodProcess {
  pid: number;
  /** PID 1 of its container. */
  isFirst: boolean;
  user: number;
  program: string;
}

/** Processes of the Pod's containers, by its control groups. */
export async function processesOf(podUid: string): Promise<PodProcess[]> {
  const found: PodProcess[] = [];
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const read = (file: string): Promise<string> => readFile(`/proc/${entry}/${file}`, 'utf8').catch(() => '');
    if (!(await read('cgroup')).includes(podUid)) continue;
    const status = await read('status');
    found.push({
      pid: Number(entry),
      isFirst: /^NSpid:.*\t1$/m.test(status),
      user: Number(/^Uid:\t(\d+)/m.exec(status)?.[1]),
      program: await readlink(`/proc/${entry}/exe`).catch(() => ''),
    });
  }
  return found;
}

/** The first process of the container `main`. */
async function mainProcessOf(podUid: string): Promise<number> {
  const processes = await processesOf(podUid);
  const main = processes.find(({ isFirst, user, program }) => isFirst && user === 0 && !program.endsWith('/pause'));
  if (main === undefined) throw new Error(`no process of the Pod ${podUid} was found`);
  return main.pid;
}
