/** Refusals of a Pod, against a stand-in for the API server whose clock is another. */
import { expect, test } from 'vitest';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { refusedPod } from '../../../src/engines/kubernetes/waiting-pods.ts';
import { refusal, startApiServer, type Reply } from '../../fixtures/api-server.ts';

const id = instanceId('pre0000001');
const name = `${id}-0`;
const set = {
  spec: {
    serviceName: id,
    selector: {},
    template: { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'main', image: 'lab:1' }] } },
  },
};

async function serverOf(answers: readonly (Reply | 'has it')[]) {
  const left = [...answers];
  return startApiServer({
    answer({ method }) {
      if (method !== 'GET') return left.shift() as Reply;
      if (left[0] !== 'has it') return refusal(404, 'NotFound', 'no Pod');
      left.shift();
      return { body: { metadata: { name } } };
    },
  });
}

const quota = `pods "${name}" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`;
const refusals = [
  {
    what: 'a quota',
    reply: refusal(403, 'Forbidden', quota),
    is: {
      kind: 'no_capacity',
      reason: 'clusterFull',
      retry: true,
      message: expect.stringContaining('small, requested: pods=1'),
    },
  },
  {
    what: 'a policy',
    reply: refusal(403, 'Forbidden', 'admission webhook "guard" denied the request: no'),
    is: { kind: 'rejected', retry: false, message: expect.stringContaining('guard') },
  },
  {
    what: 'the rules of the server',
    reply: refusal(422, 'Invalid', 'Pod is invalid: spec.containers[0].image: Required value'),
    is: { kind: 'rejected', retry: false },
  },
];

test.for(
  refusals.flatMap((one) =>
    [-86_400_000, -5_000, 5_000, 86_400_000].map((skewMs) => ({ ...one, skewMs, seconds: skewMs / 1_000 })),
  ),
)('a refusal by $what is reported by a cluster whose clock is $seconds s off', async ({ reply, is, skewMs }) => {
  const date = new Date(Date.now() + skewMs).toUTCString();
  const { cluster, calls } = await serverOf([{ ...reply, headers: { date } }]);
  expect(await refusedPod({ cluster }, { id }, set, AbortSignal.timeout(30_000), [0])).toMatchObject(is);
  const asked = calls.at(-1);
  expect(asked?.query.get('dryRun')).toBe('All');
  expect(asked?.body).toMatchObject({
    kind: 'Pod',
    metadata: { name, labels: { app: 'x' } },
    spec: set.spec.template.spec,
  });
});

test('a Pod that exists or may be created is no refusal, and a later one is reported', async () => {
  const { cluster, calls } = await serverOf([
    'has it',
    { body: {} },
    refusal(409, 'AlreadyExists', 'the Pod exists'),
    refusal(403, 'Forbidden', quota),
  ]);
  const fault = await refusedPod({ cluster }, { id }, set, AbortSignal.timeout(30_000), [0, 0, 0, 0]);
  expect(fault).toMatchObject({ reason: 'clusterFull' });
  expect(calls.filter(({ method }) => method === 'POST')).toHaveLength(3);
});
