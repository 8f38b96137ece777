import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nestedPair, refusalOfMountPath } from '../../../src/domain/storage/paths.ts';

const refused: [string, RegExp][] = [
  ['', /absolute/],
  ['relative', /absolute/],
  ['./x', /absolute/],
  ['~/x', /absolute/],
  ['/', /a path that the instance itself needs/],
  ['/root', /a path that the instance itself needs/],
  ['/home', /a path that the instance itself needs/],
  ['/tmp', /a path that the instance itself needs/],
  ['/mnt', /a path that the instance itself needs/],
  ['/etc', /lies in \/etc/],
  ['/etc/berth', /lies in \/etc/],
  ['/proc/1', /lies in \/proc/],
  ['/dev/shm', /lies in \/dev/],
  ['/var/run/docker.sock', /lies in \/var/],
  ['/usr/lib/x', /lies in \/usr/],
  ['/root/dataDisk', /lies in \/root\/dataDisk/],
  ['/root/dataDisk/inner', /lies in \/root\/dataDisk/],
  ['/root/sharedDisk', /lies in/],
  ['/root/commonData/x', /lies in/],
  ['/root/.ssh', /lies in/],
  ['/root/a/../.ssh', /empty parts/],
  ['/root/./a', /empty parts/],
  ['/root//a', /empty parts/],
  ['//etc', /empty parts/],
  ['/root/a/', /empty parts/],
  ['/root/..', /empty parts/],
  ['/root/a:ro', /colons/],
  ['/root/a,b', /commas/],
  ['/root/a"b', /quotes/],
  ["/root/a'b", /quotes/],
  ['/root/a\\b', /backslashes/],
  ['/root/a\nb', /control/],
  ['/root/a\0b', /control/],
  [`/root/${'a'.repeat(300)}`, /longer than 255/],
];

test.each(refused)('%j is refused with the reason', (path, why) => {
  expect(refusalOfMountPath(path)).toMatch(why);
});

test.each([
  '/root/data',
  '/root/dataDisk2',
  '/root/.sshx',
  '/home/anna',
  '/data',
  '/mnt/x',
  '/srv/a b',
  '/etcetera',
  '/root/ü',
  '/varx/log',
  '/root/...',
])('%j is accepted', (path) => {
  expect(refusalOfMountPath(path)).toBeNull();
});

test('finds two paths of which one equals or contains the other, in any order, and no siblings', () => {
  expect(nestedPair(['/a/b', '/c', '/a'])).toEqual(['/a', '/a/b']);
  expect(nestedPair(['/a', '/a'])).toEqual(['/a', '/a']);
  expect(nestedPair(['/a', '/ab', '/a-b', '/b/a'])).toBeNull();
  // '/a-b' sorts between the two.
  expect(nestedPair(['/a', '/a-b', '/a/b'])).toEqual(['/a', '/a/b']);
});

test('no accepted path contains "." or "..", has an empty part, or lies in a system folder', () => {
  const part = fc.oneof(fc.constantFrom('..', '.', '', 'etc', 'root', 'dataDisk', 'a', '/'), fc.string());
  fc.assert(
    fc.property(fc.array(part, { maxLength: 5 }), (parts) => {
      const path = `/${parts.join('/')}`;
      if (refusalOfMountPath(path) !== null) return;
      const walked = new URL(`file://${path.split('/').map(encodeURIComponent).join('/')}`).pathname;
      expect(decodeURIComponent(walked)).toBe(path);
      expect(path).not.toMatch(/^\/(etc|proc|dev|sys|usr|bin|var|run)(\/|$)/);
    }),
  );
});
