/** Starts that the cluster refuses or delays: the owner reads why, and they go on afterwards. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/domain/compute/instance-states.ts';
import { eventually } from '../../fixtures/control.ts';
import type { Cluster } from '../cluster/cluster.ts';
import {
  applyRole,
  blocker,
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

/** Nothing was paid before it ran, and nothing was made twice. */
async function converges({ untilStatus, charged, objects, end }: FaultWorld, id: string, runs = 0): Promise<void> {
  expect(await charged(id)).toHaveLength(runs);
  await untilStatus(id, 'Running');
  expect(await charged(id)).toHaveLength(1);
  expectOneOfEach(await objects(id));
  await end(id);
}

test('an instance that fits on no node waits with the text of the scheduler', async () => {
  const scene = await makeFaultWorld(cluster);
  await cluster.apply(blocker('blocker'));
  await cluster.kubectl(['wait', 'pod/blocker', '-n', NAMESPACE, '--for=condition=Ready', '--timeout=120s']);
  const id = await scene.launch();
  try {
    expect(await scene.untilReason(id, 'NoCapacity')).toMatch(/no node of the cluster has room.*Insufficient cpu/);
    // A start that no wait can mend ends with its last attempt.
    await eventually(() => scene.refusals(id) > defaultLimits.maxAttempts + 1);
  } finally {
    await removePod(cluster, 'blocker');
  }
  await converges(scene, id);
});

test('an instance waits as one Pod for the capacity that an autoscaler adds, and runs there at once', async () => {
  const autoscaling = { nodePools: [{ cpuCores: 4, memoryGB: 16, maxNodes: 3 }] };
  const scene = await makeFaultWorld(cluster, { autoscaling });
  await cluster.apply(blocker('blocker'));
  await cluster.kubectl(['wait', 'pod/blocker', '-n', NAMESPACE, '--for=condition=Ready', '--timeout=120s']);
  const id = await scene.launch();
  const uidOf = (): Promise<string> => podField(cluster, podOf(id), '{.metadata.uid}');
  let uid = '';
  try {
    expect(await scene.untilReason(id, 'NoCapacity')).toMatch(
      /^the instance waits up to 10 minutes .*Insufficient cpu/,
    );
    uid = await uidOf();
    expect(uid).not.toBe('');
  } finally {
    await removePod(cluster, 'blocker');
  }
  await scene.untilStatus(id, 'Running');
  expect(await uidOf()).toBe(uid);
  await converges(scene, id, 1);
});

test('an instance over the quota of the namespace waits with the quota', async () => {
  const scene = await makeFaultWorld(cluster);
  const quota = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'small', namespace: NAMESPACE },
    spec: { hard: { 'limits.memory': '100Mi' } },
  };
  await cluster.apply(quota);
  const hard = ['get', 'quota', 'small', '-n', NAMESPACE, '-o', 'jsonpath={.status.hard}'];
  await eventually(async () => (await cluster.kubectl(hard)) !== '');
  const id = await scene.launch();
  try {
    expect(await scene.untilReason(id, 'NoCapacity')).toMatch(/quota .* is used up .*limits\.memory=1Gi/);
  } finally {
    await cluster.kubectl(['delete', 'quota', 'small', '-n', NAMESPACE]);
  }
  await converges(scene, id);
});

test('an image that no registry gives is retried with the registry named, and leaves nothing', async () => {
  const scene = await makeFaultWorld(cluster);
  const ref = '127.0.0.1:9/nobody/here:1';
  const { offeredImages } = scene.world.running.control;
  const offered = { name: 'away', ref, tags: [] };
  const { image } = await offeredImages.create(scene.world.caller, offered, null);
  const id = await scene.launch({ imageId: image.imageId });
  expect(await scene.untilReason(id, 'BackOff')).toContain(`the registry of ${ref} does not answer`);
  expect(await scene.charged(id)).toEqual([]);
  await scene.end(id);
  await eventually(
    async () => !(await cluster.kubectl(['get', 'pods', '-n', NAMESPACE, '-o', 'name'])).includes('pod/'),
  );
});

test('an instance whose claims do not bind waits for its disks, and goes on when they do', async () => {
  const scene = await makeFaultWorld(cluster);
  await cluster.kill('csi-provisioner');
  const id = await scene.launch();
  try {
    expect(await scene.untilReason(id, 'VolumePending')).toMatch(
      /has not made the volumes of all disks yet \(claims .+\)/,
    );
  } finally {
    await cluster.start('csi-provisioner');
  }
  await converges(scene, id);
});

test('a verb that the role lacks is named, and enough once it is there', async () => {
  const scene = await makeFaultWorld(cluster);
  await applyRole(cluster, { rule: 2, verb: 'create' });
  let id = '';
  try {
    id = await scene.launch();
    expect(await scene.untilReason(id, 'EngineRejected')).toMatch(
      /does not allow system:serviceaccount:berth:berth to create (secrets|services) in namespace berth; add the verb to its role/,
    );
  } finally {
    await applyRole(cluster);
  }
  await converges(scene, id);
});
