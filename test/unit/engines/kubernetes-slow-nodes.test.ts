/** What a node of a cluster still does for a start, against a stand-in for the API server. */
import { describe, expect, test } from 'vitest';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { slowNode, stuckDownload } from '../../../src/engines/kubernetes/waiting-pods.ts';
import { nodeTroubleOf, pulledImageOf } from '../../../src/engines/kubernetes/state/start-failures.ts';
import { startApiServer } from '../../fixtures/api-server.ts';

test('a start that waits for an image says so, once its Pod has a node that downloads it', async () => {
  const id = instanceId('pre0000001');
  const labels = { 'berth.installation': 'ours', 'berth.kind': 'instance', 'berth.id': id };
  const pulling = { involvedObject: {}, reason: 'Pulling', message: 'Pulling image "big:1"', lastTimestamp: '' };
  let nodeName: string | undefined;
  const { cluster, calls } = await startApiServer({
    answer({ path }) {
      if (path.endsWith('/events')) return { body: { items: [pulling] } };
      const pod = { metadata: { name: `${id}-0`, uid: 'u-1', labels }, spec: { containers: [], nodeName } };
      nodeName = 'node-1';
      return { body: pod };
    },
  });
  const context = { cluster, installation: 'ours' };
  const fault = await slowNode(context, { id }, { looksMs: [0], pullMs: 0 }, AbortSignal.timeout(30_000));
  expect(fault).toMatchObject({
    kind: 'busy',
    retry: true,
    reason: 'imagePending',
    message: 'a node of the cluster still downloads big:1; the instance starts when it has',
  });
  expect(calls.map(({ path }) => path.split('/').at(-1))).toEqual([`${id}-0`, `${id}-0`, 'events']);
  expect(calls.at(-1)?.query.get('fieldSelector')).toBe('involvedObject.uid=u-1');
});

test('a download whose node makes no sandbox says why', async () => {
  const failed = { involvedObject: {}, reason: 'FailedCreatePodSandBox', message: 'no addresses', lastTimestamp: '' };
  const { cluster, calls } = await startApiServer({
    answer: ({ path }) => ({ body: path.endsWith('/events') ? { items: [failed] } : { metadata: { uid: 'u-1' } } }),
  });
  const fault = await stuckDownload({ cluster }, 'berth-pull-1', AbortSignal.timeout(30_000), [0]);
  expect(fault).toMatchObject({
    kind: 'rejected',
    retry: true,
    message: expect.stringMatching(/sandbox.*no addresses/),
  });
  expect(calls.at(-1)?.query.get('fieldSelector')).toBe('involvedObject.uid=u-1');
});

describe('the image that a node downloads', () => {
  const event = (reason: string, atSecond: number, fieldPath = 'spec.containers{main}') => ({
    involvedObject: { fieldPath },
    metadata: {},
    reason,
    message: reason === 'Pulling' ? 'Pulling image "registry.example/lab:1"' : '',
    lastTimestamp: new Date(1_000 * atSecond).toISOString(),
  });

  test.for([
    { what: 'before the download', events: [event('Scheduled', 0)], is: null },
    { what: 'during the download', events: [event('Pulling', 1)], is: 'registry.example/lab:1' },
    { what: 'after it', events: [event('Pulled', 9), event('Pulling', 1)], is: null },
    { what: 'after one of a moment', events: [event('Pulling', 1), event('Pulled', 1)], is: null },
    { what: 'after a failure', events: [event('Pulling', 1), event('Failed', 9)], is: null },
    {
      what: 'during another try',
      events: [event('Pulling', 20), event('Failed', 9)],
      is: 'registry.example/lab:1',
    },
    {
      what: 'after that of another container',
      events: [event('Pulling', 1), event('Pulled', 9, 'spec.initContainers{docker}')],
      is: 'registry.example/lab:1',
    },
  ])('$what', ({ events, is }) => {
    expect(pulledImageOf(events)).toBe(is);
  });
});

test('a start whose node has not begun it ends its wait within the time of a call, as no outage', async () => {
  const id = instanceId('pre0000001');
  const labels = { 'berth.installation': 'ours', 'berth.kind': 'instance', 'berth.id': id };
  const { cluster } = await startApiServer({
    answer({ path }) {
      if (path.endsWith('/events')) return { body: { items: [] } };
      return { body: { metadata: { name: `${id}-0`, uid: 'u-1', labels }, spec: { containers: [], nodeName: 'n' } } };
    },
  });
  const patience = { looksMs: [0], startMs: 20 };
  const fault = await slowNode({ cluster, installation: 'ours' }, { id }, patience, AbortSignal.timeout(30_000));
  expect(fault).toMatchObject({ kind: 'busy', retry: true, reason: 'startPending' });
});

describe('trouble of a node with a start', () => {
  /** Times of a clock that is a year behind. */
  const createdMs = Date.parse('2025-01-01T00:00:00Z');
  const at = (second: number): string => new Date(createdMs + 1_000 * second).toISOString();
  const pod = { metadata: { creationTimestamp: at(0) } };
  const event = (reason: string, second: number, message = '') => ({
    involvedObject: {},
    metadata: {},
    reason,
    message,
    lastTimestamp: at(second),
  });
  const attached = 'Multi-Attach error for volume "pvc-1": Volume is already used by pod(s) pre0000002-0';

  test.for([
    { what: 'nothing yet', events: [event('Scheduled', 0)] },
    { what: 'a mount that worked later', events: [event('FailedMount', 1, 'no driver'), event('Pulling', 9)] },
    {
      what: 'an attachment that worked later',
      events: [event('FailedAttachVolume', 1, attached), event('SuccessfulAttachVolume', 9)],
    },
    { what: 'a sandbox that was made', events: [event('FailedCreatePodSandBox', 3), event('Pulled', 4)] },
  ])('$what: none', ({ events }) => {
    expect(nodeTroubleOf(pod, events)).toBeNull();
  });

  test.for([
    {
      what: 'a mount',
      events: [event('Scheduled', 1), event('FailedMount', 1, 'driver not found')],
      is: { kind: 'busy', retry: true, reason: 'mountPending', message: /cannot mount a disk .*driver not found/ },
    },
    {
      what: 'a volume that another node has',
      events: [event('FailedAttachVolume', 1, attached)],
      is: {
        kind: 'busy',
        retry: true,
        reason: 'mountPending',
        message: /another node .* still has a disk .*Multi-Attach/,
      },
    },
    {
      what: 'a mount after an attachment',
      events: [event('SuccessfulAttachVolume', 9), event('FailedMount', 5, 'wrong fs type')],
      is: { reason: 'mountPending', message: /wrong fs type/ },
    },
    {
      what: 'a sandbox',
      events: [event('FailedCreatePodSandBox', 599, 'no addresses left')],
      is: {
        kind: 'rejected',
        retry: true,
        reason: 'startPending',
        message: /the network or the sandbox .*no addresses/,
      },
    },
    {
      what: 'a sandbox for more than ten minutes of the cluster',
      events: [event('FailedCreatePodSandBox', 601, 'no addresses left')],
      is: { kind: 'rejected', retry: false, reason: 'startPending' },
    },
  ])('$what', ({ events, is: { message = /./, ...is } }) => {
    const fault = nodeTroubleOf(pod, events);
    expect(fault).toMatchObject(is);
    expect(fault?.message).toMatch(message);
  });
});
