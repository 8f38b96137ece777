/** Pods that wait for a node of an autoscaler, against a stand-in for the API server. */
import { describe, expect, test } from 'vitest';
import type { KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import { nodeFault } from '../../../src/engines/kubernetes/pending-nodes.ts';
import { observationOf } from '../../../src/engines/kubernetes/state/run-state.ts';
import type { ClusterEvent, Pod } from '../../../src/kubernetes/api-objects.ts';
import { deadline } from '../../conformance/subject.ts';
import { refusal, startApiServer } from '../../fixtures/api-server.ts';

const settings: KubernetesEngineSettings = {
  login: 'inCluster',
  namespace: 'berth',
  reach: 'podAddress',
  networkPolicies: true,
  userNamespaces: false,
};
const autoscaling = { nodePools: [{ cpuCores: 4, memoryGB: 16, maxNodes: 3 }], patienceMinutes: 5 };
const MINUTE_MS = 60_000;
const SCHEDULER = '0/1 nodes are available: 1 Insufficient cpu.';

const waiting = (annotations: Record<string, string> = {}, message = SCHEDULER): Pod => ({
  metadata: { name: 'notebook-1-0', uid: 'u-1', annotations },
  status: { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }] },
});
const waitingFor = (minutes: number): Pod =>
  waiting({ 'berth.pending-since': String(Date.now() - minutes * MINUTE_MS) });

const event = (component: string, reason: string, message: string, second = 0): ClusterEvent => ({
  metadata: {},
  involvedObject: {},
  source: { component },
  reason,
  message,
  lastTimestamp: new Date(1_000 * second).toISOString(),
});
const scheduled = event('default-scheduler', 'FailedScheduling', SCHEDULER, 99);
const triggered = event('cluster-autoscaler', 'TriggeredScaleUp', 'pod triggered scale-up: [{gpu 0->1 (max: 3)}]', 9);

async function makeScene(events: readonly ClusterEvent[] = [], pod?: Pod, isScaled = true) {
  const { cluster, calls } = await startApiServer({
    answer: ({ method }) => (method === 'GET' ? { body: { metadata: {}, items: events } } : { body: pod ?? {} }),
  });
  const context = { cluster, settings: isScaled ? { ...settings, autoscaling } : settings };
  return { calls, look: (seen: Pod | null) => nodeFault(context, seen, deadline()) };
}

describe('an unschedulable Pod', () => {
  test('waits, with its time by the clock of Berth, which it keeps for the next process', async () => {
    const { look, calls } = await makeScene([scheduled]);
    const fromMs = Date.now();
    expect(await look(waiting())).toMatchObject({
      kind: 'busy',
      reason: 'nodePending',
      retry: true,
      message: `the instance waits up to 5 minutes for a node: no node of the cluster has room for the instance: ${SCHEDULER}`,
    });
    const [marked, listed] = calls;
    expect(listed?.query.get('fieldSelector')).toBe('involvedObject.uid=u-1');
    expect(marked).toMatchObject({ method: 'PATCH', body: { metadata: { uid: 'u-1' } } });
    const { annotations } = (marked?.body as Pod | undefined)?.metadata ?? {};
    expect(Number(annotations?.['berth.pending-since'])).toBeGreaterThanOrEqual(fromMs);
    expect(await look(waiting(annotations))).toMatchObject({ reason: 'nodePending' });
    expect(
      calls.filter(({ method }) => method === 'PATCH'),
      'marked once',
    ).toHaveLength(1);
  });

  test('is taken back after the patience of the region, with the last word of the autoscaler', async () => {
    const refused = event(
      'cluster-autoscaler',
      'NotTriggerScaleUp',
      "pod didn't trigger scale-up: 1 max node group size reached",
    );
    const { look } = await makeScene([refused, scheduled]);
    expect(await look(waitingFor(4.9))).toMatchObject({ reason: 'nodePending' });
    expect(await look(waitingFor(5))).toMatchObject({
      kind: 'no_capacity',
      reason: 'clusterFull',
      retry: true,
      message: expect.stringMatching(
        /Insufficient cpu.; no node came within 5 minutes \(NotTriggerScaleUp: .*max node group size reached\); Berth retries$/,
      ),
    });
  });

  test.for([
    {
      what: 'Cluster Autoscaler',
      events: [triggered, scheduled],
      is: /^a node is being added to the cluster \(TriggeredScaleUp: pod triggered scale-up: \[\{gpu 0->1/,
    },
    {
      what: 'Karpenter',
      events: [event('karpenter', 'Nominated', 'Pod should schedule on: nodeclaim/a-1')],
      is: /^a node is being added to the cluster \(Nominated: Pod should schedule on: nodeclaim\/a-1\)$/,
    },
    {
      what: 'an autoscaler that failed after that',
      events: [event('cluster-autoscaler', 'FailedScaleUp', 'quota exceeded', 20), triggered],
      is: /^the instance waits up to 5 minutes for a node: FailedScaleUp: quota exceeded$/,
    },
    {
      what: 'the scheduler of Karpenter',
      events: [event('karpenter', 'FailedScheduling', 'incompatible with nodepool "a"')],
      is: /^the instance waits up to 5 minutes for a node: FailedScheduling: incompatible with nodepool/,
    },
  ])('has the words of $what', async ({ events, is }) => {
    const { look } = await makeScene(events);
    expect((await look(waitingFor(1)))?.message).toMatch(is);
  });

  test('is no wait without an autoscaler, for a disk that is gone, or once another Pod has its name', async () => {
    const { look, calls } = await makeScene([], undefined, false);
    expect(await look(waiting())).toBeNull();
    expect(calls).toEqual([]);
    const scaled = await makeScene();
    const lost = waiting({}, 'persistentvolumeclaim "data-1" not found');
    expect(await scaled.look(lost)).toBeNull();
    expect(await scaled.look({ metadata: {}, spec: { containers: [], nodeName: 'n-1' } })).toBeNull();
    expect(await scaled.look(null)).toBeNull();
    const { cluster } = await startApiServer({
      answer: ({ method }) => (method === 'PATCH' ? refusal(409, 'Conflict', 'another uid') : { body: { items: [] } }),
    });
    const context = { cluster, settings: { ...settings, autoscaling } };
    expect(await nodeFault(context, waiting(), deadline())).toMatchObject({ reason: 'nodePending' });
  });

  test('is observed as a start under way, until Berth asks for no Pod', () => {
    const set = { metadata: {}, spec: { replicas: 1, selector: {}, serviceName: '', template: {} } };
    expect(observationOf(set, waiting())).toMatchObject({ running: false, reserved: true });
    const stopped = { ...set, spec: { ...set.spec, replicas: 0 } };
    expect(observationOf(stopped, waiting())).not.toHaveProperty('starting');
  });
});
