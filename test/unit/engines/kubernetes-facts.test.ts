/** Capacity of a cluster with several nodes. */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import type { ClusterContext } from '../../../src/engines/kubernetes/cluster-context.ts';
import { makeClusterFacts, makeNodeReader, probeOf } from '../../../src/engines/kubernetes/cluster-facts.ts';
import { makeKubernetesEngine } from '../../../src/engines/kubernetes/kubernetes.ts';
import type { Node } from '../../../src/kubernetes/api-objects.ts';
import { machinesOf, typesOfMachines } from '../../../src/main/first-run.ts';
import { refusal, startApiServer } from '../../fixtures/api-server.ts';

const settings: KubernetesEngineSettings = {
  login: 'inCluster',
  namespace: 'berth',
  reach: 'podAddress',
  networkPolicies: true,
  userNamespaces: false,
  gpus: { resource: 'nvidia.com/gpu', nameLabel: 'nvidia.com/gpu.product' },
};

interface Size {
  cpu: string;
  memory: string;
  gpus?: number;
  model?: string;
}

const node = ({ cpu, memory, gpus, model }: Size, over: { isReady?: boolean; isCordoned?: boolean } = {}): Node => ({
  metadata: { name: 'node', labels: model === undefined ? {} : { 'nvidia.com/gpu.product': model } },
  spec: { unschedulable: over.isCordoned === true },
  status: {
    allocatable: { cpu, memory, ...(gpus === undefined ? {} : { 'nvidia.com/gpu': String(gpus) }) },
    conditions: [{ type: 'Ready', status: over.isReady === false ? 'False' : 'True' }],
  },
});

const small = node({ cpu: '3920m', memory: '15Gi' });
const large = node({ cpu: '16', memory: '62Gi' });
const gpu = node({ cpu: '8', memory: '30Gi', gpus: 2, model: 'L4' });

test('is the sum of its usable nodes, and an instance fits on one of the largest', () => {
  const cordoned = node({ cpu: '64', memory: '256Gi' }, { isCordoned: true });
  const lost = node({ cpu: '96', memory: '512Gi' }, { isReady: false });
  const { capacity, hosts } = probeOf([small, small, gpu, large, cordoned, lost], 'v1.36.3', settings);
  expect(capacity).toEqual({ cpuMilli: 31_840, memoryMiB: 124_928, gpus: { L4: 2 } });
  expect(hosts).toEqual([
    { cpuMilli: 16_000, memoryMiB: 63_488, gpus: {} },
    { cpuMilli: 8_000, memoryMiB: 30_720, gpus: { L4: 2 } },
  ]);
});

test("names Berth's own images of its nodes, unless a node may have more than it reports", () => {
  const withImages = (...refs: string[]): Node => {
    const made = node({ cpu: '8', memory: '30Gi' });
    return { ...made, status: { ...made.status, images: refs.map((ref) => ({ names: [ref] })) } };
  };
  const imagesOf = (...nodes: Node[]) => probeOf(nodes, 'v1.36.3', settings).localImages;
  const some = withImages('berth.local/notebook:1', 'docker.io/library/busybox:1.37');
  expect(imagesOf(some, withImages())).toEqual(new Set(['berth.local/notebook:1']));
  // Kubelets report 50 images at most.
  expect(imagesOf(some, withImages(...Array.from({ length: 50 }, (_, index) => `registry.test/${index}:1`)))).toBe(
    undefined,
  );
  expect(imagesOf()).toBe(undefined);
  const autoscaling = { nodePools: [{ cpuCores: 4, memoryGB: 16, maxNodes: 1 }] };
  expect(probeOf([some], 'v1.36.3', { ...settings, autoscaling }).localImages, 'a new node may have it').toBe(
    undefined,
  );
});

test('asks the nodes again before an image is downloaded that they may have by now', async () => {
  let isImported = false;
  const { cluster, calls } = await startApiServer({
    answer: ({ path, body }) => {
      if (body !== undefined) return refusal(403, 'Forbidden', 'a Pod downloads');
      const images = isImported && path.endsWith('/nodes') ? [{ names: ['berth.local/notebook:1'] }] : [];
      return {
        body: { items: [{ ...small, status: { ...small.status, images } }], metadata: {}, gitVersion: 'v1.36.3' },
      };
    },
  });
  const engine = makeKubernetesEngine({ cluster, installation: 'ours', settings, log: { debug() {} } });
  await engine.probe(AbortSignal.timeout(10_000));
  isImported = true;
  const later = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 2_500);
  await engine.ensureImage('berth.local/notebook:1', () => {}, AbortSignal.timeout(10_000));
  later.mockRestore();
  expect(calls.filter(({ method }) => method === 'POST')).toEqual([]);
  await engine.stop();
});

test('counts what it can grow to where that is more, and fits types of pools at zero', () => {
  const nodePools = [
    { cpuCores: 3.9, memoryGB: 15, maxNodes: 10 },
    { cpuCores: 7.5, memoryGB: 60, gpuNum: 4, gpuName: 'H100', maxNodes: 2 },
  ];
  const growing = { ...settings, autoscaling: { nodePools } };
  const present = { cpuMilli: 3_920, memoryMiB: 15_360, gpus: {} };
  const grown = probeOf([small], 'v1.36.3', growing);
  expect(grown).toMatchObject({
    capacity: { cpuMilli: 54_000, memoryMiB: 276_480, gpus: { H100: 8 } },
    present,
    capabilities: { gpus: true },
  });
  expect(grown.hosts).toEqual([{ cpuMilli: 7_500, memoryMiB: 61_440, gpus: { H100: 4 } }]);
  expect(probeOf([], 'v1.36.3', growing), 'without any node').toMatchObject({
    capacity: grown.capacity,
    present: { cpuMilli: 0, memoryMiB: 0, gpus: {} },
    hosts: grown.hosts,
  });
  // Nodes that no pool names, or more of them than it says.
  const beyond = probeOf([large, large, large, large, gpu], 'v1.36.3', growing);
  expect(beyond.capacity).toEqual({ cpuMilli: 72_000, memoryMiB: 284_672, gpus: { L4: 2, H100: 8 } });
  expect(probeOf([small], 'v1.36.3', settings)).not.toHaveProperty('present');
});

