import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeEachRegion, makeRegions, type RegionDrivers } from '../../../src/control/kernel/regions.ts';
import { regionId } from '../../../src/domain/kernel/ids.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { makeDrivers } from '../../fixtures/control-deps.ts';
import { makeMemoryStorage } from '../../simulation/storage.ts';

const [hangs, fails, works] = ['a', 'b', 'c'].map((id) => regionId(id));
const driversOf = (id: RegionDrivers['regionId']): RegionDrivers =>
  makeDrivers({
    regionId: id,
    engine: makeSimulatedEngine({ installation: 'i', capacity: { cpuMilli: 1_000, memoryMiB: 1_024, gpus: {} } }),
    pool: { storage: makeMemoryStorage() },
  });

test('a region that hangs or fails delays the work of no other', async () => {
  if (!hangs || !fails || !works) throw new Error('there are three regions');
  const regions = makeRegions([hangs, fails, works].map(driversOf));
  const begun: string[] = [];
  const hanging = Promise.withResolvers<void>();
  const run = makeEachRegion(regions, async (drivers) => {
    begun.push(drivers.regionId);
    if (drivers.regionId === hangs) await hanging.promise;
    if (drivers.regionId === fails) throw new Error('the engine is away');
  });
  const first = run();
  expect(begun).toEqual(['a', 'b', 'c']);
  await setImmediate();
  await expect(run()).rejects.toThrow('the engine is away');
  expect(begun).toEqual(['a', 'b', 'c', 'b', 'c']);
  await setImmediate();
  regions.put(driversOf(hangs));
  const replaced = run();
  expect(begun.slice(5)).toEqual(['a', 'b', 'c']);
  hanging.resolve();
  await expect(first).rejects.toThrow('the engine is away');
  await expect(replaced).rejects.toThrow('the engine is away');
});
