/** Reported addresses outside of the accounts' networks are never dialled. Needs no engine. */
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { ContainerInspectInfo } from 'dockerode';
import { expect, onTestFinished, test } from 'vitest';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import { connectHere, dial, makeAddressCache } from '../../../src/engines/docker/network/addresses.ts';

const id = instanceIdOf('notebook-aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa');

function runsAt(address: string): ContainerInspectInfo {
  const info: ContainerInspectInfo = JSON.parse(
    JSON.stringify({
      State: { Running: true, Status: 'running' },
      NetworkSettings: { Networks: { own: { IPAddress: address } } },
    }),
  );
  return info;
}

/** Server on all addresses of this machine. */
async function listening(): Promise<{ port: number; connections: () => number }> {
  const server = createServer().listen(0);
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  let connections = 0;
  server.on('connection', (socket) => {
    connections += 1;
    socket.destroy();
  });
  return { port: typeof address === 'object' && address ? address.port : 0, connections: () => connections };
}

test.each([
  '127.0.0.1',
  '127.8.9.10',
  '0.0.0.0',
  '169.254.169.254',
  '224.0.0.1',
  '255.255.255.255',
  '::1',
  '::',
  'fe80::1',
  'ff02::1',
  '::ffff:127.0.0.1',
  '::ffff:169.254.169.254',
  'localhost',
  'metadata.google.internal',
  '/var/run/docker.sock',
])('never dials %s', async (address) => {
  const { port, connections } = await listening();
  const addresses = makeAddressCache();
  addresses.setLive(true);
  // The second dial finds a cached address.
  for (let round = 0; round < 2; round += 1) {
    const dialled = dial({
      id,
      port,
      signal: AbortSignal.timeout(2_000),
      addresses,
      connectTo: connectHere,
      inspect: async () => runsAt(address),
    });
    await expect(dialled).rejects.toMatchObject({ kind: 'rejected', message: expect.stringContaining(address) });
  }
  expect(connections()).toBe(0);
});

test('dials an address of an account’s network', async ({ skip }) => {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const address = all.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
  skip(address === undefined, 'this machine has no address but its own');
  const { port, connections } = await listening();
  const inspect = async (): Promise<ContainerInspectInfo> => runsAt(address ?? '');
  const socket = await dial({
    id,
    port,
    signal: AbortSignal.timeout(5_000),
    addresses: makeAddressCache(),
    inspect,
    connectTo: connectHere,
  });
  await new Promise((resolve) => socket.resume().once('close', resolve));
  expect(connections()).toBe(1);
});
