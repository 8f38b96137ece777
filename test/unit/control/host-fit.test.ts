/** Hosts of a region as instances see them. */
import { expect, test } from 'vitest';
import { hostsOf, presentOf } from '../../../src/control/regions/capacity/host-fit.ts';
import type { Probe } from '../../../src/engines/contract.ts';

const host = { cpuMilli: 3_900, memoryMiB: 16_384, gpus: { L4: 1 } };
const driversWith = (seen: Pick<Probe, 'hosts' | 'present'> | null) => ({
  cpuOvercommit: 2,
  hostMemoryMiB: 384,
  health: { answers: true, text: '', probe: seen as Probe | null },
});
const forInstances = { cpuMilli: 7_800, memoryMiB: 16_000, gpus: { L4: 1 } };

test('tells the hosts that are there from those that an autoscaler may add, in what instances can have', () => {
  expect(presentOf(driversWith({ hosts: [host], present: host }))).toEqual(forInstances);
  expect(hostsOf(driversWith({ hosts: [host], present: host }))).toEqual([forInstances]);
  expect(presentOf(driversWith({ hosts: [host] })), 'no autoscaler').toBeNull();
  expect(presentOf(driversWith(null)), 'no answer yet').toBeNull();
});
