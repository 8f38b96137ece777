/** The range of ids of an engine with user namespaces. */
import { expect, test } from 'vitest';
import { idRangeOf } from '../../../src/engines/docker/client/id-range.ts';

const info = {
  SecurityOptions: ['name=seccomp,profile=default', 'name=userns'],
  DockerRootDir: '/srv/docker/100000.200000',
};
const none = { uids: '', gids: '' };

test('reads the first ids from the data folder of the engine, and the count from the tables of the host', () => {
  const tables = { uids: 'ada:1:5\ndockremap:100000:300000\n', gids: 'dockremap:200000:400000\n' };
  expect(idRangeOf(info, tables)).toEqual({ uid: 100_000, gid: 200_000, count: 300_000 });
});

test("assumes Docker's own count for a range that the tables lack", () => {
  expect(idRangeOf(info, { ...none, uids: 'dockremap:100000:much\n' })).toMatchObject({ count: 65_536 });
});

test('finds none without user namespaces', () => {
  expect(idRangeOf({ ...info, SecurityOptions: ['name=rootless'] }, none)).toBeNull();
  expect(idRangeOf({ ...info, SecurityOptions: null }, none)).toBeNull();
});
