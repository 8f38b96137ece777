import { expect, it } from 'vitest';
import { nextActOf } from '../../../console/src/pages/instances/allowed-acts.ts';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import { nextName } from '../../../console/src/pages/launch/draft.ts';
import { filtersOf, readInstanceSearch } from '../../../console/src/pages/instances/search.ts';

it('reads filters and order of the list from the address, and leaves out the rest', () => {
  expect(readInstanceSearch({ q: 'llm', status: 'Running', label: 'team=a', sort: 'name', desc: true })).toEqual({
    q: 'llm',
    status: 'Running',
    label: 'team=a',
    sort: 'name',
    desc: true,
  });
  expect(readInstanceSearch({ q: '', status: 'Gone', label: 'team', sort: 'size', desc: true })).toEqual({});
  // The router reads a number.
  expect(readInstanceSearch({ q: 2026 })).toEqual({ q: '2026' });
});

it('asks the API for what the address says, without terminated instances unless asked for', () => {
  expect(filtersOf({})).toEqual({ withoutReleased: true });
  expect(filtersOf({ status: 'Released', label: 'path=a=b', sort: 'createdAt', desc: true })).toEqual({
    status: ['Released'],
    labels: { path: 'a=b' },
    sort: { by: 'createdAt', order: 'desc' },
  });
});

it('opens what has a notebook, and offers no page where there is none', () => {
  const running = (state: string) =>
    ({ instanceRuntimeInfo: { status: 'Running' }, notebook: { state } }) as unknown as InstanceObject;
  expect(['starting', 'ready', 'failed', 'none'].map((state) => nextActOf(running(state)))).toEqual([
    'open',
    'open',
    'open',
    null,
  ]);
});

it('names the next launch after the last one', () => {
  expect(nextName('lab')).toBe('lab-2');
  expect(nextName('lab-2')).toBe('lab-3');
  expect(nextName('a'.repeat(128))).toHaveLength(128);
});
