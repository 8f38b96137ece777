/** What `npm run up` does for `BERTH_USER_NAMESPACES=on`, in a folder in place of the root. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { setUpUserNamespaces } from '../../../scripts/lib/user-namespaces.mjs';

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'berth-root-'));
});
afterEach(() => rmSync(root, { recursive: true }));

const write = (name: string, text: string): void => {
  mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
  writeFileSync(path.join(root, name), text);
};
const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');

describe('user namespaces of the engine', () => {
  beforeEach(() => write('etc/subuid', 'ada:100000:65536\n'));

  test('get a range of ids and a setting of the daemon, and keep what is there', () => {
    write('etc/docker/daemon.json', '{"log-level": "warn"}');
    expect(setUpUserNamespaces(root)).toBeUndefined();
    expect(JSON.parse(read('etc/docker/daemon.json'))).toEqual({ 'log-level': 'warn', 'userns-remap': 'default' });
    expect(read('etc/subuid')).toBe('ada:100000:65536\ndockremap:2147483648:1879179264\n');
    expect(read('etc/subgid')).toBe('dockremap:2147483648:1879179264\n');
  });

  test('stay as they are at the next start, and as an operator set them', () => {
    expect(setUpUserNamespaces(root)).toBeUndefined();
    const before = [read('etc/subuid'), read('etc/docker/daemon.json')];
    expect(setUpUserNamespaces(root)).toBeUndefined();
    expect([read('etc/subuid'), read('etc/docker/daemon.json')]).toEqual(before);
    write('etc/docker/daemon.json', '{"userns-remap": "ada"}');
    expect(setUpUserNamespaces(root)).toBeUndefined();
    expect(read('etc/docker/daemon.json')).toBe('{"userns-remap": "ada"}');
  });

  test('are refused on a data folder with instances, and the refusal says how to get there', () => {
    const labels = { 'berth.installation': 'i', 'berth.kind': 'instance' };
    write('etc/docker/daemon.json', '{"data-root": "/srv/docker"}');
    write('srv/docker/containers/a/config.v2.json', JSON.stringify({ Config: { Labels: labels } }));
    write('srv/docker/containers/b/config.v2.json', '{"Config":{"Labels":{}}}');
    expect(setUpUserNamespaces(root)).toMatch(
      /\/srv\/docker holds 1 containers of Berth.*; archive the instances first/,
    );
    expect(read('etc/docker/daemon.json')).toBe('{"data-root": "/srv/docker"}');
    expect(read('etc/subuid')).toBe('ada:100000:65536\n');
  });

  test('are refused where the range belongs to another user, or the settings are unreadable', () => {
    write('etc/subuid', 'ada:4000000000:65536\n');
    expect(setUpUserNamespaces(root)).toMatch(/etc\/subuid gives ids .* to ada; give dockremap a range of 1879179264/);
    write('etc/docker/daemon.json', '{');
    expect(setUpUserNamespaces(root)).toMatch(/daemon\.json is not JSON; mend the file/);
  });
});
