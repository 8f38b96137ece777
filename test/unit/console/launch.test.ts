import { exampleOf } from '../../../src/contract/examples.ts';
import { instance as instanceSchema } from '../../../src/contract/compute/instance.ts';
import { describe, expect, it } from 'vitest';
import {
  bodyOf,
  choicesLike,
  choicesOfBody,
  draftOf,
  noScripts,
  type Choices,
  type Draft,
  type Known,
} from '../../../console/src/pages/launch/draft.ts';
import { gpuPriceOf, groupsOf, partName } from '../../../console/src/pages/launch/offer-groups.ts';
import { readLaunchSearch } from '../../../console/src/pages/launch/search.ts';

const offer = (typeId: string): Known['offers'][number] => ({
  key: `${typeId}.home`,
  regionId: 'home',
  regionName: 'Home',
  typeId,
  typeName: typeId,
  gpuName: '',
  gpuMemoryGB: undefined,
  gpuSlice: undefined,
  gpuCard: undefined,
  gpus: 0,
  cpuCores: 2,
  memoryGB: 4,
  rootDiskGB: 20,
  dataDiskGB: 50,
  isSpot: false,
  isInStock: true,
  fitsNow: 1,
  prices: [],
});
const known: Known = {
  offers: [offer('small'), offer('large')],
  images: [
    {
      imageId: 'python',
      name: 'Python',
      architecture: 'amd64',
      isPublic: 'true',
      tags: [],
      type: '',
      ref: 'python:3.13',
      state: 'Ready',
      stateText: '',
      sizeBytes: 0,
      digest: '',
      isNewerAvailable: false,
      builtAtUnixMs: 0,
      details: null,
      progressPercent: 0,
      regions: [],
    },
  ],
  volumes: [],
};
const draft = (choices: Choices, last: Choices = {}): Draft =>
  draftOf(choices, last, known) ?? expect.fail('nothing is offered');
const nameOf = (search: Record<string, unknown>): string | undefined =>
  draftOf(readLaunchSearch(search), { name: 'lab-2' }, known)?.name;

describe('the choices in the address', () => {
  it('keep an emptied name empty, and give a name left out its default', () => {
    expect(nameOf({ name: '' })).toBe('');
    expect(nameOf({})).toBe('lab-2');
    // The router reads a number.
    expect(nameOf({ name: 2026 })).toBe('2026');
  });
});

describe('choices that are gone', () => {
  const mounts = [{ id: 'gone', path: '/root/data' }];

  it('stays in the launch as a volume, which the server refuses', () => {
    expect(bodyOf(draft({ mounts }), noScripts, known).remoteStorages).toMatchObject([
      { remoteStorageId: 'gone', mountPath: '/root/data' },
    ]);
  });

  it('gives way as a volume, type and image that are remembered', () => {
    expect(draft({}, { mounts, offer: 'gone.home', imageId: 'gone' })).toMatchObject({
      mounts: [],
      isOtherOffer: false,
      isOtherImage: false,
    });
  });

  it('are reported as a type and an image', () => {
    expect(draft({ offer: 'gone.home', imageId: 'gone' })).toMatchObject({
      offer: { typeId: 'small' },
      isOtherOffer: true,
      image: { imageId: 'python' },
      isOtherImage: true,
    });
    expect(draft({ offer: 'large.home', imageId: 'python' })).toMatchObject({
      isOtherOffer: false,
      isOtherImage: false,
    });
  });
});

it('a billing mode without a price for the type is reported, and gives way to the hourly one', () => {
  expect(draft({ mode: 'perMonth' })).toMatchObject({ mode: 'perHour', isOtherMode: true });
  expect(draft({ mode: 'perHour' })).toMatchObject({ mode: 'perHour', isOtherMode: false });
  expect(draft({}, { mode: 'perMonth' })).toMatchObject({ mode: 'perHour', isOtherMode: false });
});

