import { describe, expect, it } from 'vitest';
import { draftOf, type Known } from '../../../console/src/pages/launch/draft.ts';
import { readLaunchSearch } from '../../../console/src/pages/launch/search.ts';

const offer = (typeId: string): Known['offers'][number] => ({
  key: `${typeId}.home`,
  regionId: 'home',
  regionName: 'Home',
  typeId,
  typeName: typeId,
  gpuName: '',
  gpus: 0,
  cpuCores: 2,
  memoryGB: 4,
  rootDiskGB: 20,
  dataDiskGB: 50,
  isSpot: false,
  isInStock: true,
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
      progressPercent: 0,
    },
  ],
  volumes: [],
};
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
