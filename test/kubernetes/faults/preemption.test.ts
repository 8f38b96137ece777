/** Spot instances that the cluster preempts: notice, event, the stop, and no fight for the node. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../fixtures/control.ts';
import type { Cluster } from '../cluster/cluster.ts';
import {
  blocker,
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
  const priorityClass = (name: string, value: number): object => ({
    apiVersion: 'scheduling.k8s.io/v1',
    kind: 'PriorityClass',
    metadata: { name },
    value,
  });
  await cluster.apply(priorityClass('berth-spot', 1), priorityClass('urgent', 1_000));
});
afterEach(() => removePod(cluster, 'urgent'));
afterAll(() => cluster?.stop());

const GRACE_S = 16;
const settings = { spotPriorityClass: 'berth-spot', preemptionGraceSeconds: GRACE_S };

const phaseOf = (name: string): Promise<string> => podField(cluster, name, '{.status.phase}');

async function readNotice(id: string): Promise<Record<string, unknown>> {
  let text = '';
  await eventually(
    async () => {
      const command = ['exec', podOf(id), '-n', NAMESPACE, '--', 'cat', '/run/berth/notice.json'];
      text = await cluster.kubectl(command).catch(String);
      return text.includes('SpotReclaimed');
    },
    () => text,
  );
  return JSON.parse(text);
}

const reclaims = async ({ events }: FaultWorld, id: string) =>
  (await events(id)).filter(({ kind }) => kind === 'instance.reclaimed');

test('a preempted spot instance gets its notice and time, stops, and resumes once capacity is free', async () => {
  const scene = await makeFaultWorld(cluster, settings);
  const id = await scene.run({ type: 'spot', resume: true });
  await cluster.apply(blocker('urgent', 'urgent'));

  const notice = await readNotice(id);
  expect(notice).toMatchObject({ kind: 'SpotReclaimed', reason: expect.stringContaining('the cluster needs') });
  await eventually(async () => (await reclaims(scene, id)).length === 1);
  const data = (await reclaims(scene, id))[0]?.data ?? {};
  expect(data).toMatchObject({ reason: expect.stringContaining('a Pod of higher priority') });
  // Whole seconds, and the clock of the node.
  const stopsAtMs = Number(data['stopsAtUnixMs']);
  expect(Math.abs(Number(notice['atUnixMs']) - stopsAtMs)).toBeLessThanOrEqual(3_000);

  await scene.untilReason(id, 'SpotReclaimed');
  await eventually(async () => (await phaseOf('urgent')) === 'Running');
  const [first] = await scene.charged(id);
  expect(first?.closedAtMs, 'paid until the announced stop').toBeGreaterThanOrEqual(stopsAtMs);

  // It starts again by its option, and takes nothing from the Pod of higher priority.
  expect(await scene.untilReason(id, 'NoCapacity')).toMatch(/no node of the cluster has room.*Insufficient cpu/);
  expect(await phaseOf('urgent')).toBe('Running');
  expect(await scene.charged(id), 'a wait is free').toHaveLength(1);
  expect(await reclaims(scene, id)).toHaveLength(1);

  await removePod(cluster, 'urgent');
  await scene.untilStatus(id, 'Running');
  expect(await scene.charged(id)).toHaveLength(2);
  await scene.end(id);
});

test('a spot instance that is preempted while Berth is away gets its notice, and does not run again unasked', async () => {
  const scene = await makeFaultWorld(cluster, settings);
  const id = await scene.run({ type: 'spot' });
  await scene.world.running.stop();
  const leftAtMs = Date.now();

  await cluster.apply(blocker('urgent', 'urgent'));
  expect(await readNotice(id)).toMatchObject({ kind: 'SpotReclaimed' });
  await eventually(async () => (await phaseOf('urgent')) === 'Running');
  await removePod(cluster, 'urgent');
  // The next Pod of the StatefulSet waits although there is room.
  await eventually(
    async () => (await podField(cluster, podOf(id), '{.spec.schedulingGates[*].name}')) === 'berth.start',
  );

  await scene.world.again();
  await scene.untilReason(id, 'SpotReclaimed');
  expect(await reclaims(scene, id)).toHaveLength(1);
  const charged = await scene.charged(id);
  expect(charged).toHaveLength(1);
  expect(charged[0]?.closedAtMs, 'nothing is paid of which nobody knows').toBeLessThanOrEqual(leftAtMs);
  await scene.end(id);
});

test('a stop of a spot instance does not wait for the time of a preemption', async () => {
  const scene = await makeFaultWorld(cluster, { ...settings, preemptionGraceSeconds: 3_600 });
  const id = await scene.run({ type: 'spot' });
  const { instances } = scene.world.running.control;
  await instances.stop(scene.world.caller, { instanceId: id }, null);
  await scene.untilStatus(id, 'Stopped');
  expect(await reclaims(scene, id)).toEqual([]);
  const set = await cluster.kubectl([
    'get',
    'statefulset',
    id,
    '-n',
    NAMESPACE,
    '-o',
    'jsonpath={.metadata.annotations}',
  ]);
  // A run that is killed ends with 137.
  expect(JSON.parse(JSON.parse(set)['berth.last-run'])).toMatchObject({ exitCode: 0 });
  await scene.end(id);
});
