import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Capacity } from '../../src/domain/catalog.ts';
import { fits, freeOf, makeTurns, nearestType, whatIsShort, type Room } from '../../src/domain/placement.ts';

const of = (cpu: number, memory: number, gpus = 0): Capacity => ({
  cpuMilli: cpu * 1000,
  memoryMiB: memory * 1024,
  gpus,
});
const room = (total: Capacity, used: Capacity = of(0, 0)): Room => ({ total, used });

/** Who of a line may be placed now, and whether a newcomer might, too. */
const placedOf = (at: Room, line: Capacity[], newcomer = of(0, 0)): { placed: boolean[]; newcomer: boolean } => {
  const turns = makeTurns(at);
  return { placed: line.map((need) => turns.pass({ need })), newcomer: fits(newcomer, turns.open()) };
};

test('who came first is placed first, and a smaller one behind does not take what is kept for it', () => {
  const at = room(of(8, 32), of(6, 24));
  expect(placedOf(at, [of(4, 16), of(1, 2)], of(1, 2))).toEqual({ placed: [false, false], newcomer: false });
});

test('a later small one passes one that waits for GPUs while CPU and memory are enough for both, and no longer', () => {
  const at = room(of(16, 64, 2), of(4, 16, 2));
  const gpu = of(8, 32, 1);
  expect(placedOf(at, [gpu, of(4, 16)], of(1, 2))).toEqual({ placed: [false, true], newcomer: false });
  expect(placedOf(at, [gpu, of(5, 16)], of(4, 16))).toEqual({ placed: [false, false], newcomer: false });
});

test('one that has its place leaves the rest to those behind it', () => {
  const at = room(of(8, 32), of(2, 8));
  expect(placedOf(at, [of(2, 8), of(2, 8), of(4, 8), of(2, 8)], of(0.5, 1))).toEqual({
    placed: [true, true, false, false],
    newcomer: false,
  });
});

test('one that needs more than the region has in all keeps nothing from those behind it', () => {
  const at = room(of(8, 32), of(2, 8));
  expect(placedOf(at, [of(8, 16, 4), of(4, 16)], of(2, 8))).toEqual({ placed: [false, true], newcomer: true });
});

test('of GPUs that the engine has lost none is promised, and nothing else is held up by it', () => {
  const at = room(of(8, 32, 1), of(2, 8, 3));
  expect(freeOf(at).gpus).toBe(-2);
  expect(placedOf(at, [of(1, 4, 1), of(1, 4)], of(1, 4))).toEqual({ placed: [false, true], newcomer: true });
  expect(whatIsShort(of(1, 4, 1), freeOf(at))).toBe('1 GPU');
});

const need = fc.record({
  cpuMilli: fc.integer({ min: 1, max: 8 }).map((cores) => cores * 1000),
  memoryMiB: fc.integer({ min: 1, max: 8 }).map((gb) => gb * 1024),
  gpus: fc.integer({ min: 0, max: 3 }),
});

interface World {
  room: Room;
  running: { need: Capacity }[];
  line: { need: Capacity; name: number }[];
}

const use = (at: Room, { cpuMilli, memoryMiB, gpus }: Capacity, sign: 1 | -1): Room => ({
  ...at,
  used: {
    cpuMilli: at.used.cpuMilli + sign * cpuMilli,
    memoryMiB: at.used.memoryMiB + sign * memoryMiB,
    gpus: at.used.gpus + sign * gpus,
  },
});

/** Places whoever may be placed. Answers their names. */
function settle(world: World): number[] {
  const turns = makeTurns(world.room);
  const placed = world.line.filter((one) => turns.pass(one));
  for (const one of placed) {
    world.room = use(world.room, one.need, 1);
    world.running.push(one);
  }
  world.line = world.line.filter((one) => !placed.includes(one));
  return placed.map(({ name }) => name);
}

