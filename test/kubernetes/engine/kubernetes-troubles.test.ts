/** What a cluster refuses or does on its own: the reason reaches the instance. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { MAIN_CONTAINER, podName } from '../../../src/engines/kubernetes/manifests/object-names.ts';
import { resources } from '../../../src/kubernetes/api-resources.ts';
import {
  deadline,
  expectFault,
  expectPresent,
  expectRunning,
  makeSubject,
  type Subject,
} from '../../conformance/subject.ts';
import { makeKubernetesFixture, type KubernetesFixture } from './kubernetes-fixture.ts';

let fixture: KubernetesFixture;
let subject: Subject;

beforeAll(async () => {
  fixture = await makeKubernetesFixture({ addons: [] });
  subject = makeSubject(fixture);
});
afterEach(() => subject.clear());
afterAll(() => fixture?.stop());

describe('a start', () => {
  test('over the quota is no_capacity with its text, and succeeds once the quota allows it', async () => {
    const { client } = fixture;
    const quota = { metadata: { name: 'small' }, spec: { hard: { 'limits.memory': '100Mi' } } };
    await client.create(resources.quotas, quota, deadline());
    try {
      // The quota counts only after its controller has seen it.
      await subject.until('the quota is known', async () => {
        const found = await client.get(resources.quotas, 'small', deadline());
        return found?.status?.hard !== undefined;
      });
      const spec = subject.spec({ memoryMiB: 128 });
      const fault = await expectFault(subject.ensure(spec), 'no_capacity');
      expect(fault.retry).toBe(true);
      expect(fault.message).toMatch(
        /small, requested: limits\.memory=128Mi, used: limits\.memory=0, limited: limits\.memory=100Mi/,
      );
      expect(expectPresent(await subject.observe(spec.id))).toMatchObject({ running: false, startedAtMs: 0 });
      await client.remove(resources.quotas, 'small', deadline());
      expectRunning(await subject.ensure(spec));
    } finally {
      await client.remove(resources.quotas, 'small', deadline());
    }
  });

  test('larger than every node is no_capacity with the text of the scheduler, and leaves no Pod waiting', async () => {
    const spec = subject.spec({ cpuMilli: 900_000 });
    const fault = await expectFault(subject.ensure(spec), 'no_capacity');
    expect(fault.message).toContain('Insufficient cpu');
    const pod = (): Promise<unknown> => fixture.client.get(resources.pods, podName(spec.id), deadline());
    await subject.until('the Pod is gone', async () => (await pod()) === null);
    expectRunning(await subject.ensure({ ...spec, cpuMilli: 100 }));
  });

  test('without its claim is a bad mount', async () => {
    const mounts = [{ source: 'not-there', target: '/root/dataDisk', readOnly: false }];
    const fault = await expectFault(subject.ensure(subject.spec({ mounts })), 'rejected');
    expect(fault.reason).toBe('badMount');
    expect(fault.message).toContain('not-there');
  });

  test('with a claim that never binds is bounded by the caller', async () => {
    const spec = {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'none',
      resources: { requests: { storage: '1Gi' } },
    };
    await fixture.client.create(resources.claims, { metadata: { name: 'never' }, spec }, deadline());
    const mounts = [{ source: 'never', target: '/root/dataDisk', readOnly: false }];
    const call = fixture.engine.ensure(subject.spec({ mounts }), AbortSignal.timeout(3_000));
    // The API server answers: it is no outage.
    expect(await expectFault(call, 'busy')).toMatchObject({ retry: true, reason: 'startPending' });
  });

  test('without its registry says that the registry is away', async () => {
    const ref = '127.0.0.1:9/nobody/here:1';
    const fault = await expectFault(
      fixture.engine.ensureImage(ref, () => {}, deadline()),
      'unreachable',
    );
    expect(fault).toMatchObject({ reason: 'registryAway', retry: true });
    expect(await fixture.client.list(resources.pods, deadline(), { labelSelector: 'berth.kind=pull' })).toEqual([]);
  });
});

describe('a Pod', () => {
  test('that is deleted behind our back runs again, as another run', async () => {
    const spec = subject.spec();
    const before = expectRunning(await subject.ensure(spec));
    const pod = await fixture.client.get(resources.pods, podName(spec.id), deadline());
    await fixture.client.remove(resources.pods, podName(spec.id), deadline(), { graceSeconds: 1 });
    const after = await subject.until('another Pod runs', async () => {
      const now = await fixture.client.get(resources.pods, podName(spec.id), deadline());
      const seen = await subject.observe(spec.id);
      return now?.metadata?.uid !== pod?.metadata?.uid && seen.kind === 'present' && seen.running && seen;
    });
    expect(after.startedAtMs).toBeGreaterThanOrEqual(before.startedAtMs);
  });

  test('that ends waits for us, and its container never runs again', async () => {
    const spec = subject.spec({ start: 'failing' });
    await subject.ensure(spec);
    const main = async () => {
      const pod = await fixture.client.get(resources.pods, podName(spec.id), deadline());
      return pod?.status?.containerStatuses?.find(({ name }) => name === MAIN_CONTAINER);
    };
    await subject.until('the container has ended', async () => (await main())?.state?.terminated !== undefined);
    // A restart comes within a second, or after a back-off of ten.
    await delay(12_000);
    expect(await main()).toMatchObject({ restartCount: 0, state: { terminated: { exitCode: 3 } } });
    expect(await subject.observe(spec.id)).toMatchObject({ running: false, exitCode: 3 });
    await expectFault(subject.exec(spec.id, 'true'), 'not_found');
    const lines = await Array.fromAsync(await fixture.engine.logs(spec.id, 'console', {}, deadline()));
    expect(lines.map(({ text }) => text)).toEqual([
      'berth: services ssh notebook',
      'berth: notebook ready',
      'berth: init none',
    ]);
  });
});

test('a driver that was started again leaves downloads of before to the sweep', async () => {
  const { client, installation, imageRef } = fixture;
  const labels = { 'berth.installation': installation, 'berth.kind': 'pull', 'berth.id': 'old' };
  const containers = [{ name: 'pull', image: imageRef, imagePullPolicy: 'Never', command: ['true'] }];
  await client.create(
    resources.pods,
    { metadata: { name: 'old', labels }, spec: { restartPolicy: 'Never', containers } },
    deadline(),
  );
  expect(await fixture.engine.listOwned(deadline())).toEqual([]);
  expect(await client.get(resources.pods, 'old', deadline()), 'it may still be used').not.toBeNull();
});