test('counts parts of cards by the model of their node, or by their resource', () => {
  const parts = [
    { resource: 'nvidia.com/mig-1g.5gb', name: 'MIG 1g.5gb', kind: 'mig' as const },
    { resource: 'nvidia.com/gpu.shared', name: 'shared', kind: 'shared' as const },
  ];
  const withParts = { ...settings, gpus: { resource: 'nvidia.com/gpu', nameLabel: 'nvidia.com/gpu.product', parts } };
  const divided = node({ cpu: '8', memory: '30Gi', gpus: 1, model: 'A100' });
  Object.assign(divided.status?.allocatable ?? {}, { 'nvidia.com/mig-1g.5gb': '7' });
  const unnamed = node({ cpu: '8', memory: '30Gi' });
  Object.assign(unnamed.status?.allocatable ?? {}, { 'nvidia.com/gpu.shared': '4' });
  const { capacity, devices } = probeOf([divided, unnamed], 'v1.36.3', withParts);
  expect(capacity.gpus).toEqual({ A100: 1, 'A100 MIG 1g.5gb': 7, 'nvidia.com/gpu.shared': 4 });
  expect(new Set(devices.map(({ slice }) => slice))).toEqual(new Set([undefined, 'mig', 'shared']));
  expect(new Set(devices.map(({ card }) => card)), 'the model of the node').toEqual(new Set([undefined, 'A100']));
  expect(new Set(devices.map(({ id }) => id)).size, 'ids of one node differ').toBe(12);
});

test('offers the types that one node can hold, each once', () => {
  const probe = probeOf([small, small, small, gpu, large], 'v1.36.3', settings);
  const types = typesOfMachines(machinesOf(probe), { dataDiskGB: 1 });
  expect(types.map(({ name, memoryGB, gpuName }) => [name, memoryGB, gpuName])).toEqual([
    ['cpu.1', 2, ''],
    ['cpu.2', 4, ''],
    ['cpu.4', 8, ''],
    ['cpu.8', 16, ''],
    ['cpu.16', 32, ''],
    ['gpu.1', 12, 'L4'],
    ['gpu.2', 25, 'L4'],
  ]);
});

test('names a right that the role lacks in the namespace, before anything starts there', async () => {
  const text =
    'pods is forbidden: User "system:serviceaccount:berth:berth" cannot list resource "pods" in API group "" in the namespace "berth"';
  const { cluster } = await startApiServer({
    answer: ({ path }) =>
      path.endsWith('/pods')
        ? refusal(403, 'Forbidden', text)
        : { body: { items: [], metadata: {}, gitVersion: 'v1.36.3' } },
  });
  const engine = makeKubernetesEngine({ cluster, installation: 'ours', settings, log: { debug() {} } });
  await expect(engine.probe(AbortSignal.timeout(10_000))).rejects.toThrow(
    /does not allow system:serviceaccount:berth:berth to list pods in namespace berth; add the verb to its role/,
  );
});

test.for([
  { what: 'keeps the field', answers: 'kept', kubelets: ['v1.35.2', 'v1.36.3-gke.100'], is: true },
  { what: 'drops the field', answers: 'dropped', kubelets: ['v1.36.3'], is: false },
  { what: 'refuses the field', answers: 'refused', kubelets: ['v1.36.3'], is: false },
  { what: 'keeps the field, beside an older node', answers: 'kept', kubelets: ['v1.36.3', 'v1.34.9'], is: false },
] as const)('a server that $what: restart policies of containers are followed: $is', async (given) => {
  const { cluster } = await startApiServer({
    answer({ method, body, query }) {
      if (method === 'GET')
        return {
          body: { items: given.kubelets.map((kubeletVersion) => ({ status: { nodeInfo: { kubeletVersion } } })) },
        };
      expect(query.get('dryRun')).toBe('All');
      if (given.answers === 'refused') return refusal(422, 'Invalid', 'may not be set for non-init containers');
      const text = JSON.stringify(body);
      return {
        body: JSON.parse(given.answers === 'kept' ? text : text.replace('"restartPolicy":"Never"', '"tty":false')),
      };
    },
  });
  const facts = makeClusterFacts({
    cluster,
    settings,
    pods: {} as ClusterContext['pods'],
    nodes: makeNodeReader(cluster),
  });
  expect((await facts.features(AbortSignal.timeout(10_000))).restartPolicies).toBe(given.is);
});

test('finds credentials that ended although a watch goes on', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  let hasEnded = false;
  const { cluster } = await startApiServer({
    answer: () =>
      hasEnded
        ? refusal(401, 'Unauthorized', 'Unauthorized')
        : { body: { items: [], metadata: {}, gitVersion: 'v1.36.3' } },
  });
  const pods = { isHeard: () => true, live: async () => {} };
  const facts = makeClusterFacts({ cluster, settings, pods, nodes: async () => [] });
  const probe = (): Promise<unknown> => facts.probe(AbortSignal.timeout(10_000));
  await probe();
  hasEnded = true;
  vi.advanceTimersByTime(31_000);
  await expect(probe()).rejects.toThrow(/refuses the credentials of this region/);
});
