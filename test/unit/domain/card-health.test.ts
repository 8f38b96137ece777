/** Findings about GPUs, and what they change of a quarantine. */
import { expect, test } from 'vitest';
import {
  findingOfXid,
  findingsOf,
  quarantineChanges,
  sumOfCards,
  type Quarantine,
} from '../../../src/domain/regions/card-health.ts';

const well = { isLost: false, recovery: null, eccUncorrected: 0 };
const quarantine = (reason: string, more: Partial<Quarantine> = {}): Quarantine => ({
  cardId: 'a',
  reason,
  evidence: '',
  sinceMs: 1,
  isReturned: false,
  ...more,
});
const none = { begun: [], continued: [], ended: [], cleared: [] };

test('finds nothing on a card that is well, or whose driver says little', () => {
  expect(findingsOf(well)).toEqual([]);
  expect(findingsOf({ ...well, eccUncorrected: null })).toEqual([]);
});

test('names each reason, with its evidence', () => {
  expect(findingsOf({ isLost: true, recovery: 'Drain and Reset', eccUncorrected: 3 })).toEqual([
    { reason: 'gpuLost', evidence: '' },
    { reason: 'gpuNeedsReset', evidence: 'Drain and Reset' },
    { reason: 'eccUncorrected', evidence: '3' },
  ]);
});

test('takes the Xids that a reset ends, and none that programs cause', () => {
  expect(findingOfXid({ code: 79, at: '12' })).toEqual([{ reason: 'xid 79', evidence: '12' }]);
  for (const code of [13, 31, 43, 45, 63, 94, 109]) expect(findingOfXid({ code, at: '12' }), String(code)).toEqual([]);
});

test('begins a quarantine once, and follows its evidence', () => {
  const ecc = { reason: 'eccUncorrected', evidence: '2' };
  expect(quarantineChanges([], [ecc])).toEqual({ ...none, begun: [ecc] });
  expect(quarantineChanges([quarantine('eccUncorrected', { evidence: '2' })], [ecc])).toEqual(none);
  expect(quarantineChanges([quarantine('eccUncorrected', { evidence: '1' })], [ecc])).toEqual({
    ...none,
    continued: [ecc],
  });
});

test('ends by itself what passes, and leaves the rest to an operator', () => {
  const stored = ['gpuLost', 'gpuNeedsReset', 'eccUncorrected', 'xid 79'].map((reason) => quarantine(reason));
  expect(quarantineChanges(stored, [])).toEqual({ ...none, ended: ['gpuLost', 'gpuNeedsReset'] });
});

test('counts what an operator has seen no more, until it happens again', () => {
  const seen = quarantine('xid 79', { evidence: '12', isReturned: true });
  const again = { reason: 'xid 79', evidence: '40' };
  expect(quarantineChanges([seen], [{ reason: 'xid 79', evidence: '12' }])).toEqual(none);
  expect(quarantineChanges([seen], [again])).toEqual({ ...none, begun: [again] });
  expect(quarantineChanges([seen], [])).toEqual({ ...none, cleared: ['xid 79'] });
});

test('adds up cards, and leaves out what one of them does not report', () => {
  const card = { busyPercent: 50, memoryUsedBytes: 2, memoryTotalBytes: 8, powerMilliwatts: 1, temperatureCelsius: 1 };
  expect(sumOfCards([card, { ...card, busyPercent: 100 }])).toEqual({
    count: 2,
    busyPercent: 75,
    memoryUsedBytes: 4,
    memoryTotalBytes: 16,
  });
  expect(sumOfCards([card, { ...card, busyPercent: null, memoryUsedBytes: null }])).toEqual({
    count: 2,
    busyPercent: null,
    memoryUsedBytes: null,
    memoryTotalBytes: 16,
  });
});
