/** Waits for an image, against a stand-in for the API server. */
import { describe, expect, test } from 'vitest';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { slowPull } from '../../../src/engines/kubernetes/waiting-pods.ts';
import { pulledImageOf } from '../../../src/engines/kubernetes/state/start-failures.ts';
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
  const fault = await slowPull(context, { id }, { firstMs: 0, againMs: 0 }, AbortSignal.timeout(30_000));
  expect(fault).toMatchObject({
    kind: 'busy',
    retry: true,
    reason: 'imagePending',
    message: 'a node of the cluster still downloads big:1; the instance starts when it has',
  });
  expect(calls.map(({ path }) => path.split('/').at(-1))).toEqual([`${id}-0`, `${id}-0`, 'events']);
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
