/** A region on the engine of another host, from its creation to nothing left. */
import { once } from 'node:events';
import net from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { labels } from '../../../src/engines/labels.ts';
import { nodePortOf } from '../../fixtures/first-launch.ts';
import { copyDefaultImage } from '../../fixtures/default-images.ts';
import { runCell } from '../../fixtures/jupyter.ts';
import { makeTlsAuthority } from '../../fixtures/tls-authority.ts';
import { installationOf, login, until } from '../../fixtures/server-process.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { startRemoteEngine, startSshEngine, type RemoteEngine } from '../engines/remote-engine.ts';
import { startInside, type ServerInside } from './in-process-server.ts';

const helperImage = 'berth.local/helper:1';
const prices = { tidePerHour: 0, perHour: 0, perDay: 0, perWeek: 0, perMonth: 0 };

describe.each([
  ['TLS', startRemoteEngine, 32_400],
  ['ssh', startSshEngine, 32_420],
] as const)('a region on another host by %s', (_, start, firstPort) => {
  let remote: RemoteEngine;
  let inside: ServerInside;
  beforeAll(async () => {
    remote = await start();
    inside = await startInside({ nodePorts: `${firstPort}-${firstPort + 9}`, limits: {} });
    await remote.engine.importTiny(helperImage);
    await copyDefaultImage(remote.engine.docker, 'notebook');
  });
  afterAll(async () => {
    await inside?.stop();
    await remote?.stop();
  });

  const regionAt = (over: Partial<RemoteEngine['address']> = {}, credentials = remote.credentials) => ({
    name: 'Second',
    value: 'second',
    location: 'cellar',
    sshAddress: '127.0.0.1',
    credentials,
    settings: {
      docker: { ...remote.address, ...over, helperImage, nodePortBind: '127.0.0.1' },
      pools: [{ name: 'default' as const, sizeGB: 100 }],
      nodePorts: { first: firstPort + 10, last: firstPort + 19 },
    },
  });

  test('an engine that is away, or another one, is refused with its reason and leaves nothing', async () => {
    const { client } = inside;
    const others = await makeTlsAuthority();
    try {
      const away = remote.address.endpoint.replace(/:\d+/, `:${await freePort()}`);
      await expect(client.createRegion(regionAt({ endpoint: away }))).rejects.toMatchObject({ status: 503 });
      await expect(client.createRegion(regionAt({ endpoint: 'http://127.0.0.1:2375' }))).rejects.toMatchObject({
        status: 400,
        message: expect.stringMatching(/unencrypted ports are not used/),
      });
      await expect(client.createRegion(regionAt({}, others.client.pem))).rejects.toMatchObject({
        status: 503,
        message: expect.stringMatching(/denies the (client certificate|private key)|cannot be read/),
      });
    } finally {
      await others.stop();
    }
    expect((await client.listManagedRegions({ pager: { currentPage: 1, pageSize: 10 } })).regions).toHaveLength(1);
  });

  test('an instance runs there with notebook, ssh port and volume, and leaves nothing', async () => {
    const { client, server } = inside;
    const { region, engine } = await client.createRegion(regionAt());
    expect(engine.version).toMatch(/Docker/);
    const { regionId } = region;
    const size = { cpuCores: 1, memoryGB: 1, rootDiskGB: 5, dataDiskGB: 1 };
    const { type } = await client.createType({ regionId, name: 'small', ...size, prices });
    const { images } = await client.listImages({ pager: { currentPage: 1, pageSize: 100 } });
    const image = images.find(({ name }) => name === 'JupyterLab (Debian)') ?? expect.fail('no default image');
    const { volume } = await client.createVolume({ name: 'v', sizeGB: 1, region: regionId, volumeType: 'filesystem' });
    const { instanceId } = await client.launch({
      ...server.example,
      name: 'there',
      region: regionId,
      instanceTypeId: type.instanceTypeId,
      imageId: image.imageId,
      billing: { chargeMode: 'perHour', duration: 1 },
      remoteStorages: [
        { mountPath: '/root/kept', remoteStorageId: volume.id, remoteStorageName: 'v', type: 'filesystem' },
      ],
      nodePorts: [],
      instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    });
    const { instanceRuntimeInfo } = await inside.sees(instanceId, { status: 'Running' });
    const headers = { authorization: `Bearer ${(await login(server)).token}` };
    const notebookUrl = `${server.gatewayUrl}${instanceRuntimeInfo.subUrl}`;
    await until(
      () => fetch(`${notebookUrl}api/status`, { headers }),
      ({ status }) => status === 200,
    );
    const cell = "open('/root/kept/note', 'w').write('kept'); print('written')";
    expect(await runCell(notebookUrl, headers, cell)).toBe('written\n');
    await client.stop({ instanceId });
    await inside.sees(instanceId, { status: 'Stopped' });
    await client.start({ instanceId });
    const started = await inside.sees(instanceId, { status: 'Running' });
    const read = await until(
      () => fetch(`${notebookUrl}api/contents/kept/note`, { headers }),
      ({ status }) => status === 200,
    );
    expect(await read.json()).toMatchObject({ content: 'kept' });
    expect(await bannerAt(nodePortOf(started, 22).nodePort)).toMatch(/^SSH-2.0-/);
    await client.terminate({ instanceId });
    await client.deleteVolume({ id: volume.id });
    const filters = { label: [`${labels.installation}=${installationOf(inside.folder)}`] };
    const { docker } = remote.engine;
    await until(
      async () => [
        ...(await docker.listVolumes({ filters })).Volumes.map(({ Name }) => Name),
        ...(await docker.listNetworks({ filters })).map(({ Name }) => Name),
        ...(await docker.listContainers({ all: true, filters })).flatMap(({ Names }) => Names),
      ],
      // The relay stays for the next instance, the shared folder for its account.
      (left) => left.every((name) => /^(\/berth-relay|berth-shared)-/.test(name)),
    );
  });
});

async function bannerAt(port: number): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  const [bytes] = await once(socket, 'data');
  socket.destroy();
  return String(bytes);
}
