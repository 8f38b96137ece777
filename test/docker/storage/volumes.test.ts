/** Volumes of an engine on another host conform to the storage contract. */
import { randomUUID } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { makeDockerClient, type DockerClient } from '../../../src/docker/docker-client.ts';
import { openHelperCommand } from '../../../src/docker/helper-command.ts';
import { remoteEndpoint } from '../../../src/docker/remote-endpoint.ts';
import { makeVolumeStorage } from '../../../src/storage/volumes/volume-storage.ts';
import { describeStorage, expectFault, soon, volume, type StorageFixture } from '../../conformance/storage.ts';
import { startRemoteEngine, type RemoteEngine } from '../engines/remote-engine.ts';

const image = 'berth.local/volumes:1';

let remote: RemoteEngine;
let client: DockerClient;
beforeAll(async () => {
  remote = await startRemoteEngine();
  client = makeDockerClient(remoteEndpoint(remote.address, remote.credentials));
  await remote.engine.importTiny(image);
});
afterAll(async () => {
  client.stop();
  await remote.stop();
});

const optionsOf = (installation: string) => ({
  client,
  installation,
  pool: 'default',
  sizeGB: 100,
  helperImage: image,
  ensureImage: async () => {},
  usageAgeMs: 0,
});

async function makeFixture(): Promise<StorageFixture> {
  const installation = randomUUID();
  const storage = makeVolumeStorage(optionsOf(installation));
  onTestFinished(async () => {
    for (const disk of await storage.listOwned()) await storage.destroy(disk);
  });
  return {
    storage,
    async inside(disk, script) {
      const { docker } = client;
      const mount = { Type: 'volume' as const, Source: await storage.mount(disk), Target: '/disk' };
      const HostConfig = { NetworkMode: 'none', Mounts: [mount] };
      const instance = await docker.createContainer({ Image: image, Entrypoint: ['sleep', '600'], HostConfig });
      try {
        await instance.start();
        const command = ['sh', '-c', `cd /disk && ${script}`];
        const { stdout, stderr, exited } = await openHelperCommand(client, instance.id, command, soon());
        const [output, errors] = await Promise.all([text(stdout), text(stderr)]);
        if ((await exited) !== 0) throw new Error(errors);
        return output;
      } finally {
        await instance.remove({ force: true });
      }
    },
  };
}

describeStorage('volumes of an engine on another host', makeFixture);

test('a volume that a container mounts is busy, and volumes of others are neither seen nor removed', async () => {
  const { storage } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  const Source = await storage.mount(disk);
  const HostConfig = { Mounts: [{ Type: 'volume' as const, Source, Target: '/disk' }] };
  const user = await client.docker.createContainer({ Image: image, Entrypoint: ['true'], HostConfig });
  await expectFault(storage.destroy(disk), 'busy');
  await user.remove();
  const { storage: others } = await makeFixture();
  expect(await others.listOwned()).toEqual([]);
  await expect(others.destroy(disk)).rejects.toThrow(/not of this installation/);
  expect(await storage.observe(disk)).toEqual({ kind: 'present', sizeGB: null });
});

test('copies and snapshots are refused with the reason in the capabilities', async () => {
  const { storage } = await makeFixture();
  const { whyNoCopies, sizeLimit } = storage.capabilities();
  expect({ whyNoCopies, sizeLimit }).toEqual({
    whyNoCopies: expect.stringMatching(/cannot copy a volume/),
    sizeLimit: 'soft',
  });
  const disk = volume();
  await storage.create(disk, 1, soon());
  await expectFault(storage.create(volume(), 1, soon(), disk), 'unsupported');
});

test('an engine that is away is a fault that fails no volume', async () => {
  const { credentials, address } = remote;
  const away = makeDockerClient(remoteEndpoint({ ...address, endpoint: 'tcp://127.0.0.1:9' }, credentials));
  onTestFinished(() => away.stop());
  const storage = makeVolumeStorage({ ...optionsOf(randomUUID()), client: away });
  await expectFault(storage.mount(volume()), 'away');
  expect((await storage.observe(volume())).kind).toBe('unknown');
});
