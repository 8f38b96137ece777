/** Addresses of the link between API and gateway, and the secret that both derive its key from. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { linkAddresses } from '../../../src/main/link-addresses.ts';

const listen = { host: '0.0.0.0', port: 8082 };
const peer = { host: 'other', port: 8082 };

async function written(secret: string): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-link-secret-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(path.join(folder, 'secret'), secret);
  return path.join(folder, 'secret');
}
const addresses = (role: 'api' | 'gateway', secretFile: string) =>
  linkAddresses({ dataFolder: '/data', role, link: { listen, peer, secretFile } });

test('are sockets of the data folder by default', async () => {
  expect(await linkAddresses({ dataFolder: '/data', role: 'api', link: null })).toEqual({
    api: '/data/gateway.sock',
    gateway: '/data/terminals.sock',
  });
});

test('cross over between the two processes, with one key of 32 bytes', async () => {
  const file = await written(`${'a'.repeat(32)}\n`);
  const [api, gateway] = [await addresses('api', file), await addresses('gateway', file)];
  const { key } = Object(api.api);
  expect(key).toHaveLength(32);
  expect(api).toEqual({ api: { ...listen, key }, gateway: { ...peer, key } });
  expect(gateway).toEqual({ api: { ...peer, key }, gateway: { ...listen, key } });
  expect(Object(await addresses('api', await written('b'.repeat(32)))).api.key).not.toEqual(key);
});

test('need a secret of 32 characters, in a file that can be read', async () => {
  const short = await written('a'.repeat(31));
  await expect(addresses('api', short)).rejects.toThrow(`${short} has 31 characters; write at least 32 random ones`);
  await expect(addresses('api', '/nowhere/secret')).rejects.toThrow('BERTH_LINK_SECRET_FILE: /nowhere/secret cannot');
});
