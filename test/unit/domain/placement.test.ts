import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { gpusNamed, type Capacity } from '../../../src/domain/regions/catalog.ts';
import {
  fits,
  freeCapacity,
  smallestReserve,
  takeFromRegion,
  timesFit,
  RESERVATION_MS,
  walkQueue,
  nearestType,
  zeroCapacity,
  addCapacity,
  capacityShortfall,
  type QueuedRequest,
  type RegionCapacity,
} from '../../../src/domain/regions/placement.ts';

const of = (cpu: number, memory: number, gpus = 0): Capacity => ({
  cpuMilli: cpu * 1000,
  memoryMiB: memory * 1024,
  gpus: gpus === 0 ? {} : { A100: gpus },
});
const fixture = (total: Capacity, used: Capacity = of(0, 0)): RegionCapacity => ({ total, used });

const NOW_MS = 1_000 * RESERVATION_MS;
const atEnd = NOW_MS - RESERVATION_MS;

interface Waits extends QueuedRequest {
  usage: Capacity;
}
let accounts = 0;
/** A fresh entry of its own account, which holds nothing. */
const waits = (need: Capacity, over: Partial<Waits> = {}): Waits => ({
  need,
  ownerId: `account ${accounts++}`,
  joinedAtMs: NOW_MS,
  usage: zeroCapacity,
  ...over,
});

/** Entries placed now, and whether a newcomer would be. */
const scheduledOf = (
  at: RegionCapacity,
  line: (Capacity | Waits)[],
  newcomer = of(0, 0),
): { scheduled: boolean[]; newcomer: boolean } => {
  const queueWalk = walkQueue(at, NOW_MS);
  const scheduled = line.map((one) => ('need' in one ? one : waits(one))).map((one) => queueWalk.visit(one, one.usage));
  return { scheduled, newcomer: fits(newcomer, queueWalk.free()) };
};

test('places entries in order; a smaller later entry does not take capacity reserved for an earlier one', () => {
  const at = fixture(of(8, 32), of(6, 24));
  expect(scheduledOf(at, [of(4, 16), of(1, 2)], of(1, 2))).toEqual({ scheduled: [false, false], newcomer: false });
});

test('a later small entry passes one that waits for GPUs only while CPU and memory suffice for both', () => {
  const at = fixture(of(16, 64, 2), of(4, 16, 2));
  const gpu = of(8, 32, 1);
  expect(scheduledOf(at, [gpu, of(4, 16)], of(1, 2))).toEqual({ scheduled: [false, true], newcomer: false });
  expect(scheduledOf(at, [gpu, of(5, 16)], of(4, 16))).toEqual({ scheduled: [false, false], newcomer: false });
});

test('leaves the rest to later entries after each placement', () => {
  const at = fixture(of(8, 32), of(2, 8));
  expect(scheduledOf(at, [of(2, 8), of(2, 8), of(4, 8), of(2, 8)], of(0.5, 1))).toEqual({
    scheduled: [true, true, false, false],
    newcomer: false,
  });
});

test("reserves nothing for an entry that exceeds the region's total", () => {
  const at = fixture(of(8, 32), of(2, 8));
  expect(scheduledOf(at, [of(8, 16, 4), of(4, 16)], of(2, 8))).toEqual({ scheduled: [false, true], newcomer: true });
});

test('reserves capacity for an entry unless only instances of its own account could free enough', () => {
  const at = fixture(of(96, 384, 8), of(32, 128, 2));
  const gpu8 = of(64, 256, 8);
  const cpu1 = of(1, 4);
  // Its account's two small instances keep eight GPUs from ever coming free.
  const blocked = scheduledOf(at, [waits(gpu8, { usage: of(32, 128, 2) }), cpu1], cpu1);
  expect(blocked).toEqual({ scheduled: [false, true], newcomer: true });
  const outcome = scheduledOf(at, [waits(gpu8), cpu1], cpu1);
  expect(outcome).toEqual({ scheduled: [false, false], newcomer: false });
  // Capacity placed for its account during the walk counts too.
  const own = { ownerId: 'a' };
  expect(scheduledOf(at, [waits(of(1, 4, 1), own), waits(gpu8, own)], of(63, 252))).toEqual({
    scheduled: [true, false],
    newcomer: true,
  });
});

