/** Addresses and logins of engines on other hosts. */
import { expect, test } from 'vitest';
import { remoteEndpoint } from '../../../src/docker/remote-endpoint.ts';

const hostKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZlXyq2dUXtjpYQbP0L0VnJ8oZkqUoG3n6cL2o5V7aB host';

test.each([
  ['http://engine:2375', 'x', /Unencrypted ports are not used/],
  ['unix:///var/run/docker.sock', 'x', /tcp:\/\/host:2376/],
  ['tcp://engine:2376', null, /no "credentials"; send the client certificate/],
  ['tcp://engine:2376', 'x', /no "ca"/],
  ['ssh://engine', 'x', /no user/],
  ['ssh://me@engine', null, /private key of the ssh user/],
  ['ssh://me@engine', 'x', /"hostKey" is no public key/],
])('refuses %s with the credentials %j', (endpoint, secret, why) => {
  expect(() => remoteEndpoint({ endpoint }, secret)).toThrow(why);
});

test('refuses the field of the other kind', () => {
  expect(() => remoteEndpoint({ endpoint: 'tcp://engine', hostKey }, 'x')).toThrow(/"hostKey" belongs to/);
  expect(() => remoteEndpoint({ endpoint: 'ssh://me@engine', ca: 'x' }, 'x')).toThrow(/"ca" belongs to/);
});

test.each([
  ['ssh://me@engine', { host: 'engine', port: 22, username: 'me', socketPath: '/var/run/docker.sock' }],
  ['ssh://me@[2001:db8::1]:2200/run/x.sock', { host: '2001:db8::1', port: 2200, socketPath: '/run/x.sock' }],
])('reads %s', (endpoint, ssh) => {
  expect(remoteEndpoint({ endpoint, hostKey }, 'key')).toMatchObject({ ssh: { ...ssh, privateKey: 'key' } });
});
