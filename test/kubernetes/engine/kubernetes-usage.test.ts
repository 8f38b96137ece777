/** Figures of Pods: sampling asks the metrics API alone, for all instances at once. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { deadline, expectRunning, makeSubject, type Subject } from '../../conformance/subject.ts';
import { makeKubernetesFixture, type KubernetesFixture } from './kubernetes-fixture.ts';

const MEMORY_MIB = 64;

let fixture: KubernetesFixture;
let subject: Subject;

beforeAll(async () => {
  fixture = await makeKubernetesFixture({ addons: ['metrics'] });
  subject = makeSubject(fixture);
});
afterAll(() => fixture?.stop());

function countCalls(): () => number {
  let calls = 0;
  const onCall = (): void => void (calls += 1);
  subscribe('http.client.request.start', onCall);
  onTestFinished(() => void unsubscribe('http.client.request.start', onCall));
  return () => calls;
}

test('sampling has the CPU time and memory of each instance, by one call a round', { timeout: 180_000 }, async () => {
  const { engine } = fixture;
  const specs = [subject.spec({ memoryMiB: MEMORY_MIB }), subject.spec({ memoryMiB: MEMORY_MIB })];
  const ids = specs.map(({ id }) => id);
  for (const spec of specs) expectRunning(await subject.ensure(spec));
  const sample = () => engine.usage(ids, deadline(), { countersOnly: true, sampling: true });
  await sample();
  const calls = countCalls();
  let rounds = 0;
  const found = new Map<string, number>();
  await subject.until('both have figures', async () => {
    rounds += 1;
    for (const [id, usage] of await sample()) {
      expect(usage).toMatchObject({ memoryLimitBytes: MEMORY_MIB * 2 ** 20, processes: null });
      expect(usage.memoryBytes).toBeGreaterThan(0);
      expect(usage.cpuTimeMs).toBeGreaterThanOrEqual(0);
      found.set(id, usage.atMs);
    }
    return found.size === ids.length;
  });
  // A list is read again after 28 s; figures that are no news are omitted.
  expect(calls()).toBeLessThan(rounds);
  expect(calls()).toBeLessThanOrEqual(4);
  expect([...(await sample()).keys()]).toEqual([]);
});