test('reserves capacity for the first queued entry of an account only, then for its next one', () => {
  const at = fixture(of(8, 32), of(4, 16));
  const a = { ownerId: 'a' };
  const second = [waits(of(5, 20), a), waits(of(5, 20), a)];
  expect(scheduledOf(fixture(of(16, 64), of(12, 48)), [...second, of(1, 4)]).scheduled).toEqual([false, false, false]);
  const gone = { ...a, joinedAtMs: atEnd };
  expect(scheduledOf(at, [waits(of(5, 20), gone), waits(of(5, 20), a)], of(4, 16)).newcomer).toBe(true);
  expect(scheduledOf(at, [waits(of(2, 8), a), waits(of(5, 20), a)], of(1, 4))).toEqual({
    scheduled: [true, false],
    newcomer: false,
  });
});

test('reserves capacity for exactly ten minutes from joining, and not for a join time in the future', () => {
  expect(RESERVATION_MS).toBe(600_000);
  const at = fixture(of(8, 32), of(4, 16));
  const passes = (joinedAtMs: number): boolean =>
    scheduledOf(at, [waits(of(8, 32), { joinedAtMs })], of(1, 4)).newcomer;
  expect([atEnd + 1, NOW_MS].map(passes)).toEqual([false, false]);
  expect([0, atEnd, NOW_MS + 1].map(passes)).toEqual([true, true, true]);
  // The entry keeps its position until capacity suffices.
  expect(scheduledOf(at, [waits(of(4, 16), { joinedAtMs: 0 }), of(1, 4)], of(1, 4))).toEqual({
    scheduled: [true, false],
    newcomer: false,
  });
});

test('allots no GPU that the engine lost, and delays no other entry', () => {
  const at = fixture(of(8, 32, 1), of(2, 8, 3));
  expect(freeCapacity(at).gpus).toEqual({ A100: -2 });
  expect(scheduledOf(at, [of(1, 4, 1), of(1, 4)], of(1, 4))).toEqual({ scheduled: [false, true], newcomer: true });
  expect(capacityShortfall(of(1, 4, 1), freeCapacity(at))).toBe('1 GPU');
});

test('counts how often a type fits by its scarcest resource; never below 0', () => {
  expect(timesFit(of(2, 1, 1), of(9, 8, 3))).toBe(3);
  expect(timesFit(of(2, 1, 1), of(9, 1.9, 3))).toBe(1);
  expect(timesFit(of(2, 1, 1), of(-1, 8, 3))).toBe(0);
  expect(timesFit(of(2, 1), of(9, 8, -2))).toBe(4);
});

describe('GPUs of several names', () => {
  const gpusOf = (gpus: Record<string, number>): Capacity => ({ ...of(1, 1), gpus });
  const at = fixture({ ...of(16, 64), gpus: { A100: 2, L4: 4 } }, { ...of(2, 8), gpus: { A100: 2 } });

  test('count apart: free ones of another name do not help', () => {
    expect(fits(gpusOf({ L4: 4 }), freeCapacity(at))).toBe(true);
    expect(fits(gpusOf({ A100: 1 }), freeCapacity(at))).toBe(false);
    expect(capacityShortfall(gpusOf({ A100: 2 }), freeCapacity(at))).toBe('2 GPUs');
    expect(timesFit(gpusOf({ L4: 2 }), freeCapacity(at))).toBe(2);
    expect(scheduledOf(at, [gpusOf({ A100: 1 }), gpusOf({ L4: 4 }), gpusOf({ L4: 1 })]).scheduled).toEqual([
      false,
      true,
      false,
    ]);
  });

  test('a name that the region lacks never fits, not even one of every object', () => {
    for (const name of ['H100', 'constructor', '__proto__'])
      expect(fits(gpusOf(Object.fromEntries([[name, 1]])), freeCapacity(at)), name).toBe(false);
  });

  test('a type that names no model has the first', () => {
    for (const name of ['NVIDIA', 'nvidia.com/gpu'])
      expect(scheduledOf(fixture(at.total), [gpusOf({ [name]: 2 }), gpusOf({ A100: 1 })]).scheduled).toEqual([
        true,
        false,
      ]);
  });

  test('types may name the GPUs of a region with one name as they like', () => {
    const only = fixture({ ...of(16, 64), gpus: { 'NVIDIA H200': 2 } }, { ...of(2, 8), gpus: { NVIDIA: 1 } });
    expect(freeCapacity(only).gpus).toEqual({ 'NVIDIA H200': 1 });
    expect(fits(gpusOf({ H200: 1 }), freeCapacity(only))).toBe(true);
    expect(scheduledOf(only, [gpusOf({ H200: 1 }), gpusOf({ NVIDIA: 1 })]).scheduled).toEqual([true, false]);
  });
});

