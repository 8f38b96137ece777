import { expect, test } from 'vitest';
import { makeStaleQueries } from '../../../console/src/app/stale-queries.ts';

const [one, other] = ['5', '6'].map((digit) => `notebook-${digit.repeat(8)}-aaaa-4aaa-8aaa-${'a'.repeat(12)}`);
const volume = `${'7'.repeat(8)}-aaaa-4aaa-8aaa-${'a'.repeat(12)}`;

/** Queries of pages, by what they show. */
const keys: Record<string, readonly unknown[]> = {
  list: ['instances', 'list', {}, 1],
  count: ['instances', 'count', 'Running'],
  one: ['instances', 'one', one],
  other: ['instances', 'one', other],
  capacity: ['catalog'],
  money: ['billing', 'forecast'],
  volumes: ['volumes', 'all'],
  volume: ['volumes', 'one', volume],
  keys: ['apiKeys'],
};

const staleAfter = (...events: ([string, string | undefined, object?] | null)[]): string[] => {
  const stale = makeStaleQueries();
  for (const event of events)
    stale.add(
      event && {
        kind: event[0],
        subjectId: event[1] ?? '',
        atUnixMs: 0,
        data: Object.fromEntries(Object.entries(event[2] ?? {})),
      },
    );
  const isStale = stale.take();
  return Object.entries(keys).flatMap(([name, key]) => (isStale(key) ? [name] : []));
};

test('a step of an instance makes lists and its own page stale, not other pages, capacity or money', () => {
  expect(staleAfter(['instance.observed', one, { phase: 'WaitReady' }])).toEqual(['list', 'count', 'one']);
});

test('a change of what an instance costs makes money and capacity stale, also when it becomes free', () => {
  for (const rate of [{ meter: 'compute' }, null])
    expect(staleAfter(['instance.observed', one, { rate }])).toEqual(['list', 'count', 'one', 'capacity', 'money']);
});

test('a launch or a change of mounts makes volumes stale', () => {
  const all = ['list', 'count', 'one', 'capacity', 'money', 'volumes', 'volume'];
  expect(staleAfter(['instance.launched', one, { rate: null }])).toEqual(all);
  expect(staleAfter(['instance.updated', one])).toEqual(all);
});

test('events that are refreshed together are each refreshed', () => {
  expect(staleAfter(['instance.observed', one], ['instance.observed', other])).toEqual([
    'list',
    'count',
    'one',
    'other',
  ]);
  expect(staleAfter(['disk.full', volume], ['instance.observed', one])).toEqual(
    expect.arrayContaining(['one', 'other', 'volumes']),
  );
  expect(staleAfter(['volume.expanded', volume])).toEqual(['money', 'volumes', 'volume']);
});

test('unknown events, and missed ones, make all stale', () => {
  expect(staleAfter(['weather.changed', ''])).toEqual(Object.keys(keys));
  expect(staleAfter(null, ['instance.observed', one])).toEqual(Object.keys(keys));
});
