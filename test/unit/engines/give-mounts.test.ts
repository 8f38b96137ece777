import { expect, test } from 'vitest';
import { userOf } from '../../../src/engines/docker/container/give-mounts.ts';

const tables: Record<string, string> = {
  '/etc/passwd': 'root:x:0:0:root:/root:/bin/sh\nann:x:1000:100::/home/ann:/bin/sh\n',
  '/etc/group': 'users:x:100:\nstaff:x:50:ann\n',
};
const inTables = (path: string): Promise<string> => Promise.resolve(tables[path] ?? '');

test.each([
  ['', [0, 0]],
  ['root', [0, 0]],
  ['1000', [1000, 100]],
  ['2000', [2000, 0]],
  ['2000:3000', [2000, 3000]],
  ['ann', [1000, 100]],
  ['ann:staff', [1000, 50]],
  ['nobody-knows', [0, 0]],
])('finds the user of an image that says USER %s', async (user, [uid, gid]) => {
  expect(await userOf(user, inTables)).toEqual({ uid, gid });
});

test('takes numbers as they are where an image has no tables', async () => {
  expect(await userOf('1000:1000', () => Promise.resolve(''))).toEqual({ uid: 1000, gid: 1000 });
});