describe('the reserve for GPUs', () => {
  const reserve = { A100: { cpuMilli: 3_000, memoryMiB: 4_096 } };
  const total = { ...of(8, 32, 2), reservePerGpu: reserve };

  test('is that of the smallest type of each name', () => {
    const types = [sized('one', 1, 4, 8), sized('four', 4, 12, 64), sized('l4', 1, 1, 1, 'L4'), sized('cpu', 0, 1, 1)];
    expect(smallestReserve({ A100: 8, L4: 2, T4: 1 }, types)).toEqual({
      A100: { cpuMilli: 3_000, memoryMiB: 8_192 },
      L4: { cpuMilli: 1_000, memoryMiB: 1_024 },
      T4: { cpuMilli: 0, memoryMiB: 0 },
    });
  });

  test('is left by needs without GPUs, for free GPUs alone', () => {
    expect(timesFit(of(1, 1), total)).toBe(2);
    expect(capacityShortfall(of(3, 1), total)).toBe('1 CPU core');
    expect(timesFit(of(1, 1), freeCapacity({ total, used: of(3, 4, 1) }))).toBe(2);
    expect(timesFit(of(1, 1), freeCapacity({ total, used: of(6, 8, 2) }))).toBe(2);
    expect(fits(of(8, 32, 2), total)).toBe(true);
  });

  test('is no part of what an entry without GPUs holds until it fits', () => {
    const at = { total, used: of(1, 1) };
    expect(scheduledOf(at, [of(2, 1), of(3, 4, 1), of(3, 4, 1), of(1, 1)]).scheduled).toEqual([
      false,
      true,
      true,
      false,
    ]);
    // Of the rest it holds what it needs.
    expect(scheduledOf(at, [of(2, 1), of(7, 4, 2)]).scheduled).toEqual([false, false]);
  });

  test('strands no GPU, whatever is launched in whatever order', () => {
    const sizes = [of(1, 1), of(2, 4), of(4, 2), of(3, 4, 1), of(6, 8, 2), of(7, 20, 2)];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...sizes), { maxLength: 12 }), (asked) => {
        let free = freeCapacity({ total, used: zeroCapacity });
        // A larger type takes more than its reserve: that is the operator's choice.
        for (const need of asked) if (fits(need, free)) free = takeFromRegion(free, need);
        const left = gpusNamed(free.gpus, 'A100');
        const tookMore = asked.includes(sizes[5] ?? zeroCapacity);
        if (!tookMore) expect(timesFit(of(3, 4, 1), free)).toBe(left);
      }),
      { numRuns: 10_000 },
    );
  });
});

const need = fc.record({
  cpuMilli: fc.integer({ min: 1, max: 8 }).map((cores) => cores * 1000),
  memoryMiB: fc.integer({ min: 1, max: 8 }).map((gb) => gb * 1024),
  gpus: fc.oneof(
    fc.constant({}),
    fc.integer({ min: 1, max: 3 }).map((A100) => ({ A100 })),
    fc.integer({ min: 1, max: 3 }).map((L4) => ({ L4 })),
  ),
});
const TOTAL = { ...of(8, 8), gpus: { A100: 3, L4: 2 } };

interface Named extends QueuedRequest {
  name: number;
}

interface World {
  nowMs: number;
  running: QueuedRequest[];
  line: Named[];
}

const sumOf = (all: readonly QueuedRequest[]): Capacity => all.map((one) => one.need).reduce(addCapacity, zeroCapacity);
const freeCapacityOf = ({ running }: World): RegionCapacity => fixture(TOTAL, sumOf(running));
const usageIn = ({ running }: World, { ownerId }: QueuedRequest): Capacity =>
  sumOf(running.filter((one) => one.ownerId === ownerId));

/** Places all entries that may be placed, and returns their names. */
function settle(world: World): number[] {
  const queueWalk = walkQueue(freeCapacityOf(world), world.nowMs);
  const scheduled = world.line.filter((one) => queueWalk.visit(one, usageIn(world, one)));
  world.running.push(...scheduled);
  world.line = world.line.filter((one) => !scheduled.includes(one));
  return scheduled.map(({ name }) => name);
}

/** The initial instances: as many as fit. */
const fitting = (all: QueuedRequest[]): QueuedRequest[] => {
  const running: QueuedRequest[] = [];
  for (const one of all) if (fits(one.need, freeCapacity(fixture(TOTAL, sumOf(running))))) running.push(one);
  return running;
};

