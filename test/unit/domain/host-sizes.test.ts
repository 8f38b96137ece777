import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Capacity } from '../../../src/domain/regions/catalog.ts';
import { fitsOneHost, hostsText, largestHosts } from '../../../src/domain/regions/host-sizes.ts';

const host = (cpu: number, memoryGB: number, gpus = 0, gpuName = gpus > 0 ? 'A100' : ''): Capacity => ({
  cpuMilli: cpu * 1000,
  memoryMiB: memoryGB * 1024,
  gpus: gpus === 0 ? {} : { [gpuName]: gpus },
});
const type = (cpuCores: number, memoryGB: number, gpuCount = 0, gpuName = gpuCount > 0 ? 'A100' : '') => ({
  rootDiskGB: 20,
  cpuCores,
  memoryGB,
  gpuCount,
  gpuName,
});

test('keeps the sizes that no other host has or exceeds', () => {
  const big = host(16, 64);
  const wide = host(32, 16);
  expect(largestHosts([host(4, 8), wide, big, host(16, 64), host(8, 64)])).toEqual([big, wide]);
  const [a100, l4] = [host(16, 64, 2), host(8, 32, 4, 'L4')];
  expect(largestHosts([l4, big, a100, host(8, 32, 1)])).toEqual([a100, l4]);
});

describe('a type fits', () => {
  const hosts = [host(4, 32), host(16, 8)];

  test('where one host has all of it, not where only their sum has', () => {
    expect(fitsOneHost(type(16, 8), hosts)).toBe(true);
    expect(fitsOneHost(type(4, 32), hosts)).toBe(true);
    expect(fitsOneHost(type(16, 32), hosts)).toBe(false);
    expect(fitsOneHost(type(20, 8), hosts)).toBe(false);
    expect(fitsOneHost(type(4, 32), []), 'without a host').toBe(false);
    expect(fitsOneHost(type(400, 3200), null), 'capacity alone decides').toBe(true);
  });

  test('on hosts with space for its root disk alone', () => {
    const [small, large] = [
      { ...host(16, 64), rootDiskGB: 19 },
      { ...host(4, 8), rootDiskGB: 20 },
    ];
    expect(largestHosts([large, small])).toEqual([small, large]);
    expect(largestHosts([small, { ...small, rootDiskGB: 100 }, host(1, 1)])).toEqual([
      { ...small, rootDiskGB: 100 },
      host(1, 1),
    ]);
    expect(fitsOneHost(type(4, 8), [small, large])).toBe(true);
    expect(fitsOneHost(type(8, 8), [small, large])).toBe(false);
    expect(hostsText([small])).toBe('16 CPU cores, 65536 MiB of memory, 19 GB for root disks and no GPU');
  });

  test('on hosts with its GPU alone', () => {
    const mixed = [host(16, 64, 1), host(8, 32, 4, 'L4'), host(64, 256)];
    expect(fitsOneHost(type(8, 32, 2, 'L4'), mixed)).toBe(true);
    expect(fitsOneHost(type(8, 32, 2), mixed)).toBe(false);
    expect(fitsOneHost(type(8, 64, 1, 'L4'), mixed)).toBe(false);
    expect(fitsOneHost(type(64, 256), mixed)).toBe(true);
  });

  test('among the largest hosts exactly if it fits among all', () => {
    const hosts = fc.array(
      fc
        .record({ cpu: fc.nat(4), memory: fc.nat(4), gpus: fc.nat(2), name: fc.constantFrom('A100', 'L4') })
        .map(({ cpu, memory, gpus, name }) => host(cpu, memory, gpus, gpus === 0 ? '' : name)),
      { maxLength: 6 },
    );
    const wanted = fc
      .record({ cpu: fc.nat(4), memory: fc.nat(4), gpus: fc.nat(2), name: fc.constantFrom('A100', 'L4') })
      .map(({ cpu, memory, gpus, name }) => type(cpu, memory, gpus, gpus === 0 ? '' : name));
    fc.assert(
      fc.property(hosts, wanted, (all, one) => {
        expect(fitsOneHost(one, largestHosts(all))).toBe(fitsOneHost(one, all));
      }),
    );
  });
});

test('says the sizes', () => {
  expect(hostsText([host(16, 64, 1), host(2, 8)])).toBe(
    '16 CPU cores, 65536 MiB of memory and 1 GPU (A100); 2 CPU cores, 8192 MiB of memory and no GPU',
  );
});
