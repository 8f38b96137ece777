import { describe, expect, test } from 'vitest';
import {
  isUnderPrefix,
  parseImageRef,
  parseRegistryServer,
  registryServerOf,
  isLocalServer,
} from '../../../src/domain/regions/image-ref.ts';

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;

describe('an image name', () => {
  test.each([
    ['debian', 'docker.io', 'debian:latest'],
    ['debian:12', 'docker.io', 'debian:12'],
    ['jupyter/base-notebook', 'docker.io', 'jupyter/base-notebook:latest'],
    ['docker.io/library/debian:12', 'docker.io', 'docker.io/library/debian:12'],
    ['index.docker.io/a/b', 'docker.io', 'index.docker.io/a/b:latest'],
    ['quay.io/a/b:1.0_x-y', 'quay.io', 'quay.io/a/b:1.0_x-y'],
    ['localhost/a', 'localhost', 'localhost/a:latest'],
    ['127.0.0.1:5000/a/b/c:1', '127.0.0.1:5000', '127.0.0.1:5000/a/b/c:1'],
    ['Registry.Example.org/a', 'registry.example.org', 'Registry.Example.org/a:latest'],
    ['host:5000/a', 'host:5000', 'host:5000/a:latest'],
    ['[::1]:5000/a', '[::1]:5000', '[::1]:5000/a:latest'],
    [`ghcr.io/a/b@${digest}`, 'ghcr.io', `ghcr.io/a/b@${digest}`],
    [`ghcr.io/a/b:1@${digest}`, 'ghcr.io', `ghcr.io/a/b:1@${digest}`],
  ])('%s is pulled from %s as %s', (text, server, ref) => {
    expect(parseImageRef(text)).toEqual({ server, ref });
    expect(registryServerOf(ref)).toBe(server);
  });

  test.each([
    [''],
    [' debian'],
    ['debian 12'],
    ['Debian'],
    ['a//b'],
    ['a/b/'],
    ['/a'],
    ['a:'],
    ['a:-1'],
    ['a@sha256:12'],
    [`a@md5:${'0'.repeat(32)}`],
    ['a..b'],
    ['a_-b'],
    ['-a.example/b'],
    ['http://example.org/a'],
    ['example.org:port/a'],
    ['berth.local/notebook:1'],
    ['BERTH.local/notebook:1'],
    ['berth.local:80/saved/x'],
    ['0123456789abcdef'.repeat(4)],
    [digest],
    [`docker.io/${digest}`],
    [`library/${digest}`],
    ['host:65536/a'],
    ['10.0.0.256:5000/a'],
    ['a'.repeat(256)],
    ['a\nb'],
  ])('%j is refused with a reason', (text) => {
    expect(parseImageRef(text)).toBeTypeOf('string');
  });
});

describe('a registry server', () => {
  test.each([
    ['docker.io', 'docker.io'],
    ['index.docker.io', 'docker.io'],
    ['GHCR.io', 'ghcr.io'],
    ['10.0.0.7:5000', '10.0.0.7:5000'],
    ['localhost', 'localhost'],
  ])('%s is normalized to %s', (text, server) => {
    expect(parseRegistryServer(text)).toEqual({ server });
  });

  test.each(['host:65536', 'https://ghcr.io', 'ghcr.io/me', '', 'a b', 'berth.local', 'user@host'])(
    '%j is refused',
    (text) => {
      expect(parseRegistryServer(text)).toBeTypeOf('string');
    },
  );
});

describe('a server on the engine’s own host or link', () => {
  test.each([
    ['localhost'],
    ['localhost:5000'],
    ['registry.localhost'],
    ['127.0.0.1'],
    ['127.8.9.10:443'],
    ['127.1:5000'],
    ['0x7f.1'],
    ['2130706433:5000'],
    ['0177.0.0.1'],
    ['0.0.0.0:80'],
    ['0:80'],
    ['169.254.169.254'],
    ['[::1]:5000'],
    ['[::]'],
    ['[0:0:0:0:0:0:0:1]'],
    ['[::ffff:127.0.0.1]'],
    ['[::ffff:a9fe:a9fe]'],
    ['[::7f00:1]'],
    ['[fe80::1]:5000'],
    ['[febf::1]'],
  ])('is %s', (server) => {
    expect(isLocalServer(server)).toBe(true);
  });

  test.each([
    ['docker.io'],
    ['registry.example.org:5000'],
    ['10.0.0.7:5000'],
    ['192.168.1.2'],
    ['169.253.0.1'],
    ['128.0.0.1'],
    ['localhost.example.org'],
    ['127.0.0.1.example.org'],
    ['[2001:db8::7f00:1]:5000'],
    ['[::ffff:10.0.0.7]'],
    ['[fec0::1]'],
  ])('is not %s', (server) => {
    expect(isLocalServer(server)).toBe(false);
  });
});

describe('image refs under a prefix', () => {
  test.each([
    ['r.example.org/kept/archive/x:1'],
    ['r.example.org:443/kept/archive/x:1'],
    ['R.Example.ORG:80/kept/archive/x'],
  ])('%s lies under r.example.org/kept/archive', (ref) => {
    expect(isUnderPrefix(ref, 'r.example.org/kept/archive')).toBe(true);
  });

  test.each([
    ['r.example.org:5000/kept/archive/x'],
    ['r.example.org/kept/archived/x'],
    ['r.example.org/kept/archive'],
    ['s.example.org/kept/archive/x'],
    ['kept/archive/x'],
  ])('%s does not lie under it', (ref) => {
    expect(isUnderPrefix(ref, 'r.example.org/kept/archive')).toBe(false);
  });

  test('accept every name of Docker Hub, and none, as the same server', () => {
    for (const ref of ['me/kept/x', 'index.docker.io/me/kept/x', 'docker.io:443/me/kept/x'])
      expect(isUnderPrefix(ref, 'docker.io/me/kept'), ref).toBe(true);
  });
});
