import { describe, expect, test } from 'vitest';
import { readImageRef, readServer, serverOf } from '../../src/domain/image-ref.ts';

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;

describe('a name of an image', () => {
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
  ])('%s is had from %s as %s', (text, server, ref) => {
    expect(readImageRef(text)).toEqual({ server, ref });
    expect(serverOf(ref)).toBe(server);
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
    ['a'.repeat(256)],
    ['a\nb'],
  ])('%j is none, and it says why', (text) => {
    expect(readImageRef(text)).toBeTypeOf('string');
  });
});

describe('a server of credentials', () => {
  test.each([
    ['docker.io', 'docker.io'],
    ['index.docker.io', 'docker.io'],
    ['GHCR.io', 'ghcr.io'],
    ['10.0.0.7:5000', '10.0.0.7:5000'],
    ['localhost', 'localhost'],
  ])('%s is kept as %s', (text, server) => {
    expect(readServer(text)).toEqual({ server });
  });

  test.each(['https://ghcr.io', 'ghcr.io/me', '', 'a b', 'berth.local', 'user@host'])('%j is none', (text) => {
    expect(readServer(text)).toBeTypeOf('string');
  });
});
