import { expect, test } from 'vitest';
import { fullDisksText, isFull, usedPercent, nextWarning } from '../../../src/domain/storage/disk-usage.ts';
import { BYTES_PER_GB } from '../../../src/domain/storage/disk.ts';

/** Levels warned of while usage goes through the percentages. */
function warningsAt(...percents: number[]): number[] {
  let warnedPercent = 0;
  return percents.filter((percent) => {
    const next = nextWarning(percent, warnedPercent);
    ({ warnedPercent } = next);
    return next.notify;
  });
}

test('warns once at 80 % and once at 95 %', () => {
  expect(warningsAt(79, 80, 81, 94, 95, 96, 100, 100)).toEqual([80, 95]);
});

test('warns only at the higher level when a disk passes both at once', () => {
  expect(warningsAt(10, 99, 99)).toEqual([99]);
});

test('warns again only after usage fell 5 points below the level', () => {
  expect(warningsAt(81, 79, 81, 76, 80)).toEqual([81]);
  expect(warningsAt(81, 75, 80)).toEqual([81, 80]);
  expect(warningsAt(96, 94, 96, 91, 95)).toEqual([96]);
  expect(warningsAt(96, 90, 94, 95)).toEqual([96, 95]);
  expect(warningsAt(96, 75, 80, 95)).toEqual([96, 80, 95]);
});

test('rounds the percentage down, and returns 0 for a size of 0', () => {
  const sizeGB = 10;
  expect(usedPercent({ usageBytes: 9.499 * BYTES_PER_GB, sizeGB })).toBe(94);
  expect(isFull({ usageBytes: 9.499 * BYTES_PER_GB, sizeGB })).toBe(false);
  expect(isFull({ usageBytes: 9.5 * BYTES_PER_GB, sizeGB })).toBe(true);
  expect(usedPercent({ usageBytes: 5, sizeGB: 0 })).toBe(0);
});

test('describes a full disk with its largest entries, by their paths in the instance', () => {
  const biggest = [
    { path: 'runs', bytes: 12 * BYTES_PER_GB },
    { path: 'cache/pip', bytes: BYTES_PER_GB / 2 },
  ];
  const text =
    'the data disk is 97 % full; its largest paths are /root/dataDisk/runs (12 GB), /root/dataDisk/cache/pip (0.5 GB)';
  expect(fullDisksText([{ disk: 'data', mountPath: '/root/dataDisk', percent: 97, biggest }])).toBe(text);
  const volume = { disk: 'volume' as const, mountPath: '/mnt/v', percent: 100, biggest: [] };
  const root = { disk: 'root' as const, mountPath: '/', percent: 95, biggest: [{ path: 'tmp', bytes: 2 ** 31 }] };
  expect(fullDisksText([volume, root])).toBe(
    'the volume on /mnt/v is 100 % full. the root disk is 95 % full; its largest paths are /tmp (2 GB)',
  );
  expect(fullDisksText([])).toBe('');
});
