/** GPUs that ResourceSlices offer, by the names of types. */
import { expect, test } from 'vitest';
import type { DeviceClaim, KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import { probeOf } from '../../../src/engines/kubernetes/cluster-facts.ts';
import { devicesByNode, readDevices } from '../../../src/engines/kubernetes/device-slices.ts';
import { makeKubernetesEngine } from '../../../src/engines/kubernetes/kubernetes.ts';
import type { Device, Node, ResourceSlice } from '../../../src/kubernetes/api-objects.ts';
import { deadline, expectFault } from '../../conformance/subject.ts';
import { refusal, startApiServer, type Reply } from '../../fixtures/api-server.ts';

const DRIVER = 'gpu.nvidia.com';
const modelAttribute = `${DRIVER}/productName`;
const isType = (type: string): string => `device.attributes["${DRIVER}"].type == "${type}"`;
const whole: DeviceClaim = { deviceClass: DRIVER, selector: isType('gpu'), modelAttribute };
const part: DeviceClaim = {
  deviceClass: DRIVER,
  selector: `${isType('mig')} && device.attributes["${DRIVER}"].profile == "1g.18gb"`,
  modelAttribute,
  part: { name: 'MIG 1g.18gb', kind: 'mig' },
};

const device = (name: string, type: string, more: Partial<Device> = {}): Device => ({
  name,
  attributes: { type: { string: type }, productName: { string: 'NVIDIA H200' }, ...more.attributes },
  capacity: { memory: { value: '141Gi' } },
  ...(more.taints && { taints: more.taints }),
  ...(more.capacity && { capacity: more.capacity }),
});
const slice = (devices: Device[], spec: Partial<ResourceSlice['spec']> = {}): ResourceSlice => ({
  spec: {
    driver: DRIVER,
    nodeName: 'one',
    pool: { name: 'one', generation: 1, resourceSliceCount: 1 },
    devices,
    ...spec,
  },
});
const classOf = (name: string, expression?: string): object => ({
  metadata: { name },
  spec: expression === undefined ? {} : { selectors: [{ cel: { expression } }] },
});

interface Offered {
  classes?: object[];
  slices?: ResourceSlice[];
}
const clusterOf = async ({ classes = [classOf(DRIVER, `device.driver == "${DRIVER}"`)], slices = [] }: Offered) => {
  const answer = ({ path }: { path: string }): Reply => {
    if (path.endsWith('/deviceclasses')) return { body: { items: classes } };
    return { body: { items: path.endsWith('/resourceslices') ? slices : [], metadata: {}, gitVersion: 'v1.36.3' } };
  };
  return (await startApiServer({ answer })).cluster;
};
const gpusOf = async (deviceClaims: DeviceClaim[], offered: Offered) => {
  const found = devicesByNode(await readDevices(await clusterOf(offered), { deviceClaims }, deadline()));
  return [...found].flatMap(([node, gpus]) => gpus.map(({ gpu }) => `${node}: ${gpu.name}, ${gpu.memoryMiB}`));
};

test('are whole cards by their model and memory, and parts by the name of their claim', async () => {
  const profile = { profile: { string: '1g.18gb' } };
  const slices = [
    slice([
      device('gpu-0', 'gpu'),
      device('mig-1', 'mig', { attributes: profile, capacity: { [`${DRIVER}/memory`]: { value: '16Gi' } } }),
      device('mig-2', 'mig', { attributes: { profile: { string: '2g.35gb' } } }),
      device('vfio', 'vfio'),
    ]),
    slice([device('gpu-0', 'gpu', { capacity: { memory: { value: '0' } } })], {
      nodeName: 'two',
      pool: { name: 'two', generation: 7, resourceSliceCount: 1 },
    }),
  ];
  expect(await gpusOf([whole, part], { slices })).toEqual([
    'one: NVIDIA H200, 144384',
    'one: NVIDIA H200 MIG 1g.18gb, 16384',
    'two: NVIDIA H200, null',
  ]);
});

test('are those that the scheduler would give: of complete pools, not tainted, of the class', async () => {
  const pool = (generation: number, resourceSliceCount: number, name = 'one') => ({
    name,
    generation,
    resourceSliceCount,
  });
  const taints = (effect: string) => ({ taints: [{ key: 'sick', effect }] });
  const slices = [
    slice([device('old', 'gpu')], { pool: pool(1, 1) }),
    slice([device('new', 'gpu'), device('sick', 'gpu', taints('NoExecute')), device('noted', 'gpu', taints('None'))], {
      pool: pool(2, 1),
    }),
    slice([device('half', 'gpu')], { pool: pool(1, 2, 'incomplete') }),
    slice([device('foreign', 'gpu')], { driver: 'gpu.example.com', pool: pool(1, 1, 'foreign') }),
    slice([device('shared', 'gpu')], { nodeName: undefined, allNodes: true, pool: pool(1, 1, 'network') }),
    slice([{ ...device('apart', 'gpu'), nodeName: 'three' }, { name: 'without attributes' }], {
      nodeName: undefined,
      perDeviceNodeSelection: true,
      pool: pool(1, 1, 'by device'),
    }),
  ];
  const found = devicesByNode(await readDevices(await clusterOf({ slices }), { deviceClaims: [whole] }, deadline()));
  expect([...found.values()].flat().map(({ gpu }) => gpu.id)).toEqual([
    `one/${DRIVER}/new`,
    `one/${DRIVER}/noted`,
    `three/${DRIVER}/apart`,
  ]);
});

test('count for the nodes that their claim may use', async () => {
  const settings: KubernetesEngineSettings = {
    login: 'inCluster',
    namespace: 'berth',
    reach: 'podAddress',
    networkPolicies: true,
    userNamespaces: false,
    deviceClaims: [{ ...whole, nodeAffinity: [{ key: 'pool', operator: 'NotIn', values: ['reserved'] }] }],
  };
  const node = (name: string, labels: Record<string, string>): Node => ({
    metadata: { name, labels },
    status: { allocatable: { cpu: '8', memory: '30Gi' }, conditions: [{ type: 'Ready', status: 'True' }] },
  });
  const slices = ['one', 'two'].map((nodeName) =>
    slice([device('gpu-0', 'gpu')], { nodeName, pool: { name: nodeName, generation: 1, resourceSliceCount: 1 } }),
  );
  const claimable = await readDevices(await clusterOf({ slices }), settings, deadline());
  const nodes = [node('one', {}), node('two', { pool: 'reserved' })];
  expect(probeOf(nodes, 'v1.36.3', settings, claimable)).toMatchObject({
    capacity: { gpus: { 'NVIDIA H200': 1 } },
    devices: [{ id: `one/${DRIVER}/gpu-0`, memoryMiB: 144_384 }],
    capabilities: { gpus: true },
  });
});

test.for<[what: string, Offered, DeviceClaim, RegExp]>([
  [
    'class',
    { classes: [classOf('mig.nvidia.com')] },
    whole,
    /no DeviceClass gpu\.nvidia\.com; it has mig\.nvidia\.com/,
  ],
  ['selector', {}, { ...whole, selector: 'device.driver ==' }, /cannot read the selector device\.driver ==: /],
])('a %s that is not there is named, and the region goes on without GPUs', async ([, offered, claim, text]) => {
  const cluster = await clusterOf(offered);
  expect((await expectFault(readDevices(cluster, { deviceClaims: [claim] }, deadline()), 'rejected')).message).toMatch(
    text,
  );
  const settings = {
    login: 'inCluster',
    namespace: 'berth',
    reach: 'podAddress',
    networkPolicies: true,
    userNamespaces: false,
  } as const;
  const engine = makeKubernetesEngine({
    cluster,
    installation: 'ours',
    settings: { ...settings, deviceClaims: [claim] },
    log: { debug() {} },
  });
  const { capabilities } = await engine.probe(deadline());
  expect(capabilities).toMatchObject({ gpus: false, whyNoGpus: expect.stringMatching(text) });
  await engine.stop();
});

test('a cluster without the API says which version has it', async () => {
  const answer = (): Reply => refusal(404, 'NotFound', 'the server could not find the requested resource');
  const { cluster } = await startApiServer({ answer });
  const fault = await expectFault(readDevices(cluster, { deviceClaims: [whole] }, deadline()), 'rejected');
  expect(fault.message).toContain('no API resource.k8s.io/v1');
  expect(fault.message).toContain('1.34');
});
