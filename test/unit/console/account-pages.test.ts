/** Logic of the pages of volumes, images, access, settings and the first steps. */
import { expect, test } from 'vitest';
import { labelsOf, linesOf, textsOf } from '../../../console/src/parts/labels.ts';
import { shareOf } from '../../../console/src/parts/share.ts';
import { readAccessSearch } from '../../../console/src/pages/access/search.ts';
import { nameOfKey } from '../../../console/src/pages/access/ssh-key.ts';
import { programOf } from '../../../console/src/pages/access/user-agent.ts';
import { readImagesSearch } from '../../../console/src/pages/images/search.ts';
import { byFullness, type Quota } from '../../../console/src/pages/settings/quotas.ts';
import { readVolumeSearch, readVolumesSearch, sortOf, textOfSort } from '../../../console/src/pages/volumes/search.ts';
import { freeName, nameAt, priceOfVolume } from '../../../console/src/pages/volumes/volume.ts';
import {
  settingsFor,
  verdictOfGateway,
  verdictOfPage,
  verdictOfSsh,
  ways,
} from '../../../console/src/pages/welcome/checks.ts';
import { preview, pricesFrom } from '../../../console/src/pages/welcome/prices.ts';
import { readWelcomeSearch } from '../../../console/src/pages/welcome/search.ts';
import { volumeName } from '../../../src/contract/common.ts';

test('reads views from addresses, and leaves out what is unknown', () => {
  expect(readVolumesSearch({ q: 'a', create: true, x: 1 })).toEqual({ q: 'a', create: true });
  expect(readVolumesSearch({ create: 'yes' })).toEqual({});
  expect(readVolumeSearch({ tab: 'files', path: 'a/b' })).toEqual({ tab: 'files', path: 'a/b' });
  expect(readVolumeSearch({ tab: 'overview', path: 2026 })).toEqual({ path: '2026' });
  expect(readAccessSearch({ tab: 'webhooks', webhook: 'w' })).toEqual({ tab: 'webhooks', webhook: 'w' });
  expect(readAccessSearch({ tab: 'keys' })).toEqual({});
  expect(readImagesSearch({ tab: 'registries' })).toEqual({ tab: 'registries' });
  expect(readWelcomeSearch({ step: 'prices' })).toEqual({ step: 'prices' });
  expect(readWelcomeSearch({ step: 'end' })).toEqual({});
});

test('holds the order of the volumes in the address, and no other', () => {
  expect(textOfSort('usage', true)).toBe('-usage');
  expect(sortOf('-usage')).toEqual({ by: 'usage', order: 'desc' });
  expect(sortOf(textOfSort('name', false))).toEqual({ by: 'name', order: 'asc' });
  expect(sortOf('-owner')).toBeUndefined();
  expect(readVolumesSearch({ sort: '-size', tab: 'snapshots' })).toEqual({ sort: '-size', tab: 'snapshots' });
  expect(readVolumesSearch({ sort: 'owner', tab: 'files' })).toEqual({});
});

test('proposes names of volumes that are free, and that the API accepts', () => {
  const long = 'x'.repeat(64);
  expect(freeName('data', [])).toBe('data');
  expect(freeName('data', ['data', 'data-2'])).toBe('data-3');
  expect(freeName(long, [long])).toBe(`${'x'.repeat(62)}-2`);
  const at = new Date(2026, 10, 26, 9, 5);
  expect(nameAt('data', at)).toBe('data-2026-11-26-0905');
  for (const name of [freeName(long, [long]), nameAt(long, at), nameAt(`${'x'.repeat(46)} - y`, at)])
    expect(volumeName.safeParse(name).error).toBeUndefined();
});

test('prices a volume by its type, and one of an unknown type not at all', () => {
  const region = { storagePrices: { filesystem: 0.05, highspeedstorage: 0.1, snapshot: 0.03, keptDisk: 0.05 } };
  expect(priceOfVolume(region, { volumeType: 'filesystem', sizeGB: 72 })).toEqual({ perMonth: 3.6, perHour: 0.005 });
  expect(priceOfVolume(region, { volumeType: 'tape', sizeGB: 1 })).toBeUndefined();
});