describe('a launch like an earlier one', () => {
  const example = instanceSchema.parse(exampleOf(instanceSchema));
  const { instanceSpecInfo: spec } = example;
  const earlier = (dataDiskAmountGiReq: number) => ({
    ...example,
    instanceSpecInfo: {
      ...spec,
      regionInfo: { ...spec.regionInfo, regionId: 'home' },
      instanceTypeInfo: { ...spec.instanceTypeInfo, instanceId: 'large' },
      isSpotInstance: false,
      instanceConfiguration: {
        ...spec.instanceConfiguration,
        InstanceDiskAmountRequest: { rootDiskAmountGiReq: 20, dataDiskAmountGiReq },
      },
    },
  });

  it('has its data disk, unless that is the one of the type', () => {
    expect(choicesLike(earlier(80), known)).toMatchObject({ offer: 'large.home', dataDiskGB: 80 });
    expect(choicesLike(earlier(50), known)).not.toHaveProperty('dataDiskGB');
  });

  it('has its common data', () => {
    for (const enableCommonData of [true, false]) {
      const like = earlier(50);
      const { instanceSpecInfo: of } = like;
      const instanceConfiguration = { ...of.instanceConfiguration, enableCommonData };
      const choices = choicesLike({ ...like, instanceSpecInfo: { ...of, instanceConfiguration } }, known);
      const { instanceConfiguration: asked } = bodyOf(draft(choices), noScripts, known);
      expect(asked.enableCommonData).toBe(enableCommonData);
    }
  });

  it('tells that its image is gone', () => {
    expect(draft(choicesLike(earlier(50), known))).toMatchObject({ isOtherOffer: false, isOtherImage: true });
  });
});

it("the image's own command is launched without scripts, and kept in address and template", () => {
  const { imageCommand } = readLaunchSearch({ imageCommand: true });
  expect(imageCommand).toBe(true);
  const scripts = { initScript: 'true', startCommand: 'true', environment: { LEVEL: '3' } };
  const body = bodyOf(draft({ imageCommand: true }), scripts, known);
  expect(body).toMatchObject({
    runImageCommand: true,
    instanceConfiguration: { initScript: '' },
    environment: { LEVEL: '3' },
  });
  expect(body).not.toHaveProperty('startCommand');
  expect(choicesOfBody(body).choices.imageCommand).toBe(true);
  const plain = bodyOf(draft({}), scripts, known);
  expect(plain).not.toHaveProperty('runImageCommand');
  expect(choicesOfBody(plain).choices.imageCommand).toBe(false);
});

describe('the offers of a launch', () => {
  const gpu = (typeId: string, gpuName: string, part: Partial<Known['offers'][number]> = {}) => ({
    ...offer(typeId),
    gpus: 1,
    gpuName,
    prices: [{ chargeMode: 'perHour' as const, price: 3 }],
    ...part,
  });
  const offers = [
    offer('cpu.1'),
    gpu('turn', 'H200 1/4', { gpuSlice: 'shared', gpuCard: 'H200' }),
    gpu('l4', 'L4'),
    gpu('mig', 'H200 MIG 1g.18gb', { gpuSlice: 'mig', gpuCard: 'H200' }),
    gpu('two', 'H200', { gpus: 2 }),
  ];

  it('are grouped by their cards, whole cards before their parts, and those without GPUs last', () => {
    expect(groupsOf(offers).map(({ card, offers: some }) => [card, ...some.map(({ typeId }) => typeId)])).toEqual([
      ['H200', 'two', 'mig', 'turn'],
      ['L4', 'l4'],
      ['', 'cpu.1'],
    ]);
  });

  it('have the price of one GPU, and the name of a part', () => {
    expect(offers.map(gpuPriceOf)).toEqual([undefined, 3, 3, 3, 1.5]);
    expect(offers.map(partName)).toEqual(['', '1/4', 'L4', 'MIG 1g.18gb', 'H200']);
  });
});
