/** AMD cards as documents of the driver and of the container toolkit show them; none was tried. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { readAmdGpus } from '../../../src/engines/docker/client/amd-cards.ts';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import { hostGpu } from '../../fixtures/host-gpu.ts';
import { hostFacts } from './host-facts.ts';
import { specOf } from './simulated-spec.ts';

const cdi = (...names: string[]) => names.map((name) => ({ Source: 'cdi', ID: `amd.com/gpu=${name}` }));

async function driverOf(cards: Record<string, Record<string, string>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'amdgpu-'));
  onTestFinished(() => rm(root, { recursive: true }));
  for (const [place, files] of Object.entries(cards)) {
    await mkdir(join(root, place));
    for (const [name, text] of Object.entries(files)) await writeFile(join(root, place, name), `${text}\n`);
  }
  return root;
}

describe('AMD cards', () => {
  it('have model and memory of the driver, by their places on the bus', async () => {
    const root = await driverOf({
      module: {},
      '0000:c1:00.0': { mem_info_vram_total: '25753026560' },
      '0000:05:00.0': { product_name: 'AMD INSTINCT MI300X OAM', mem_info_vram_total: '206141652992' },
    });
    const nvidia = { Source: 'cdi', ID: 'nvidia.com/gpu=0' };
    expect(await readAmdGpus([nvidia, ...cdi('0', '1', 'all')], root)).toEqual([
      hostGpu({ id: 'amd.com/gpu=0', name: 'AMD INSTINCT MI300X OAM', memoryMiB: 196_592 }),
      hostGpu({ id: 'amd.com/gpu=1', name: 'AMD', memoryMiB: 24_560 }),
    ]);
  });

  it('are known by their number alone where the engine is elsewhere', async () => {
    expect(await readAmdGpus(cdi('0', 'all'), null)).toEqual([
      hostGpu({ id: 'amd.com/gpu=0', name: 'AMD', memoryMiB: null }),
    ]);
  });

  it.each(['cdi', 'nvidia'] as const)('are given by CDI, where cards of NVIDIA are given by %s', (gpuDriver) => {
    const gpuIds = ['amd.com/gpu=0', 'amd.com/gpu=2'];
    const { HostConfig, Env } = createOptions(specOf('amd'), {
      installation: 'i',
      network: 'n',
      controlFolder: '/c',
      host: hostFacts({ gpuDriver }),
      gpuIds,
    });
    expect(HostConfig?.DeviceRequests).toEqual([{ Driver: 'cdi', DeviceIDs: gpuIds }]);
    expect(Env).toContain('NVIDIA_VISIBLE_DEVICES=void');
  });
});