test('reads labels from lines, and writes them so', () => {
  expect(labelsOf(' team = vision \n\nspare\nurl=a=b')).toEqual({ team: 'vision', spare: '', url: 'a=b' });
  const labels = { team: 'vision', spare: '' };
  expect(labelsOf(linesOf(labels))).toEqual(labels);
  expect(textsOf(labels)).toEqual(['team=vision', 'spare']);
});

test('names browsers and systems, and does not guess', () => {
  const chrome = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36';
  expect(programOf(chrome)).toEqual({ browser: 'Chrome', system: 'Linux' });
  expect(programOf(`${chrome} Edg/140.0`).browser).toBe('Edge');
  const safari = 'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1';
  expect(programOf(safari)).toEqual({ browser: 'Safari', system: 'iOS' });
  expect(programOf('curl/8.15.0')).toEqual({ browser: 'curl', system: '' });
  expect(programOf('something')).toEqual({ browser: '', system: '' });
});

test('names an ssh key by its comment', () => {
  expect(nameOfKey('ssh-ed25519 AAAA mia@laptop\n')).toBe('mia@laptop');
  expect(nameOfKey('ssh-ed25519 AAAA')).toBe('');
});

test('puts the fullest quota first, and those without a measure last', () => {
  const quota = (name: string, limit: number | null, used: number | null): Quota => ({
    name,
    limit,
    used,
    from: 'built-in',
  });
  const order = byFullness([
    quota('rates', 500, null),
    quota('half', 10, 5),
    quota('none', 0, 0),
    quota('over', 0, 1),
    quota('unlimited', null, 9),
  ]);
  expect(order.map(({ name }) => name)).toEqual(['over', 'half', 'none', 'rates', 'unlimited']);
  expect(shareOf(12, 10)).toBe(1);
});

test('judges the addresses of an installation', () => {
  expect(verdictOfPage({ protocol: 'http:', hostname: 'localhost' })).toBe('loopback');
  expect(verdictOfPage({ protocol: 'http:', hostname: '192.0.2.7' })).toBe('plain');
  expect(verdictOfPage({ protocol: 'https:', hostname: 'gpu.example.org' })).toBe('tls');
  expect(verdictOfGateway('127.0.0.1:8081', 'localhost')).toBe('loopback');
  expect(verdictOfGateway('127.0.0.1:8081', 'gpu.example.org')).toBe('gatewayLoopback');
  expect(verdictOfGateway('[::1]:8081', 'gpu.example.org')).toBe('gatewayLoopback');
  expect(verdictOfGateway('gpu.example.org:8443', 'gpu.example.org')).toBe('gatewayOk');
  expect(verdictOfSsh('127.0.0.2')).toBe('sshLoopback');
  expect(verdictOfSsh('192.0.2.7')).toBe('sshOk');
});

test('names the address in the settings of each way', () => {
  for (const way of ways) expect(settingsFor(way, 'gpu.example.org')).toMatch(/=(?:https:\/\/)?gpu\.example\.org$/m);
});

test('keeps the proportion of prices to the hour, and begins with the usual one', () => {
  const before = { tidePerHour: 0.01, perHour: 0.02, perDay: 0.432, perWeek: 2.688, perMonth: 10.08 };
  expect(pricesFrom(0.04, before)).toEqual({
    tidePerHour: 0.02,
    perHour: 0.04,
    perDay: 0.864,
    perWeek: 5.376,
    perMonth: 20.16,
  });
  const free = { tidePerHour: 0, perHour: 0, perDay: 0, perWeek: 0, perMonth: 0 };
  expect(pricesFrom(0.02, free)).toEqual(before);
  expect(pricesFrom(0, before)).toEqual(free);
  expect(preview(before)).toEqual({ day: 0.48, month: 14.4, paidMonth: 10.08 });
});
