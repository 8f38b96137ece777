import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Capacity } from '../../../src/domain/regions/catalog.ts';
import { noticeFile } from '../../../src/domain/compute/notice.ts';
import { addCapacity, fits, zeroCapacity } from '../../../src/domain/regions/placement.ts';
import { resumesAfter } from '../../../src/domain/compute/resume.ts';
import { byNewestRun, chooseReclaims, type SpotInstance } from '../../../src/domain/compute/spot.ts';
import { anInstance } from './instance-fixture.ts';

const spot = (id: string, cores: number, runningSinceMs: number, gpus = 0): SpotInstance => ({
  id,
  held: { cpuMilli: cores * 1_000, memoryMiB: cores * 1_024, gpus: gpus === 0 ? {} : { L4: gpus } },
  runningSinceMs,
  requestedAtMs: runningSinceMs,
});
const need = (cores: number, gpus = 0) => spot('', cores, 0, gpus).held;
const chosen = (...given: Parameters<typeof chooseReclaims>): string[] | null =>
  chooseReclaims(...given)?.map(({ id }) => id) ?? null;

test('chooses the newest runs first, and nobody when it fits already', () => {
  const spots = [spot('old', 1, 10), spot('new', 1, 30), spot('middle', 1, 20)];
  expect(chosen(need(2), zeroCapacity, spots)).toEqual(['new', 'middle']);
  expect(chosen(need(2), need(1), spots)).toEqual(['new']);
  expect(chosen(need(2), need(2), spots)).toEqual([]);
  expect(chosen(need(4), zeroCapacity, spots)).toBeNull();
  expect(chosen(need(1), zeroCapacity, [spot('b', 1, 0), ...spots])).toEqual(['b']);
});

test('spares those that do not help, or are not needed once the others stop', () => {
  expect(chosen(need(1, 1), need(4), [spot('gpu', 1, 10, 1), spot('cpu', 1, 20)])).toEqual(['gpu']);
  expect(chosen(need(4), zeroCapacity, [spot('large', 4, 10), spot('b', 2, 20), spot('c', 1, 30)])).toEqual(['large']);
  // A reservation ahead in the queue leaves less than nothing.
  expect(chosen(need(1), need(-1), [spot('a', 1, 10), spot('b', 1, 20)])).toEqual(['b', 'a']);
});

test('chooses a set that suffices and of which nobody can be spared, whenever all suffice', () => {
  const spots = fc.array(fc.tuple(fc.integer({ min: 1, max: 4 }), fc.nat(20), fc.nat(2)), { maxLength: 7 });
  const free = fc.record({ cores: fc.integer({ min: -3, max: 6 }), gpus: fc.integer({ min: -1, max: 2 }) });
  fc.assert(
    fc.property(spots, free, fc.integer({ min: 1, max: 8 }), fc.nat(3), (list, { cores, gpus }, wanted, wantedGpus) => {
      const all = list.map(([size, sinceMs, ofGpus], at) => spot(String(at), size, sinceMs, ofGpus));
      const freeNow: Capacity = { ...need(cores), gpus: { L4: gpus } };
      const fitsWith = (some: SpotInstance[]): boolean =>
        fits(
          need(wanted, wantedGpus),
          some.reduce<Capacity>((sum, { held }) => addCapacity(sum, held), freeNow),
        );
      const picked = chooseReclaims(need(wanted, wantedGpus), freeNow, all);
      expect(picked !== null).toBe(fitsWith(all));
      if (picked === null) return;
      expect(fitsWith(picked)).toBe(true);
      for (const one of picked) expect(fitsWith(picked.filter((other) => other !== one))).toBe(false);
      expect(picked).toEqual(picked.toSorted(byNewestRun));
    }),
  );
});

test('shows programs inside the next announced stop', () => {
  const notice = (windowEndsAtMs: number | null, reclaimAtMs: number | null): unknown =>
    JSON.parse(noticeFile({ windowEndsAtMs, reclaimAtMs }));
  expect(notice(null, null)).toEqual({});
  expect(notice(5, null)).toEqual({ kind: 'OffPeakEnded', atUnixMs: 5, reason: expect.any(String) });
  expect(notice(5, 4)).toMatchObject({ kind: 'SpotReclaimed', atUnixMs: 4 });
  expect(notice(5, 6)).toMatchObject({ kind: 'OffPeakEnded', atUnixMs: 5 });
});

test('resumes after the end of a window and after a reclaim alone, and only where asked', () => {
  const stopped = (diagnosis: 'OffPeakEnded' | 'SpotReclaimed' | 'IdleStop' | '', resume = true) => {
    const { spec, observed } = anInstance();
    return anInstance({
      desired: 'stopped',
      spec: { ...spec, resume },
      observed: { ...observed, status: 'Stopped', diagnosis },
    });
  };
  expect(resumesAfter(stopped('OffPeakEnded'))).toBe('OffPeakEnded');
  expect(resumesAfter(stopped('SpotReclaimed'))).toBe('SpotReclaimed');
  expect(resumesAfter(stopped('OffPeakEnded', false))).toBeNull();
  for (const other of ['IdleStop', ''] as const) expect(resumesAfter(stopped(other))).toBeNull();
  expect(resumesAfter({ ...stopped('OffPeakEnded'), desired: 'archived' })).toBeNull();
});
