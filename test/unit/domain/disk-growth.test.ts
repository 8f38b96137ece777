import { expect, test } from 'vitest';
import { disksToStop, toleratedBytes, type DiskGrowth } from '../../../src/domain/storage/disk-growth.ts';
import { trackGrowth, type Writer } from '../../../src/domain/storage/disk-growth-track.ts';
import { instanceId, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import { makeRandom } from '../../fixtures/seeded-random.ts';

const GB = 1024 ** 3;
const MIB = 1024 ** 2;
const SIZE_GB = 20;

const grew = (name: string, grownBytes: number | null, rootBytes = 0, leastBytes = SIZE_GB * GB): DiskGrowth => ({
  id: instanceId(name),
  root: { bytes: rootBytes, sizeGB: SIZE_GB, leastBytes },
  grownBytes,
});
const stops = (all: readonly DiskGrowth[], headroomBytes: number): string[] =>
  disksToStop(all, headroomBytes).map(({ id, cause }) => `${id} ${cause}`);

test('a root disk past its size and tolerance is stopped, and one within is not', () => {
  const headroom = 1_000 * GB;
  expect(stops([grew('within', 5 * GB, 20 * GB), grew('tolerated', 5 * GB, 21.9 * GB)], headroom)).toEqual([]);
  expect(stops([grew('past', 5 * GB, 22.1 * GB)], headroom)).toEqual(['past RootDiskOverSize']);
});

test('the tolerance shrinks with the headroom, down to nothing', () => {
  expect(toleratedBytes(SIZE_GB, 1_000 * GB)).toBe(2 * GB);
  expect(toleratedBytes(SIZE_GB, 4 * GB)).toBe(GB);
  expect(toleratedBytes(SIZE_GB, -GB)).toBe(0);
});

test('an instance that started past its size may run as long as its root disk does not grow', () => {
  const headroom = 1_000 * GB;
  expect(stops([grew('cleaning', 0, 25 * GB, 25 * GB)], headroom)).toEqual([]);
  expect(stops([grew('growing', 0, 25 * GB + 20 * MIB, 25 * GB)], headroom)).toEqual(['growing RootDiskOverSize']);
});

test('growth that would reach the reserve once more stops the largest growers until the rest would not', () => {
  const all = [grew('small', GB), grew('large', 6 * GB), grew('middle', 3 * GB)];
  expect(stops(all, 11 * GB)).toEqual([]);
  expect(stops(all, 10 * GB)).toEqual(['large HostNearlyFull']);
  expect(stops(all, 5 * GB)).toEqual(['large HostNearlyFull']);
  expect(stops(all, 2 * GB)).toEqual(['large HostNearlyFull', 'middle HostNearlyFull']);
});

test('without headroom every grower is stopped, and nobody who does not grow', () => {
  const all = [grew('idle', 0), grew('log', 15 * MIB), grew('writer', 17 * MIB), grew('writer2', GB)];
  expect(stops(all, -GB)).toEqual(['writer2 HostNearlyFull', 'writer HostNearlyFull']);
});

test('an instance that cannot be counted in time is stopped first without headroom, else left alone', () => {
  const all = [grew('writer', GB), grew('uncounted', null)];
  expect(stops(all, 10 * GB)).toEqual([]);
  expect(stops(all, 0)).toEqual(['uncounted HostNearlyFull', 'writer HostNearlyFull']);
});

const writer = (name: string, over: Partial<Writer> = {}): Writer => ({
  id: instanceId(name),
  generation: 1,
  rootSizeGB: SIZE_GB,
  knownRootBytes: 0,
  ...over,
});
const rootOnly = (rootBytes: number) => ({ rootBytes, otherBytes: 0, knownOtherBytes: 0 });

test('nobody is counted while free space stays, and only those who may be past their size when it falls', () => {
  const track = trackGrowth(500 * GB, 0);
  const [small, large] = [writer('small'), writer('large', { knownRootBytes: 19 * GB })];
  track.noteFree(500 * GB - MIB, 1_000);
  expect(track.hasFallen()).toBe(false);
  track.noteFree(495 * GB, 2_000);
  expect(track.hasFallen()).toBe(true);
  expect(track.due([small, large], 400 * GB)).toEqual([large]);
  track.noteCount(large, rootOnly(19 * GB));
  track.noteFree(494.9 * GB, 3_000);
  expect(track.due([small, large], 400 * GB), 'counted since').toEqual([]);
  expect(track.due([small, large], 4 * GB), 'near the reserve').toEqual([small, large]);
});

test('space that one instance frees does not hide what another takes', () => {
  const track = trackGrowth(100 * GB, 0);
  for (let round = 1; round <= 25; round++) track.noteFree((round % 2 === 0 ? 100 : 99) * GB, round * 1_000);
  expect(track.due([writer('one', { knownRootBytes: 10 * GB })], 90 * GB)).toHaveLength(1);
});

test('growth counts for a minute, and from nothing in a new instance', () => {
  const track = trackGrowth(100 * GB, 0);
  const one = writer('one');
  track.noteFree(95 * GB, 1_000);
  track.due([one], 90 * GB);
  track.noteCount(one, rootOnly(5 * GB));
  expect(track.growthOf(one).grownBytes).toBe(5 * GB);
  track.noteFree(95 * GB, 31_000);
  track.noteFree(95 * GB, 61_000);
  expect(track.growthOf(one).grownBytes).toBe(0);
});

test('a start past the size counts from there, unless the disk grew unseen', () => {
  const track = trackGrowth(100 * GB, 0);
  const again = writer('one', { generation: 2, knownRootBytes: 25 * GB });
  track.due([again], 50 * GB);
  track.noteCount(again, rootOnly(25 * GB));
  expect(disksToStop([track.growthOf(again)], 50 * GB)).toEqual([]);
  track.noteCount(again, rootOnly(26 * GB));
  expect(disksToStop([track.growthOf(again)], 50 * GB)).toHaveLength(1);
});

/** Takes until a stop is effective: a run each second, a count, a second of grace, and the kill. */
const STOP_DELAY_S = 5;

test.each(Array.from({ length: 50 }, (_, seed) => seed))(
  'root disks that grow without bound never take the unwritten blocks of a thin volume, seed %i',
  (seed) => {
    const random = makeRandom(String(seed));
    const between = (least: number, most: number): number => least + random() * (most - least);
    const host = { otherBytes: between(0, 100) * GB, volumeGB: 40, totalBytes: 200 * GB, reserveBytes: 10 * GB };
    let writtenBytes = 0;
    const count = 1 + Math.floor(random() * 6);
    // Together at most what the reserve bears until a stop is effective.
    const mostPerSecond = host.reserveBytes / count / (STOP_DELAY_S + 2);
    const growers = Array.from({ length: count }, (_, index) => ({
      writer: writer(`grower-${index}`),
      bytes: 0,
      bytesPerSecond: between(0.2, 1) * mostPerSecond,
      stopsAtS: Infinity,
    }));
    const byId = new Map<InstanceId, (typeof growers)[number]>(growers.map((one) => [one.writer.id, one]));
    const free = (): number =>
      host.totalBytes - host.otherBytes - writtenBytes - growers.reduce((sum, { bytes }) => sum + bytes, 0);
    const track = trackGrowth(free(), 0);
    for (let second = 1; second < 600; second++) {
      const running = growers.filter(({ stopsAtS }) => second < stopsAtS);
      for (const grower of running) grower.bytes += grower.bytesPerSecond;
      if (random() < 0.3) writtenBytes = Math.min(host.volumeGB * GB, writtenBytes + between(0, 2) * GB);
      const unwrittenBytes = host.volumeGB * GB - writtenBytes;
      expect(free(), `free space, second ${second}`).toBeGreaterThanOrEqual(unwrittenBytes);
      const headroomBytes = free() - unwrittenBytes - host.reserveBytes;
      track.noteFree(free(), second * 1_000);
      const writers = running.filter(({ stopsAtS }) => stopsAtS === Infinity).map((one) => one.writer);
      if (!track.hasFallen()) continue;
      for (const one of track.due(writers, headroomBytes)) track.noteCount(one, rootOnly(byId.get(one.id)?.bytes ?? 0));
      for (const { id } of disksToStop(writers.map(track.growthOf), headroomBytes)) {
        const grower = byId.get(id);
        if (grower) grower.stopsAtS = second + STOP_DELAY_S;
      }
    }
    expect(growers.filter(({ stopsAtS }) => stopsAtS === Infinity)).toEqual([]);
  },
);
