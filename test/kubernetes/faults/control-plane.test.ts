/** Losses of the cluster's own control plane under launches and running instances. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../fixtures/control.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { expectOneOfEach, makeFaultWorld, podField, podOf, removePod, startFaultCluster } from './fault-world.ts';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startFaultCluster();
});
afterAll(() => cluster?.stop());

test.for(['kube-apiserver', 'etcd'] as const)(
  'launches go on after the loss of %s, and make nothing twice',
  async (name) => {
    const scene = await makeFaultWorld(cluster);
    const running = await scene.run();
    const launched = await scene.launch();
    // In the middle of the launch.
    await eventually(async () => (await scene.objects(launched)).length > 0);
    await cluster.kill(name);
    await scene.untilReason(launched, 'EngineUnreachable');
    // Requests are accepted meanwhile, and kept.
    const { instances } = scene.world.running.control;
    await instances.stop(scene.world.caller, { instanceId: running }, null);
    await cluster.start(name);
    await scene.untilStatus(launched, 'Running');
    await scene.untilStatus(running, 'Stopped');
    expectOneOfEach(await scene.objects(launched));
    expect(await scene.charged(launched)).toHaveLength(1);
    const [paid] = await scene.charged(running);
    expect(paid?.closedAtMs, 'the stop ended the charge').not.toBeNull();
    await scene.end(launched);
    await scene.end(running);
  },
);

test('changes are seen after a restart of the API server, which knows no version of before', async () => {
  const scene = await makeFaultWorld(cluster);
  const id = await scene.run();
  const before = await podField(cluster, podOf(id), '{.metadata.uid}');
  await cluster.kill('kube-apiserver');
  await cluster.start('kube-apiserver');
  await removePod(cluster, podOf(id));
  await eventually(async () => (await scene.charged(id)).length === 2);
  await scene.untilStatus(id, 'Running');
  expect(await podField(cluster, podOf(id), '{.metadata.uid}')).not.toBe(before);
  await scene.end(id);
});
