import { expect, test } from 'vitest';
import type { ApiObject } from '../../../src/kubernetes/api-objects.ts';
import type { Resource } from '../../../src/kubernetes/api-resources.ts';
import type { Cluster, ListOptions } from '../../../src/kubernetes/cluster.ts';
import { makeClaimLists } from '../../../src/storage/claims/claim-lists.ts';

function fixture() {
  const calls: string[] = [];
  const hints = new Map<string, () => void>();
  let nowMs = 0;
  let failsWith: Error | null = null;
  let heardMs = 0;
  const cluster: Pick<Cluster, 'list' | 'watch'> = {
    async list<T extends ApiObject>(
      { plural }: Resource<T>,
      _signal: AbortSignal,
      options: ListOptions = {},
    ): Promise<T[]> {
      calls.push(`${plural} ${options.labelSelector ?? ''}`);
      if (failsWith) throw failsWith;
      return [];
    },
    watch({ plural }, _selector, { onTrouble }) {
      expect(hints.has(plural), 'one watch').toBe(false);
      hints.set(plural, () => onTrouble?.(new Error('cut')));
      return { live: Promise.resolve(), heardMs: () => heardMs };
    },
  };
  const lists = makeClaimLists(cluster, 'ours', () => nowMs);
  return {
    lists,
    lose: () => void (heardMs = -Infinity),
    calls,
    hint: (plural: string) => hints.get(plural)?.(),
    isWatched: (plural: string) => hints.has(plural),
    pass: (ms: number) => void (nowMs += ms),
    fail: (error: Error | null) => void (failsWith = error),
  };
}

const claims = 'persistentvolumeclaims berth.installation=ours';

test('a list that is watched is read once, and again after a hint, after a change of ours, and after five minutes', async () => {
  const { lists, calls, hint, pass } = fixture();
  await lists.claims.list();
  expect(calls).toEqual([claims]);
  calls.length = 0;
  for (let times = 0; times < 5; times++) await lists.claims.list();
  expect(calls).toEqual([claims]);
  hint('persistentvolumeclaims');
  await lists.claims.list();
  expect(calls).toEqual([claims, claims]);
  lists.claims.invalidate();
  await lists.claims.list();
  expect(calls).toHaveLength(3);
  pass(299_000);
  await lists.claims.list();
  expect(calls).toHaveLength(3);
  pass(2_000);
  await lists.claims.list();
  expect(calls).toHaveLength(4);
});

test('a list without a watch is read each time', async () => {
  const { lists, calls, lose } = fixture();
  await lists.claims.list();
  lose();
  for (let times = 0; times < 3; times++) await lists.claims.list();
  expect(calls).toHaveLength(4);
});

test('a hint during a list makes that list old', async () => {
  const { lists, calls, hint } = fixture();
  await lists.pods.list();
  lists.pods.invalidate();
  const listed = lists.pods.list();
  hint('pods');
  await listed;
  await lists.pods.list();
  expect(calls).toHaveLength(3);
});

test('a list that fails is neither kept nor watched', async () => {
  const { lists, calls, isWatched, fail } = fixture();
  fail(new Error('no such resource'));
  await expect(lists.snapshots.list()).rejects.toThrow('no such resource');
  expect(isWatched('volumesnapshots')).toBe(false);
  fail(null);
  expect(await lists.snapshots.list()).toEqual([]);
  expect(isWatched('volumesnapshots')).toBe(true);
  expect(calls).toHaveLength(2);
});
