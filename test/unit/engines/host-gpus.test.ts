/** GPUs for instances: MIG devices as public documents print them, and turns of the operator. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseMigs, type Card } from '../../../src/engines/docker/client/cards.ts';
import { deviceOf, givenGpus, withoutTurn } from '../../../src/engines/docker/client/host-gpus.ts';
import { chooseGpus } from '../../../src/engines/docker/container/gpus.ts';
import { typesThatFit } from '../../../src/main/first-run.ts';

const CARD = 'GPU-11111111-2222-3333-4444-555555555555';
const OTHER = 'GPU-22222222-2222-3333-4444-555555555555';
const mig = (digit: number): string => `MIG-${String(digit).repeat(8)}-2222-3333-4444-555555555555`;
const listed = `GPU 0: NVIDIA H200 (UUID: ${OTHER})
GPU 1: NVIDIA A100-SXM4-40GB (UUID: ${CARD})
  MIG 3g.20gb     Device  0: (UUID: ${mig(1)})
  MIG 1c.2g.10gb  Device  1: (UUID: ${mig(2)})
  MIG 1g.5gb      Device  2: (UUID: ${mig(3)})
`;
const whole: Card = { index: 0, uuid: OTHER, model: 'NVIDIA H200', memoryMiB: 143_771, isMig: false, migs: [] };
const divided: Card = {
  index: 1,
  uuid: CARD,
  model: 'NVIDIA A100-SXM4-40GB',
  memoryMiB: 40_960,
  isMig: true,
  migs: parseMigs(listed).get(CARD) ?? [],
};
const cdi = (...names: string[]) => names.map((name) => ({ Source: 'cdi', ID: `nvidia.com/gpu=${name}` }));

describe('MIG devices', () => {
  it('are those of the list, by their card', () => {
    expect([...parseMigs(listed)]).toEqual([
      [
        CARD,
        [
          { uuid: mig(1), profile: '3g.20gb' },
          { uuid: mig(2), profile: '1c.2g.10gb' },
          { uuid: mig(3), profile: '1g.5gb' },
        ],
      ],
    ]);
    expect(parseMigs('No devices were found\n').size).toBe(0);
  });

  it('are families by their profile, with its memory and part of the card', () => {
    const { gpus } = givenGpus([], true, [whole, divided]);
    expect(gpus.map(({ id, name, memoryMiB, share, slice }) => [id, name, memoryMiB, share, slice])).toEqual([
      [OTHER, 'NVIDIA H200', 143_771, 1, undefined],
      [mig(1), 'NVIDIA A100-SXM4-40GB MIG 3g.20gb', 20_480, 0.5, 'mig'],
      [mig(2), 'NVIDIA A100-SXM4-40GB MIG 1c.2g.10gb', 10_240, 0.125, 'mig'],
      [mig(3), 'NVIDIA A100-SXM4-40GB MIG 1g.5gb', 5_120, 0.125, 'mig'],
    ]);
  });

  it('and turns are parts of their card in the probe', () => {
    const { gpus } = givenGpus([], true, [whole, divided], { 0: 2 });
    const shown = gpus.map(deviceOf).map(({ name, slice, card, share }) => [name, slice, card, share]);
    expect(shown.slice(1, 3)).toEqual([
      ['NVIDIA H200 1/2', 'shared', 'NVIDIA H200', 0.5],
      ['NVIDIA A100-SXM4-40GB MIG 3g.20gb', 'mig', 'NVIDIA A100-SXM4-40GB', 0.5],
    ]);
  });

  it('have the name that the engine lists, the UUID before the numbers', () => {
    const ids = (...names: string[]): string[] => givenGpus(cdi(...names), false, [divided]).gpus.map(({ id }) => id);
    expect(ids('1', '1:0', '1:2', 'all')).toEqual(['1:0', '1:2']);
    expect(ids('1:0', mig(1), 'all')).toEqual([mig(1)]);
  });
});

describe('turns', () => {
  const turnsOf = (turns: Record<string, number>, ...names: string[]) =>
    givenGpus(cdi(...names), false, [whole, { ...whole, index: 1, uuid: CARD }], turns).gpus;

  it('make a card several devices, by its index or UUID; the others stay whole', () => {
    for (const name of ['0', OTHER])
      expect(
        turnsOf({ [name]: 2 }, '0', '1').map(({ id, name: model, share, slice }) => [id, model, share, slice]),
      ).toEqual([
        ['0~0', 'NVIDIA H200 1/2', 0.5, 'shared'],
        ['0~1', 'NVIDIA H200 1/2', 0.5, 'shared'],
        ['1', 'NVIDIA H200', 1, undefined],
      ]);
    expect(withoutTurn('0~1')).toBe('0');
    expect(withoutTurn(mig(1))).toBe(mig(1));
  });

  const holder = (ownerId: string, ...ids: string[]) => ({ ownerId, ids, running: true });
  const devices = ['a~0', 'a~1', 'b~0', 'b~1'];

  it('are for instances of one account on a card, which fills a card before the next', () => {
    const rules = { ownerId: 'ann', among: 'account' } as const;
    expect(chooseGpus(1, devices, [holder('bob', 'a~1')], rules)).toEqual(['b~0']);
    expect(chooseGpus(1, devices, [holder('ann', 'b~0')], rules)).toEqual(['b~1']);
    expect(chooseGpus(1, devices, [holder('bob', 'a~1'), holder('eve', 'b~0')], rules)).toBeNull();
    const stopped = [{ ...holder('bob', 'a~1'), running: false }, holder('eve', 'b~0')];
    expect(chooseGpus(1, devices, stopped, rules)).toEqual(['a~0']);
  });

  it('are for instances of all accounts where the operator says so', () => {
    const rules = { ownerId: 'ann', among: 'all' } as const;
    expect(chooseGpus(1, devices, [holder('bob', 'a~1')], rules)).toEqual(['a~0']);
  });

  it('wait for an instance that has had the whole card since before, as a whole card waits for its turns', () => {
    const rules = { ownerId: 'ann', among: 'account' } as const;
    expect(chooseGpus(1, ['a~0', 'a~1'], [holder('ann', 'a')], rules)).toBeNull();
    expect(chooseGpus(1, ['a'], [holder('ann', 'a~0')], rules)).toBeNull();
  });

  it('are never given twice or mixed with the whole card, in any order of starts and ends', () => {
    const id = fc.constantFrom('a', 'a~0', 'a~1', 'b~0', 'b~1', 'b~2', 'c');
    const step = fc.record({
      owner: fc.constantFrom('ann', 'bob'),
      ids: fc.uniqueArray(id),
      ends: fc.boolean(),
      at: fc.nat(9),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const running: ReturnType<typeof holder>[] = [];
        for (const { owner, ids, ends, at } of steps) {
          if (ends) running.splice(at, 1);
          const chosen = ends ? null : chooseGpus(1, ids, running, { ownerId: owner, among: 'account' });
          if (chosen !== null) running.push(holder(owner, ...chosen));
          const held = running.flatMap((one) => one.ids.map((of) => ({ of, owner: one.ownerId })));
          for (const [nth, one] of held.entries())
            for (const other of held.slice(nth + 1)) {
              if (withoutTurn(one.of) !== withoutTurn(other.of)) continue;
              expect(one.of).not.toBe(other.of);
              expect([one.of, other.of].every((name) => name.includes('~'))).toBe(true);
              expect(one.owner).toBe(other.owner);
            }
        }
      }),
      { numRuns: 10_000 },
    );
  });
});

describe('types of parts', () => {
  it('have one part, and their share of cores, memory and price', () => {
    const gpus = [
      { name: 'NVIDIA H200' },
      ...Array.from({ length: 4 }, () => ({ name: 'NVIDIA H200 1/4', share: 0.25, slice: 'shared' as const })),
    ];
    const machine = { cpuCores: 64, memoryMiB: 129 * 1024, architecture: 'amd64', gpus };
    const types = typesThatFit(machine).filter(({ gpuCount }) => gpuCount > 0);
    const sizes = types.map(({ name, gpuName, gpuCount, cpuCores, memoryGB }) => [
      name,
      gpuName,
      gpuCount,
      cpuCores,
      memoryGB,
    ]);
    expect(sizes).toEqual([
      ['gpu.1', 'NVIDIA H200', 1, 28, 56],
      ['h200-1-4.1', 'NVIDIA H200 1/4', 1, 7, 14],
    ]);
    expect(types.map(({ pricesMicros }) => pricesMicros.perHour)).toEqual([3_760_000n, 940_000n]);
  });
});
