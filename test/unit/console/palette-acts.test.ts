import { describe, expect, test } from 'vitest';
import { actsOn, readActs } from '../../../console/src/app/palette-acts.ts';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';

const words = {
  open: 'Open notebook',
  start: 'Start',
  stop: 'Stop',
  restart: 'Restart',
  archive: 'Archive',
  terminate: 'Terminate',
};

const instance = (name: string, status: string, actions: string[]): InstanceObject =>
  ({ instanceSpecInfo: { name }, instanceRuntimeInfo: { status }, actions }) as unknown as InstanceObject;

describe('the palette', () => {
  test.each([
    ['stop trainer', ['stop'], 'trainer'],
    ['st trainer two', ['start', 'stop'], 'trainer two'],
    ['open', ['open'], ''],
    ['trainer', [], 'trainer'],
    ['', [], ''],
  ])('reads %j as acts and a name', (asked, acts, name) => {
    expect(readActs(asked, words)).toEqual({ acts, name });
  });

  test('offers acts that the instances of the name allow now', () => {
    const rows = [
      instance('trainer', 'Running', ['stop', 'restart']),
      instance('trainer-2', 'Stopped', ['start']),
      instance('other', 'Running', ['stop']),
    ];
    const offered = (asked: string) =>
      actsOn(rows, readActs(asked, words)).map(({ act, instance: { instanceSpecInfo } }) => [
        act,
        instanceSpecInfo.name,
      ]);
    expect(offered('st trainer')).toEqual([
      ['stop', 'trainer'],
      ['start', 'trainer-2'],
    ]);
    expect(offered('open trainer')).toEqual([['open', 'trainer']]);
    expect(offered('trainer')).toEqual([]);
  });
});
