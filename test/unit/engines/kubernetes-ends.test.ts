/** Ends of runs, against a stand-in for the API server. */
import { expect, test } from 'vitest';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import type { ClusterContext } from '../../../src/engines/kubernetes/cluster-context.ts';
import { readLog } from '../../../src/engines/kubernetes/inside/console-logs.ts';
import { haltInstance } from '../../../src/engines/kubernetes/instance-ends.ts';
import { observationOf } from '../../../src/engines/kubernetes/state/run-state.ts';
import type { Pod, StatefulSet } from '../../../src/kubernetes/api-objects.ts';
import { refusal, startApiServer } from '../../fixtures/api-server.ts';

const id = instanceId('pre0000001');
const labels = { 'berth.installation': 'ours', 'berth.kind': 'instance', 'berth.id': id };
const startedAt = '2026-11-24T02:50:44Z';
const ended = { terminated: { exitCode: 3, reason: 'Error', startedAt, finishedAt: startedAt } };
const runs = { running: { startedAt } };
const signal = AbortSignal.timeout(30_000);

/** Cluster with one Pod in the state, whose log has the text. */
async function clusterWith(status: object, log: { text: string; fails?: boolean }) {
  const set: StatefulSet = {
    metadata: { name: id, uid: 'set-1', labels, annotations: {} },
    spec: { replicas: 1, serviceName: id, selector: {}, template: {} },
  };
  let pod: Pod | null = {
    metadata: { name: `${id}-0`, uid: 'pod-1', labels },
    spec: { containers: [] },
    status: { containerStatuses: [{ name: 'main', image: '', imageID: '', ready: true, restartCount: 0, ...status }] },
  };
  const { cluster, calls } = await startApiServer({
    answer({ method, path, body }, response) {
      if (path.endsWith('/log')) return log.fails ? refusal(500, 'InternalError', 'no') : void response.end(log.text);
      if (path.endsWith(`/pods/${id}-0`)) {
        const found = pod;
        if (method === 'DELETE') pod = null;
        return found === null ? refusal(404, 'NotFound', 'no Pod') : { body: found };
      }
      if (method === 'PATCH') {
        const { metadata, spec } = body as StatefulSet;
        const annotations = Object.entries({ ...set.metadata?.annotations, ...metadata?.annotations });
        set.metadata = {
          ...set.metadata,
          annotations: Object.fromEntries(annotations.filter(([, value]) => value !== null)),
        };
        set.spec = { ...set.spec, ...spec } as NonNullable<StatefulSet['spec']>;
      }
      return { body: set };
    },
  });
  const pods: Partial<ClusterContext['pods']> = {
    live: async () => {},
    forgetEviction: () => {},
    until: async (_name, pick) => pick(pod, null) as never,
  };
  const context = {
    cluster,
    installation: 'ours',
    pods,
    log: { debug() {} },
  } as unknown as ClusterContext;
  return {
    context,
    set,
    calls,
    halt: () => haltInstance(context, id, 1_000, signal),
    async console(): Promise<string[]> {
      const lines = await Array.fromAsync(await readLog({ context, id, source: 'console', range: {}, signal }));
      return lines.map(({ text }) => text);
    },
    start(next: object) {
      pod = { metadata: { name: `${id}-0`, uid: 'pod-2', labels }, spec: { containers: [] }, status: next };
      set.spec = { ...set.spec, replicas: 1 } as NonNullable<StatefulSet['spec']>;
    },
    isRemoved: () => pod === null,
  };
}

const line = (text: string): string => `2026-11-24T02:50:45.1Z ${text}\n`;

test.for([
  { what: 'its container', status: { state: ended }, previous: false },
  {
    what: 'a container that the instance keeps busy',
    status: { state: runs, restartCount: 1, lastState: ended },
    previous: true,
  },
  {
    what: 'a back-off',
    status: { state: { waiting: { reason: 'CrashLoopBackOff' } }, restartCount: 2, lastState: ended },
    previous: true,
  },
])('a halt removes $what of an ended run, and keeps its exit code and last lines', async ({ status, previous }) => {
  const { halt, console, set, isRemoved, calls } = await clusterWith(status, { text: line('one') + line('two') });
  await halt();
  expect(isRemoved()).toBe(true);
  expect(observationOf(set, null)).toEqual({
    kind: 'present',
    generation: 0,
    nodePorts: [],
    running: false,
    exitCode: 3,
    outOfMemory: false,
    startedAtMs: Date.parse(startedAt),
  });
  expect(await console()).toEqual(['one', 'two']);
  expect(calls.find(({ path }) => path.endsWith('/log'))?.query.get('previous')).toBe(String(previous));
});

test('a long console is kept from a whole line on, within the size of an annotation', async () => {
  const lines = Array.from({ length: 200 }, (_, at) => `${at}${'\u00fc'.repeat(500)}`);
  const { halt, console, set } = await clusterWith({ state: ended }, { text: lines.map(line).join('') });
  await halt();
  const kept = await console();
  expect(kept.length).toBeGreaterThan(5);
  expect(kept).toEqual(lines.slice(-kept.length));
  expect(Buffer.byteLength(set.metadata?.annotations?.['berth.last-console'] ?? '')).toBeLessThanOrEqual(16 * 1024);
});

test('a run whose console its node does not give ends all the same', async () => {
  const { halt, console, set, isRemoved } = await clusterWith({ state: ended }, { text: '', fails: true });
  await halt();
  expect(isRemoved()).toBe(true);
  expect(observationOf(set, null)).toMatchObject({ exitCode: 3 });
  expect(await console()).toEqual([]);
});

test('a stop of a later run removes the lines of the one before', async () => {
  const { halt, console, start } = await clusterWith({ state: ended }, { text: line('one') });
  await halt();
  start({ containerStatuses: [{ name: 'main', image: '', imageID: '', ready: true, restartCount: 0, state: runs }] });
  await halt();
  expect(await console()).toEqual([]);
});
