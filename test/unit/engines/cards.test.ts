/** Cards as drivers and engines print them: an H200 as recorded, others from public documents. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { distanceOf } from '../../../src/domain/regions/card-facts.ts';
import { smiHere, smiHereOrThere, type StartSmi } from '../../../src/engines/docker/cards/smi.ts';
import {
  askSmi,
  makeReadCards,
  parseCards,
  parseTopology,
  parseVersions,
  readProcCards,
  type Card,
} from '../../../src/engines/docker/client/cards.ts';
import { givenGpus } from '../../../src/engines/docker/client/host-gpus.ts';
import { whyNoGpus } from '../../../src/engines/docker/client/missing-gpus.ts';
import { chooseGpus, devicesFor, distances } from '../../../src/engines/docker/container/gpus.ts';
import { hostGpu } from '../../fixtures/host-gpu.ts';
import { cardOf, makeFakeSmi } from '../../fixtures/nvidia-smi.ts';

const uuid = (digit: number): string => `GPU-${String(digit).repeat(8)}-2222-3333-4444-555555555555`;
const h200: Card = { index: 0, uuid: uuid(1), model: 'NVIDIA H200', memoryMiB: 143_771, isMig: false, migs: [] };
const l4: Card = { index: 1, uuid: uuid(2), model: 'NVIDIA L4', memoryMiB: 23_034, isMig: false, migs: [] };
const a100: Card = {
  index: 2,
  uuid: uuid(3),
  model: 'NVIDIA A100-SXM4-40GB',
  memoryMiB: 40_960,
  isMig: true,
  migs: [],
};
const rules = { ownerId: 'ann', among: 'account' } as const;
const lines = `0, ${uuid(1)}, NVIDIA H200, 143771, Disabled
1, ${uuid(2)}, NVIDIA L4, 23034, [N/A]
2, ${uuid(3)}, NVIDIA A100-SXM4-40GB, 40960, Enabled
`;
const cdi = (...names: string[]) => names.map((name) => ({ Source: 'cdi', ID: `nvidia.com/gpu=${name}` }));

describe('lines of nvidia-smi', () => {
  it('give each card with its model, memory and division', () => {
    expect(parseCards(lines)).toEqual([h200, l4, a100]);
  });

  it('leave out what is no card, and memory that is not known', () => {
    expect(parseCards('No devices were found\n')).toEqual([]);
    const failed = 'Unable to determine the device handle for GPU0000:07:00.0: Unknown Error\n';
    expect(parseCards(failed + lines)).toEqual([h200, l4, a100]);
    expect(parseCards(`0, ${uuid(1)}, NVIDIA GB10, [N/A], [N/A]`)).toMatchObject([{ memoryMiB: null }]);
  });
});

const information = (model: string, id: string): string => `Model: \t\t ${model}
IRQ:   \t\t 41
GPU UUID: \t ${id}
Video BIOS: \t 96.00.a5.00.1a
Bus Location: \t 0000:00:06.0
Device Minor: \t 0
GPU Excluded:\t No
`;

async function procOf(cards: Record<string, string>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'cards-'));
  onTestFinished(() => rm(root, { recursive: true }));
  for (const [folder, text] of Object.entries(cards)) {
    await mkdir(join(root, folder), { recursive: true });
    await writeFile(join(root, folder, 'information'), text);
  }
  return root;
}

describe('cards of /proc', () => {
  it('have the numbers of their places on the bus, and a UUID once they were used', async () => {
    const root = await procOf({
      '0000:41:00.0': information('NVIDIA L4', 'GPU-????????-????-????-????-????????????'),
      '0000:06:00.0': information('NVIDIA H200', uuid(1)),
    });
    expect(await readProcCards(root)).toEqual([
      { ...h200, memoryMiB: null },
      { ...l4, uuid: null, memoryMiB: null },
    ]);
    expect(await readProcCards(join(root, 'none'))).toEqual([]);
  });

  it('are read where nvidia-smi does not answer, which is asked once for each set of cards', async () => {
    const root = await procOf({ '0000:06:00.0': information('NVIDIA H200', uuid(1)) });
    const answers = [null, [h200], [h200, l4]];
    let asked = 0;
    const read = makeReadCards(async () => {
      const cards = answers[asked++];
      return cards ? { cards, lost: new Set() } : null;
    }, root);
    expect(await read([])).toEqual([{ ...h200, memoryMiB: null }]);
    expect(await read([])).toEqual([h200]);
    expect(await read([])).toEqual([h200]);
    await mkdir(join(root, '0000:41:00.0'));
    expect(await read([])).toEqual([h200, l4]);
    expect(asked).toBe(3);
  });

  it('are none of those that the operator excludes', async () => {
    const root = await procOf({
      '0000:06:00.0': information('NVIDIA H200', uuid(1)).replace('Excluded:\t No', 'Excluded:\t Yes'),
      '0000:41:00.0': information('NVIDIA L4', uuid(2)),
    });
    expect(await readProcCards(root)).toEqual([{ ...l4, index: 0, memoryMiB: null }]);
  });
});

// From reports of others: no card was lost here.
describe('a card without a handle', () => {
  const handle = (nth: number): string =>
    `Unable to determine the device handle for GPU0000:0${nth}:00.0: Unknown Error`;
  const uuidOf = (nth: number): string => cardOf(nth)['uuid'] ?? '';
  async function hostOf(uuids: Record<number, string>) {
    const folders = Object.entries(uuids).map(([nth, id]) => [`0000:0${nth}:00.0`, information('NVIDIA H200', id)]);
    const root = await procOf(Object.fromEntries(folders));
    const smi = await makeFakeSmi();
    onTestFinished(() => smi.remove());
    return { smi, read: makeReadCards((at) => askSmi(smiHere(smi.program), at), root) };
  }
  const shown = (cards: Card[]) => cards.map((card) => [card.uuid, card.memoryMiB, card.isLost ?? false]);

  it('is lost, and hides no other, until it has one again', async () => {
    const { smi, read } = await hostOf({ 0: uuidOf(0), 1: uuidOf(1), 2: uuidOf(2) });
    await smi.show([handle(1), cardOf(0), cardOf(2)]);
    expect(shown(await read([]))).toEqual([
      [uuidOf(0), 143_771, false],
      [uuidOf(2), 143_771, false],
      [uuidOf(1), null, true],
    ]);
    await smi.show([0, 1, 2].map((nth) => cardOf(nth)));
    expect(shown(await read([]))).toEqual([0, 1, 2].map((nth) => [uuidOf(nth), 143_771, false]));
  });

  it('is lost where the host has no other, and where nobody knows its UUID', async () => {
    const { smi, read } = await hostOf({ 0: uuidOf(0), 1: 'GPU-????????-????-????-????-????????????' });
    await smi.show([handle(0), cardOf(1)]);
    expect(shown(await read([]))).toEqual([
      [uuidOf(1), 143_771, false],
      [uuidOf(0), null, true],
    ]);
    const alone = await hostOf({ 0: 'GPU-????????-????-????-????-????????????' });
    await alone.smi.show([handle(0), cardOf(1)]);
    expect(shown(await alone.read([]))).toEqual([[null, null, true]]);
  });

  it('is lost where the driver says so in place of its memory', async () => {
    const { smi, read } = await hostOf({ 0: uuidOf(0), 1: uuidOf(1) });
    await smi.show([cardOf(0, { 'memory.total': '[GPU is lost]' }), cardOf(1)]);
    expect(shown(await read([]))).toEqual([
      [uuidOf(0), null, true],
      [uuidOf(1), 143_771, false],
    ]);
  });

  it('is given no instance under its number in the list of the engine', async () => {
    const { gpus } = givenGpus(cdi('0', '1', uuid(1), uuid(2), 'all'), false, [h200, { ...l4, isLost: true }]);
    expect(gpus.map(({ id, isLost }) => [id, isLost])).toEqual([
      [uuid(1), undefined],
      [uuid(2), true],
    ]);
    expect(givenGpus(cdi('0', '1', 'all'), false, [h200]).gpus.map(({ id }) => id)).toEqual(['0']);
  });
});

describe('nvidia-smi', () => {
  it('runs in a container where the machine of Berth has none, and only there', async () => {
    const smi = await makeFakeSmi();
    onTestFinished(() => smi.remove());
    await smi.show([cardOf(0)]);
    const started: (readonly string[])[] = [];
    const there: StartSmi = (args, signal) => {
      started.push(args);
      return smiHere(smi.program)(args, signal);
    };
    const uuids = async (here: StartSmi | null) =>
      (await askSmi(smiHereOrThere(here, there)))?.cards.map((card) => card.uuid);
    expect(await uuids(smiHere(smi.program))).toEqual([cardOf(0)['uuid']]);
    expect(await uuids(() => Promise.reject(new Error('no right to run it')))).toBeUndefined();
    expect(started).toEqual([]);
    expect(await uuids(smiHere(join(tmpdir(), 'no-such-program')))).toEqual([cardOf(0)['uuid']]);
    expect(await uuids(null)).toEqual([cardOf(0)['uuid']]);
    expect(started).toHaveLength(6);
    expect(await askSmi(smiHereOrThere(null, null))).toBeNull();
  });
});

describe('facts of cards', () => {
  it('have the versions of the driver, in the words of old and new ones', () => {
    const old = '| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |';
    expect(parseVersions(old)).toEqual({ driverVersion: '580.159.04', cudaVersion: '13.0' });
    const recent = '| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |';
    expect(parseVersions(recent)).toEqual({ driverVersion: '610.43.02', cudaVersion: '13.3' });
    const none = '| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04   CUDA Version: N/A |';
    expect(parseVersions(none)).toEqual({ driverVersion: '580.159.04', cudaVersion: null });
  });

  const cardsOf = (count: number) => Array.from({ length: count }, (_, index) => ({ index, uuid: uuid(index) }));

  it('have the NUMA node of a card alone, as an H200 printed it', () => {
    const matrix = '\t\u001B[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u001B[0m\nGPU0\t X \t0-15\t0\t\tN/A\n';
    expect(parseTopology(matrix, cardsOf(1))).toEqual(new Map([[0, { numaNode: 0, links: {} }]]));
    expect(parseTopology('No devices were found\n', cardsOf(1))).toEqual(new Map());
  });

  it('have the links between cards, without those to network cards', () => {
    const matrix = `\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tSYS\tPXB\t0-55\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPXB\t0-55\tN/A\t\tN/A
GPU2\tSYS\tSYS\t X \tSYS\t56-111\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\t X
`;
    expect([...parseTopology(matrix, cardsOf(3)).values()]).toEqual([
      { numaNode: 0, links: { [uuid(1)]: 'NV18', [uuid(2)]: 'SYS' } },
      { numaNode: null, links: { [uuid(0)]: 'NV18', [uuid(2)]: 'SYS' } },
      { numaNode: 1, links: { [uuid(0)]: 'SYS', [uuid(1)]: 'SYS' } },
    ]);
  });

  it('have the version of the driver in /proc where nvidia-smi is missing', async () => {
    const root = await procOf({ 'gpus/0000:06:00.0': information('NVIDIA H200', uuid(1)) });
    const version =
      'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)  \n';
    await writeFile(join(root, 'version'), version);
    expect(await readProcCards(join(root, 'gpus'))).toMatchObject([{ facts: { driverVersion: '580.159.04' } }]);
  });
});

describe('several GPUs of an instance', () => {
  // Two pairs with NVLink.
  const kinds = [
    ['', 'SYS', 'NV4', 'SYS'],
    ['SYS', '', 'SYS', 'NV4'],
    ['NV4', 'SYS', '', 'SYS'],
    ['SYS', 'NV4', 'SYS', ''],
  ];
  const gpus = kinds.map((row, nth) => {
    const links = Object.fromEntries(row.flatMap((kind, other) => (kind === '' ? [] : [[uuid(other), kind]])));
    const facts = { driverVersion: null, cudaVersion: null, numaNode: null, links };
    return hostGpu({ id: String(nth), otherIds: [uuid(nth)], facts });
  });
  const near = { ...rules, distance: distances(gpus) };
  const ids = gpus.map(({ id }) => id);
  const held = (running: boolean, ...of: string[]) => ({ ownerId: 'bob', ids: of, running });

  it('are near to each other where such are free', () => {
    expect(chooseGpus(2, ids, [], near)?.toSorted()).toEqual(['0', '2']);
    expect(chooseGpus(2, ids, [held(true, '2')], near)?.toSorted()).toEqual(['1', '3']);
    expect(chooseGpus(2, ids, [held(true, '0', '1')], near)?.toSorted()).toEqual(['2', '3']);
    expect(chooseGpus(4, ids, [], near)).toHaveLength(4);
    expect(chooseGpus(1, ids, [], near)).toEqual(['0']);
  });

  it('are not those of stopped instances while others are free', () => {
    expect(chooseGpus(2, ids, [held(false, '0', '1')], near)?.toSorted()).toEqual(['2', '3']);
    expect(chooseGpus(3, ids, [held(false, '1', '3')], near)?.toSorted()).toEqual(['0', '1', '2']);
  });

  it('are nearer by more NVLinks, then by fewer parts of the PCIe between them', () => {
    const order = ['NV18', 'NV1', 'PIX', 'PXB', 'PHB', 'NODE', 'SYS', undefined];
    const distancesInOrder = order.map(distanceOf);
    expect(distancesInOrder).toEqual(distancesInOrder.toSorted((a, b) => a - b));
    expect(new Set(distancesInOrder).size).toBe(order.length);
  });
});

describe('GPUs for instances', () => {
  it('are given by CDI where the engine has it, though it has the older runtime, too', () => {
    const { gpuDriver, gpus } = givenGpus(cdi('0', uuid(1), 'all'), true, [h200]);
    expect(gpuDriver).toBe('cdi');
    expect(gpus).toEqual([hostGpu({ id: uuid(1), otherIds: ['0'] })]);
  });

  it('have the name that the engine lists, the UUID before the index', () => {
    expect(givenGpus(cdi('0', 'all'), false, [h200]).gpus).toEqual([hostGpu({ id: '0', otherIds: [uuid(1)] })]);
    expect(givenGpus(cdi(uuid(1), 'all'), false, [h200]).gpus).toEqual([hostGpu({ id: uuid(1), otherIds: ['0'] })]);
    expect(givenGpus(cdi('1'), false, []).gpus).toEqual([hostGpu({ id: '1', name: 'NVIDIA', memoryMiB: null })]);
  });

  it('are of each model, without cards that are divided', () => {
    const { gpus } = givenGpus(cdi('0', '1', '2', '2:0', 'all'), false, [h200, l4, a100]);
    expect(gpus.map(({ id, name }) => [id, name])).toEqual([
      ['0', 'NVIDIA H200'],
      ['1', 'NVIDIA L4'],
    ]);
    const byRuntime = givenGpus([], true, [h200, a100, { ...l4, uuid: null }]);
    expect(byRuntime.gpuDriver).toBe('nvidia');
    expect(byRuntime.gpus.map(({ id }) => id)).toEqual([uuid(1), '1']);
  });

  it('are those that the engine lists where it is elsewhere, and none without a way to give them', () => {
    expect(givenGpus(cdi('0', '1', uuid(1), 'all'), false, []).gpus.map(({ id, name }) => [id, name])).toEqual([
      ['0', 'NVIDIA'],
      ['1', 'NVIDIA'],
    ]);
    expect(givenGpus([{ Source: 'cdi', ID: 'amd.com/gpu=0' }], false, [h200])).toEqual({ gpuDriver: null, gpus: [] });
    expect(givenGpus([], false, [h200])).toEqual({ gpuDriver: null, gpus: [] });
  });

  it('are of the model of the type, or any where all have one', () => {
    const gpus = [hostGpu({ id: 'a' }), hostGpu({ id: 'b', name: 'NVIDIA L4' })];
    expect(devicesFor('NVIDIA L4', gpus)).toEqual(['b']);
    expect(devicesFor('NVIDIA', gpus), 'it names no model').toEqual(['a']);
    expect(devicesFor('H100', gpus)).toEqual([]);
    expect(devicesFor('H100', gpus.slice(1))).toEqual(['b']);
    expect(chooseGpus(2, devicesFor('NVIDIA L4', gpus), [], rules)).toBeNull();
  });
});

describe('the reason for no GPU', () => {
  const machineOf = async (cards: string[], { driver = '', osRelease = '', podman = false }) => {
    const root = await procOf({});
    for (const [nth, vendorAndClass] of cards.entries()) {
      const [vendor = '', kind = ''] = vendorAndClass.split(' ');
      await mkdir(join(root, 'pci', `0000:0${nth}:00.0`), { recursive: true });
      await writeFile(join(root, 'pci', `0000:0${nth}:00.0`, 'vendor'), `${vendor}\n`);
      await writeFile(join(root, 'pci', `0000:0${nth}:00.0`, 'class'), `${kind}\n`);
    }
    for (const [name, text] of Object.entries({ driver, osRelease }))
      if (text !== '') await writeFile(join(root, name), text);
    const places = { devices: join(root, 'pci'), driver: join(root, 'driver'), osRelease: join(root, 'osRelease') };
    return whyNoGpus({ podman }, places);
  };
  const card = '0x10de 0x030200';
  const driver = 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04';

  it('is none without a card, though the maker has other devices in it', async () => {
    expect(await machineOf([], {})).toBeNull();
    expect(await machineOf(['0x10de 0x040300', '0x1234 0x030000', '0x10de 0x068000'], { driver })).toBeNull();
  });

  it('names what is missing, with the command of the system', async () => {
    expect(await machineOf([card, card], {})).toMatch(/has 2 NVIDIA cards and no NVIDIA driver is loaded/);
    expect(await machineOf([card], { driver, podman: true })).toMatch(/has an NVIDIA card, and Podman .* use Docker/);
    const ubuntu = 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n';
    expect(await machineOf([card], { driver, osRelease: ubuntu })).toMatch(
      /has an NVIDIA card, .*"apt-get install -y nvidia-container-toolkit".*"nvidia-ctk cdi generate --output=\/etc\/cdi\/nvidia.yaml"/,
    );
    expect(await machineOf([card], { driver, osRelease: 'ID="rocky"\nID_LIKE="rhel centos fedora"\n' })).toContain(
      'dnf ',
    );
    expect(await machineOf([card], { driver, osRelease: 'ID=nixos\n' })).toMatch(
      /: install nvidia-container-toolkit, then/,
    );
  });
});