test('later entries never delay an entry with a reservation, whatever ends when', () => {
  fc.assert(
    fc.property(
      fc.array(need, { minLength: 2, maxLength: 8 }),
      fc.array(need, { maxLength: 6 }),
      fc.array(fc.nat(20), { maxLength: 30 }),
      (deps, others, ends) => {
        /** End of the instance at which each entry was placed; later entries must not change it. */
        const scheduledAt = (line: Capacity[]): (number | undefined)[] => {
          const first = fitting(others.map((other) => waits(other)));
          const world: World = {
            nowMs: NOW_MS,
            running: [...first],
            line: line.map((one, name) => ({ ...waits(one), name })),
          };
          const at: (number | undefined)[] = line.map(() => undefined);
          for (const name of settle(world)) at[name] = 0;
          for (const [index, end] of ends.entries()) {
            const [gone] = first.splice(end % Math.max(1, first.length), 1);
            if (!gone) break;
            world.running = world.running.filter((one) => one !== gone);
            // Within the reservations' time.
            world.nowMs += RESERVATION_MS / 31;
            for (const name of settle(world)) at[name] = index + 1;
          }
          return at;
        };
        const all = scheduledAt(deps);
        for (let length = 1; length < deps.length; length++)
          expect(all.slice(0, length)).toEqual(scheduledAt(deps.slice(0, length)));
      },
    ),
    { numRuns: 300 },
  );
});

const waiting = fc.record({
  need,
  ownerId: fc.constantFrom('a', 'b', 'c'),
  joinedAtMs: fc.constantFrom(0, atEnd, atEnd + 1, NOW_MS),
});
const resources = ['cpuMilli', 'memoryMiB', 'A100', 'L4'] as const;
const amountOf = (capacity: Capacity, name: (typeof resources)[number]): number =>
  name === 'A100' || name === 'L4' ? gpusNamed(capacity.gpus, name) : capacity[name];

test('every placement leaves the reserved capacity of all earlier entries, in any queue', () => {
  fc.assert(
    fc.property(fc.array(waiting, { maxLength: 12 }), fc.array(waiting, { maxLength: 6 }), (line, others) => {
      const running = fitting(others);
      const world: World = { nowMs: NOW_MS, running, line: line.map((one, name) => ({ ...one, name })) };
      const before = [...running];
      const openBefore = freeCapacity(freeCapacityOf(world));
      const scheduled = settle(world);
      const left = freeCapacity(freeCapacityOf(world));
      for (const [at, one] of line.entries()) {
        if (scheduled.includes(at)) continue;
        const isFirst = !line
          .slice(0, at)
          .some(({ ownerId }, name) => ownerId === one.ownerId && !scheduled.includes(name));
        const own = sumOf(
          [...before, ...line.slice(0, at).filter((_, name) => scheduled.includes(name))].filter(
            ({ ownerId }) => ownerId === one.ownerId,
          ),
        );
        const isToCome = resources.every(
          (name) =>
            amountOf(one.need, name) === 0 || amountOf(one.need, name) + amountOf(own, name) <= amountOf(TOTAL, name),
        );
        if (!isFirst || one.joinedAtMs <= atEnd || !isToCome) continue;
        const ahead = sumOf(line.slice(0, at).filter((_, name) => scheduled.includes(name)));
        // Each resource: the need, or all that earlier entries left.
        for (const name of resources)
          expect(amountOf(left, name)).toBeGreaterThanOrEqual(
            Math.min(amountOf(one.need, name), amountOf(openBefore, name) - amountOf(ahead, name)),
          );
      }
    }),
    { numRuns: 1_000 },
  );
});

