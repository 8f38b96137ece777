/** AMD cards by CDI, as the documents of driver and toolkit say: none was tried. */
import { readdir, readFile } from 'node:fs/promises';
import type { HostGpu } from './host-gpus.ts';

const DRIVER = '/sys/module/amdgpu/drivers/pci:amdgpu';
const PLACE = /^[0-9a-f]{4}:/i;
const DEVICE = /^amd\.com\/gpu=(\d+)$/;
const MIB = 1024 * 1024;

export const isAmd = (id: string): boolean => DEVICE.test(id);

/** `root`: folder of the driver, in the toolkit's order; null where the engine is elsewhere. */
export async function readAmdGpus(
  discovered: readonly { Source: string; ID: string }[],
  root: string | null = DRIVER,
): Promise<HostGpu[]> {
  const ids = discovered.flatMap(({ Source, ID }) => (Source === 'cdi' && isAmd(ID) ? [ID] : []));
  if (ids.length === 0) return [];
  const files = root === null ? [] : await readdir(root).catch(() => []);
  const places = files.filter((name) => PLACE.test(name)).toSorted();
  const read = async (place: string | undefined, file: string): Promise<string> =>
    place === undefined ? '' : readFile(`${root}/${place}/${file}`, 'utf8').catch(() => '');
  return Promise.all(
    ids.map(async (id): Promise<HostGpu> => {
      const place = places[Number(DEVICE.exec(id)?.[1])];
      const model = (await read(place, 'product_name')).trim().replace(/^AMD /i, '');
      const memoryMiB = Math.floor(Number(await read(place, 'mem_info_vram_total')) / MIB);
      const name = model === '' ? 'AMD' : `AMD ${model}`;
      return { kind: 'gpu', name, id, memoryMiB: memoryMiB > 0 ? memoryMiB : null, share: 1, otherIds: [] };
    }),
  );
}
