/** Disks that one node may mount, and nodes that cannot start a Pod, in a cluster of two nodes. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually, IMAGE_REF } from '../../fixtures/control.ts';
import type { Cluster, ClusterNode } from '../cluster/cluster.ts';
import { blocker, makeFaultWorld, NAMESPACE, podField, podOf, removePod, startFaultCluster } from './fault-world.ts';

const run = promisify(execFile);

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startFaultCluster({ nodes: 2 });
});
afterAll(() => cluster?.stop());

const nodeOf = async (id: string): Promise<ClusterNode> => {
  const name = await podField(cluster, podOf(id), '{.spec.nodeName}');
  const node = cluster.nodes.find((one) => one.name === name);
  if (node === undefined) throw new Error(`${id} has no node`);
  return node;
};

const inNode = (node: ClusterNode, script: string) =>
  run('nsenter', ['--target', String(node.pid), '--mount', '--', 'sh', '-c', script]);

/** Its sidecars end with the driver of the first node. */
const sidecars = ['csi-provisioner', 'csi-resizer', 'csi-snapshotter'] as const;

async function killDrivers(): Promise<void> {
  await cluster.kill(...sidecars);
  for (const node of cluster.nodes) await node.kill('csi-driver');
}

async function startDrivers(): Promise<void> {
  for (const node of cluster.nodes) await node.start('csi-driver');
  await cluster.start(...sidecars);
}

/** Leaves no room for another instance. */
async function fill({ name }: ClusterNode): Promise<void> {
  const cores = await cluster.kubectl(['get', 'node', name, '-o', 'jsonpath={.status.allocatable.cpu}']);
  await cluster.apply(blocker('blocker', undefined, name, Number(cores) * 1_000 - 1_500));
  await cluster.kubectl(['wait', 'pod/blocker', '-n', NAMESPACE, '--for=condition=Ready', '--timeout=120s']);
}

test('runs the instances of an account on the node that has its shared folder', async () => {
  const scene = await makeFaultWorld(cluster);
  const first = await scene.run();
  const second = await scene.run();
  expect(await nodeOf(second)).toBe(await nodeOf(first));
  await scene.end(first);
  await scene.end(second);
});

test('says that the node of the shared folder is full, and moves on when the others have ended', async () => {
  const scene = await makeFaultWorld(cluster);
  const first = await scene.run();
  await fill(await nodeOf(first));
  const second = await scene.launch();
  expect(await scene.untilReason(second, 'NoCapacity')).toMatch(
    /share are mounted on one node .* no room .* stop an instance of the account, .*ReadWriteMany/,
  );
  expect(await scene.charged(second)).toEqual([]);
  await scene.end(first);
  await scene.untilStatus(second, 'Running');
  await removePod(cluster, 'blocker');
  await scene.end(second);
});

test('runs the instances of an account on any node of a region without shared folders', async () => {
  const scene = await makeFaultWorld(cluster, {}, {}, { sharedFolder: false });
  const first = await scene.run();
  const full = await nodeOf(first);
  await fill(full);
  const second = await scene.run();
  expect(await nodeOf(second)).not.toBe(full);
  const mounts = await podField(cluster, podOf(second), '{.spec.containers[0].volumeMounts[*].mountPath}');
  expect(mounts.split(' ')).toContain('/root/dataDisk');
  expect(mounts).not.toContain('sharedDisk');
  await removePod(cluster, 'blocker');
  await scene.end(first);
  await scene.end(second);
});

test('shows a failed mount with its text, and fails the start at the deadline of disks', async () => {
  // One node: another one would first wait for the volume, which a node without a driver keeps.
  const nodeSelector = { 'kubernetes.io/hostname': 'node-2' };
  const images = ['get', 'node', 'node-2', '-o', 'jsonpath={.status.images[*].names}'];
  await eventually(async () => (await cluster.kubectl(images)).includes(IMAGE_REF));
  const scene = await makeFaultWorld(cluster, { nodeSelector }, { disksDeadlineMs: 15_000 });
  const { instances } = scene.world.running.control;
  const instanceId = await scene.run();
  await instances.stop(scene.world.caller, { instanceId }, null);
  await scene.untilStatus(instanceId, 'Stopped');
  const charged = await scene.charged(instanceId);
  await killDrivers();
  try {
    await instances.start(scene.world.caller, { instanceId }, null);
    expect(await scene.untilReason(instanceId, 'VolumePending')).toMatch(/cannot mount a disk .*csi/i);
    const failed = await scene.untilStatus(instanceId, 'StartingFailed');
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'DisksFailed',
      diagnosisMessage: expect.stringMatching(/cannot mount a disk .*csi.*after 15 s/i),
    });
    expect(await scene.charged(instanceId)).toEqual(charged);
    await eventually(async () => (await podField(cluster, podOf(instanceId), '{.metadata.name}')) === '');
    await instances.start(scene.world.caller, { instanceId }, null);
    await scene.untilReason(instanceId, 'VolumePending');
  } finally {
    await startDrivers();
  }
  // The node mounts the disks of the same Pod.
  await scene.untilStatus(instanceId, 'Running');
  expect(await scene.charged(instanceId)).toHaveLength(charged.length + 1);
  await scene.end(instanceId);
});

test('shows why a node cannot make the network of an instance, and goes on afterwards', async () => {
  const scene = await makeFaultWorld(cluster);
  for (const node of cluster.nodes)
    await inNode(node, 'mkdir -p /run/cni-addresses && mv /run/cni-addresses /run/kept && touch /run/cni-addresses');
  let id = '';
  try {
    id = await scene.launch();
    expect(await scene.untilReason(id, 'EngineRejected')).toMatch(
      /cannot make the network or the sandbox .*cni-addresses/,
    );
  } finally {
    for (const node of cluster.nodes) await inNode(node, 'rm /run/cni-addresses && mv /run/kept /run/cni-addresses');
  }
  await scene.untilStatus(id, 'Running');
  expect(await scene.charged(id)).toHaveLength(1);
  await scene.end(id);
});

test('takes a start that is slow for no outage while the API server answers', async () => {
  const scene = await makeFaultWorld(cluster, {}, { callDeadlineMs: 2_000 });
  // Nothing begins on these nodes, which the cluster finds lost only later.
  for (const node of cluster.nodes) await node.kill('kubelet');
  let id = '';
  try {
    id = await scene.launch();
    const seen = await scene.world.until(id, ({ instanceRuntimeInfo: now }) => now.message !== '');
    expect(seen.instanceRuntimeInfo).toMatchObject({ message: expect.stringMatching(/answers, but has not done/) });
    expect(seen.instanceRuntimeInfo.diagnosisReason).not.toBe('EngineUnreachable');
  } finally {
    for (const node of cluster.nodes) await node.start('kubelet');
  }
  await scene.untilStatus(id, 'Running');
  await scene.end(id);
});