test('earlier entries delay an entry by at most ten minutes, even when they rejoin repeatedly', () => {
  const step = fc.record({
    what: fc.constantFrom('joins', 'leaves', 'ends', 'time'),
    of: waiting,
    which: fc.nat(20),
  });
  fc.assert(
    fc.property(need, fc.array(waiting, { maxLength: 6 }), fc.array(step, { maxLength: 40 }), (mine, others, steps) => {
      const world: World = { nowMs: NOW_MS, running: fitting(others), line: [] };
      let names = 1;
      const joins = (one: QueuedRequest): void => {
        world.line.push({ ...one, joinedAtMs: world.nowMs, name: names++ });
      };
      for (const { of: one, what } of steps.slice(0, 10)) if (what === 'joins') joins(one);
      world.line.push({ need: mine, ownerId: 'mine', joinedAtMs: world.nowMs, name: 0 });
      for (const { what, of: one, which } of steps) {
        if (what === 'joins') joins(one);
        if (what === 'leaves') world.line = world.line.filter(({ name }, at) => name === 0 || at !== which);
        if (what === 'ends') world.running.splice(which, 1);
        if (what === 'time') world.nowMs += RESERVATION_MS / 4;
        const isOver = world.nowMs >= NOW_MS + RESERVATION_MS;
        const before = world.line.slice(
          0,
          world.line.findIndex(({ name }) => name === 0),
        );
        const open = freeCapacity(freeCapacityOf(world));
        const scheduled = settle(world);
        const taken = sumOf(before.filter(({ name }) => scheduled.includes(name)));
        const enough = resources.every(
          (name) => amountOf(mine, name) === 0 || amountOf(mine, name) + amountOf(taken, name) <= amountOf(open, name),
        );
        if (isOver && enough) expect(scheduled).toContain(0);
        if (scheduled.includes(0)) return;
      }
    }),
    { numRuns: 1_000 },
  );
});

test('allots at most the free capacity, and places equal requests in order', () => {
  fc.assert(
    fc.property(fc.array(waiting, { maxLength: 12 }), (line) => {
      const world: World = { nowMs: NOW_MS, running: [], line: line.map((one, name) => ({ ...one, name })) };
      const scheduled = settle(world);
      const left = freeCapacity(freeCapacityOf(world));
      expect(Math.min(...resources.map((name) => amountOf(left, name)))).toBeGreaterThanOrEqual(0);
      for (const later of scheduled)
        for (const [earlier, one] of line.slice(0, later).entries())
          if (JSON.stringify(one.need) === JSON.stringify(line[later]?.need)) expect(scheduled).toContain(earlier);
      expect(settle(world), 'a second walk places nobody').toEqual([]);
    }),
  );
});

const sized = (
  name: string,
  gpuCount: number,
  cpuCores: number,
  memoryGB: number,
  gpuName = gpuCount > 0 ? 'A100' : '',
) => ({
  name,
  gpuCount,
  cpuCores,
  memoryGB,
  gpuName,
});
const types = [
  sized('cpu.1', 0, 1, 2),
  sized('cpu.2', 0, 2, 4),
  sized('cpu.8', 0, 8, 16),
  sized('gpu.1', 1, 4, 16),
  sized('gpu.1.T4', 1, 4, 16, 'T4'),
  sized('gpu.2', 2, 8, 32),
  sized('gpu.4', 4, 16, 64),
];
const nearest = (asked: (typeof types)[number], open: Capacity, among = types): string | undefined =>
  nearestType(asked, among, open)?.name;

test('the nearest type has equally many GPUs if one fits, else fewer, and more only if nothing else fits', () => {
  const plenty = of(64, 256, 8);
  expect(nearest(sized('gpu.2.big', 2, 16, 64), plenty)).toBe('gpu.2');
  expect(nearest(sized('gpu.3', 3, 12, 48), plenty)).toBe('gpu.2');
  expect(nearest(sized('gpu.4', 4, 16, 64), of(64, 256, 1))).toBe('gpu.1');
  expect(nearest(sized('gpu.4', 4, 16, 64), of(64, 256, 0))).toBe('cpu.8');
  expect(nearest(sized('cpu.4', 0, 4, 8), plenty, types.slice(3))).toBe('gpu.1');
});

test('the nearest type has the same GPU model, and the closest CPU and memory, not the most', () => {
  expect(nearest(sized('gpu.1.T4.big', 1, 8, 32, 'T4'), of(64, 256, 1))).toBe('gpu.1.T4');
  expect(nearest(sized('cpu.3', 0, 3, 6), of(64, 256, 8))).toBe('cpu.2');
  expect(nearest(sized('cpu.16', 0, 16, 32), of(4, 64, 0))).toBe('cpu.2');
  expect(nearest(sized('cpu.1', 0, 1, 2), of(0.5, 1))).toBeUndefined();
});

test('reports each shortfall in its unit, and none of an unneeded resource', () => {
  expect(capacityShortfall(of(4, 8, 2), of(3.5, 4, 1))).toBe('0.5 CPU cores and 4096 MiB of memory and 1 GPU');
  expect(capacityShortfall(of(2, 2), of(1, 2, -3))).toBe('1 CPU core');
  expect(capacityShortfall(of(1, 1), of(1, 1))).toBe('');
});
