/** Regions that administrators add are tried before they are kept. */
import { expect, test } from 'vitest';
import type { RegionDrivers } from '../../../src/control/kernel/regions.ts';
import { tryRegion } from '../../../src/control/regions/region-engine.ts';
import { regionId } from '../../../src/domain/kernel/ids.ts';
import type { RegionSettings } from '../../../src/domain/regions/region-settings.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { makeDrivers } from '../../fixtures/control-deps.ts';
import { testSeal } from '../../fixtures/test-seal.ts';
import { makeMemoryStorage } from '../../simulation/storage.ts';

const settings: RegionSettings = {
  simulated: { cpuCores: 1, memoryGB: 1, gpus: 0 },
  pools: [{ name: 'default', sizeGB: 1 }],
  nodePorts: { first: 30_000, last: 30_001 },
};

test('refuses a pool that is not there with its reason, and stops the engine', async () => {
  const engine = makeSimulatedEngine({ installation: 'i', capacity: { cpuMilli: 1_000, memoryMiB: 1_024, gpus: {} } });
  let stops = 0;
  const drivers: RegionDrivers = makeDrivers({
    regionId: regionId('a'),
    engine: { ...engine, stop: async () => void stops++ },
    pool: {
      storage: {
        ...makeMemoryStorage(),
        space: () => Promise.reject(new Error('the cluster has no storage class fast; it has standard')),
      },
    },
  });
  const deps = {
    openRegion: async () => drivers,
    regions: { put: () => expect.fail('it is not served') },
    time: { deadline: (ms: number) => AbortSignal.timeout(ms) },
    seal: testSeal,
    onServed: async () => {},
  };
  const tried = tryRegion(deps, { id: drivers.regionId, address: 'here', settings, secret: null });
  await expect(tried).rejects.toMatchObject({
    code: 'field_value',
    message:
      'the pool default of field "settings.pools" cannot be used: the cluster has no storage class fast; it has standard',
  });
  expect(stops).toBe(1);
});
