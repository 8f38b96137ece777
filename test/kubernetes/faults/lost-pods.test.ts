/** Runs that the cluster takes away or that nobody sees: drains, deleted Pods, lost nodes. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../fixtures/control.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { nodeName } from '../cluster/config.ts';
import {
  expectOneOfEach,
  makeFaultWorld,
  NAMESPACE,
  podField,
  podOf,
  removePod,
  startFaultCluster,
  type FaultWorld,
} from './fault-world.ts';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startFaultCluster();
});
afterAll(() => cluster?.stop());

const uidOf = (id: string): Promise<string> => podField(cluster, podOf(id), '{.metadata.uid}');

/** Waits for the next run, and returns the text of the eviction. */
async function untilEvicted({ events, charged, untilStatus, objects }: FaultWorld, id: string): Promise<unknown> {
  const evictions = async () => (await events(id)).filter(({ data }) => data['diagnosis'] === 'Evicted');
  await eventually(async () => (await evictions()).length > 0);
  await eventually(async () => (await charged(id)).length === 2);
  await untilStatus(id, 'Running');
  expect(await evictions()).toHaveLength(1);
  const [before, after] = await charged(id);
  expect(before?.closedAtMs, 'the time between the runs is free').toBeLessThan(after?.openedAtMs ?? 0);
  expectOneOfEach(await objects(id));
  const [eviction] = await evictions();
  return eviction?.data['reason'];
}

test('an evicted instance runs again, with an event that says why', async () => {
  const scene = await makeFaultWorld(cluster);
  const id = await scene.run();
  const eviction = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name: podOf(id), namespace: NAMESPACE },
  };
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${podOf(id)}/eviction`;
  expect((await cluster.request('POST', path, eviction)).status).toBe(201);
  expect(await untilEvicted(scene, id)).toMatch(/evicted from its node, as when the node is drained/);
  await scene.end(id);
});

test('a drain waits for a running instance that is protected from an autoscaler, unless it deletes Pods', async () => {
  const autoscaling = { nodePools: [{ cpuCores: 4, memoryGB: 16, maxNodes: 3 }] };
  const scene = await makeFaultWorld(cluster, { autoscaling });
  const id = await scene.run();
  const uid = await uidOf(id);
  const instances = ['--pod-selector=berth.kind=instance', '--delete-emptydir-data'];
  const drain = (...more: string[]): Promise<string> => cluster.kubectl(['drain', nodeName, ...instances, ...more]);
  try {
    await expect(drain('--timeout=3s')).rejects.toThrow(/violate the pod's disruption budget/);
    expect(await uidOf(id)).toBe(uid);
    await drain('--disable-eviction', '--timeout=60s');
    // The next Pod waits for another node.
    expect(await scene.untilReason(id, 'NoCapacity')).toMatch(/^the instance waits up to 10 minutes .*unschedulable/);
  } finally {
    await cluster.kubectl(['uncordon', nodeName]);
  }
  await untilEvicted(scene, id);
  await scene.end(id);
  expect(await cluster.kubectl(['get', 'pdb', '-n', NAMESPACE, '-o', 'name'])).toBe('');
});

test('an instance whose Pod is deleted behind our back runs again', async () => {
  const scene = await makeFaultWorld(cluster);
  const id = await scene.run();
  const before = await uidOf(id);
  await removePod(cluster, podOf(id));
  expect(await untilEvicted(scene, id)).toMatch(/another program deleted the Pod|removed from its node/);
  expect(await uidOf(id)).not.toBe(before);
  await scene.end(id);
});

test('a run that began while Berth was away is found, and the former is paid as far as it was seen', async () => {
  const scene = await makeFaultWorld(cluster);
  const id = await scene.run();
  const before = await uidOf(id);
  await scene.world.running.stop();
  const leftAtMs = Date.now();
  await removePod(cluster, podOf(id));
  await eventually(async () => {
    const [uid, phase] = await Promise.all([uidOf(id), podField(cluster, podOf(id), '{.status.phase}')]);
    return uid !== '' && uid !== before && phase === 'Running';
  });
  await scene.world.again();
  await eventually(async () => (await scene.charged(id)).length === 2);
  await scene.untilStatus(id, 'Running');
  const [first, second] = await scene.charged(id);
  expect(first?.closedAtMs).toBeLessThanOrEqual(leftAtMs);
  expect(second?.openedAtMs).toBeGreaterThan(leftAtMs);
  expectOneOfEach(await scene.objects(id));
  await scene.end(id);
});

test('a lost node makes its instances wait with the reason, and they run on when it is back', async () => {
  const scene = await makeFaultWorld(cluster);
  const id = await scene.run();
  const before = await uidOf(id);
  await cluster.kill('kubelet', 'containerd');
  expect(await scene.untilReason(id, 'EngineUnreachable')).toMatch(/the node node of the instance does not answer/);
  await cluster.start('containerd', 'kubelet');
  await scene.untilReason(id, '');
  await scene.untilStatus(id, 'Running');
  expect(await uidOf(id), 'the same run').toBe(before);
  const charged = await scene.charged(id);
  expect(charged, 'the same run is paid as one').toHaveLength(1);
  expect(charged[0]?.closedAtMs).toBeNull();
  await scene.end(id);
});

test('an ended run leaves no process while Berth is away, and its last lines are there when it is back', async () => {
  const scene = await makeFaultWorld(cluster);
  const id = await scene.run();
  const before = await uidOf(id);
  await scene.world.running.stop();
  const main = (field: string): Promise<string> =>
    podField(cluster, podOf(id), `{.status.containerStatuses[?(@.name=="main")].${field}}`);
  // Root inside removes whatever a restarted container could know the end by.
  const script = 'rm -rf /run/berth-pod/*; echo last >/proc/1/fd/1; kill -TERM 1';
  await cluster.kubectl(['exec', '-n', NAMESPACE, podOf(id), '-c', 'main', '--', 'sh', '-c', script]).catch(() => '');
  await eventually(async () => (await main('state.terminated.exitCode')) === '0');
  // A restart comes within a second, or after a back-off of ten.
  await delay(15_000);
  expect(await Promise.all([main('restartCount'), main('state.running'), uidOf(id)])).toEqual(['0', '', before]);
  await scene.world.again();
  await eventually(async () => (await scene.charged(id)).length === 2);
  await scene.untilStatus(id, 'Running');
  const set = ['get', 'statefulset', id, '-n', NAMESPACE, '-o', 'jsonpath={.metadata.annotations}'];
  expect(await cluster.kubectl(set)).toMatch(/berth.last-console.*last/);
  expectOneOfEach(await scene.objects(id));
  await scene.end(id);
});

test('an instance that writes more than its root disk holds is stopped with the reason, paid until then', async () => {
  const scene = await makeFaultWorld(cluster);
  const id = await scene.run();
  const write = 'dd if=/dev/zero of=/root/large bs=1048576 count=1200';
  await cluster.kubectl(['exec', '-n', NAMESPACE, podOf(id), '-c', 'main', '--', 'sh', '-c', write]);
  const { instanceRuntimeInfo } = await scene.untilStatus(id, 'Stopped');
  expect(instanceRuntimeInfo).toMatchObject({
    diagnosisReason: 'RootDiskOverSize',
    diagnosisMessage: expect.stringMatching(/more than the 1 GB of its root disk.*ephemeral.*volumes are kept/),
  });
  const charged = await scene.charged(id);
  expect(charged).toHaveLength(1);
  expect(charged[0]?.closedAtMs).not.toBeNull();
  await eventually(async () => (await podField(cluster, podOf(id), '{.metadata.uid}')) === '');
  await scene.end(id);
});