test('nobody waits longer because of somebody who came later, whatever ends when', () => {
  fc.assert(
    fc.property(
      fc.array(need, { minLength: 2, maxLength: 8 }),
      fc.array(need, { maxLength: 6 }),
      fc.array(fc.nat(20), { maxLength: 30 }),
      (needs, others, ends) => {
        const total = of(8, 8, 3);
        const start = (line: Capacity[]): World => {
          const world: World = { room: room(total), running: [], line: [] };
          for (const other of others)
            if (fits(other, freeOf(world.room))) {
              world.room = use(world.room, other, 1);
              world.running.push({ need: other });
            }
          world.line = line.map((one, name) => ({ need: one, name }));
          return world;
        };
        /** At which end of one of the first each was placed: what came behind must not change it for those before. */
        const placedAt = (line: Capacity[]): (number | undefined)[] => {
          const world = start(line);
          const first = [...world.running];
          const at: (number | undefined)[] = line.map(() => undefined);
          for (const name of settle(world)) at[name] = 0;
          for (const [index, end] of ends.entries()) {
            const [gone] = first.splice(end % Math.max(1, first.length), 1);
            if (!gone) break;
            world.room = use(world.room, gone.need, -1);
            for (const name of settle(world)) at[name] = index + 1;
          }
          return at;
        };
        const all = placedAt(needs);
        for (let length = 1; length < needs.length; length++)
          expect(all.slice(0, length)).toEqual(placedAt(needs.slice(0, length)));
      },
    ),
    { numRuns: 300 },
  );
});

test('no more is promised than is there, and nobody is placed before one of the same needs who came first', () => {
  fc.assert(
    fc.property(fc.array(need, { maxLength: 12 }), (needs) => {
      const world: World = {
        room: room(of(8, 8, 3)),
        running: [],
        line: needs.map((one, name) => ({ need: one, name })),
      };
      const placed = settle(world);
      const { cpuMilli, memoryMiB, gpus } = freeOf(world.room);
      expect(Math.min(cpuMilli, memoryMiB, gpus)).toBeGreaterThanOrEqual(0);
      for (const later of placed)
        for (const [earlier, one] of needs.slice(0, later).entries())
          if (JSON.stringify(one) === JSON.stringify(needs[later])) expect(placed).toContain(earlier);
      expect(settle(world), 'once all are placed that may be, nobody else may').toEqual([]);
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

test('the nearest type has as many GPUs if one such fits, else the closest below, and more only if nothing else fits', () => {
  const plenty = of(64, 256, 8);
  expect(nearest(sized('gpu.2.big', 2, 16, 64), plenty)).toBe('gpu.2');
  expect(nearest(sized('gpu.3', 3, 12, 48), plenty)).toBe('gpu.2');
  expect(nearest(sized('gpu.4', 4, 16, 64), of(64, 256, 1))).toBe('gpu.1');
  expect(nearest(sized('gpu.4', 4, 16, 64), of(64, 256, 0))).toBe('cpu.8');
  expect(nearest(sized('cpu.4', 0, 4, 8), plenty, types.slice(3))).toBe('gpu.1');
});

test('the nearest type is of the same kind of GPU, and the closest in CPU and memory, not the largest', () => {
  expect(nearest(sized('gpu.1.T4.big', 1, 8, 32, 'T4'), of(64, 256, 1))).toBe('gpu.1.T4');
  expect(nearest(sized('cpu.3', 0, 3, 6), of(64, 256, 8))).toBe('cpu.2');
  expect(nearest(sized('cpu.16', 0, 16, 32), of(4, 64, 0))).toBe('cpu.2');
  expect(nearest(sized('cpu.1', 0, 1, 2), of(0.5, 1))).toBeUndefined();
});

test('what is short is told in its own units, and what is not needed is not short', () => {
  expect(whatIsShort(of(4, 8, 2), of(3.5, 4, 1))).toBe('0.5 CPU cores and 4096 MiB of memory and 1 GPU');
  expect(whatIsShort(of(2, 2), of(1, 2, -3))).toBe('1 CPU core');
  expect(whatIsShort(of(1, 1), of(1, 1))).toBe('');
});
