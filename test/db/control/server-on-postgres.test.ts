/** The whole server on PostgreSQL, as `BERTH_DATABASE_URL` makes it. */
import { poolNamed } from '../../../src/control/storage/disks.ts';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { readConfig } from '../../../src/main/config.ts';
import { startServer, type Server } from '../../../src/main/server.ts';
import { startPostgres } from '../../fixtures/postgres-server.ts';
import { eventually } from '../../fixtures/control.ts';

const PASSWORD = 'correct horse battery';

/** Starts a separate PostgreSQL, since connections are cut here, with an admin connection. */
async function database(): Promise<{ url: string; adminClient: pg.Client }> {
  const own = await startPostgres();
  onTestFinished(() => own.stop());
  const url = own.urlOf('postgres');
  const adminClient = new pg.Client({ connectionString: url });
  await adminClient.connect();
  onTestFinished(() => adminClient.end());
  return { url, adminClient };
}

async function start(url: string, folder: string): Promise<{ server: Server; stop: () => Promise<void> }> {
  const config = readConfig({
    BERTH_DATA: folder,
    BERTH_ENGINE: 'simulated',
    BERTH_LISTEN: '127.0.0.1:0',
    BERTH_GATEWAY_LISTEN: '127.0.0.1:0',
    BERTH_ADMIN_PASSWORD: PASSWORD,
    BERTH_DATABASE_URL: url,
    BERTH_REGISTRY_IMAGES: 'off',
  });
  const server = await startServer({ config, log: pino({ level: 'silent' }) });
  onTestFinished(() => server.stop());
  return { server, stop: () => server.stop() };
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-pg-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function admin(server: Server) {
  const baseUrl = `${server.apiUrl}/api`;
  const { accessToken } = await makeClient({ baseUrl }).login({ username: 'admin', password: PASSWORD });
  return makeClient({ baseUrl, credential: { kind: 'token', token: accessToken } });
}

const pager = { currentPage: 1, pageSize: 10 };

test('a restarted server lists its instances; a second server on the database is refused', async () => {
  const { url } = await database();
  const folder = await newFolder();
  const first = await start(url, folder);
  const client = await admin(first.server);
  const { imageId, instanceTypeId, region } = first.server.example;
  const { volume } = await client.createVolume({ name: 'data', sizeGB: 1, region, volumeType: 'filesystem' });
  const { instanceId } = await client.launch({
    name: 'one',
    imageId,
    instanceTypeId,
    region,
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [
      { mountPath: '/root/data', remoteStorageName: 'data', remoteStorageId: volume.id, type: 'filesystem' },
    ],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    nodePorts: [8000],
  });
  const statusOf = async (): Promise<string | undefined> =>
    (await client.listInstances({ pager })).instances[0]?.instanceRuntimeInfo.status;
  await eventually(async () => (await statusOf()) === 'Running');
  await expect(start(url, await newFolder())).rejects.toThrow(/in use by another Berth/);
  await first.stop();

  const again = await admin((await start(url, folder)).server);
  const { instances } = await again.listInstances({ pager });
  expect(instances.map(({ instanceMetadata }) => instanceMetadata.instanceId)).toEqual([instanceId]);
});

test('a connection terminated during a request fails only that request', async () => {
  const { url, adminClient } = await database();
  const { server } = await start(url, await newFolder());
  const client = await admin(server);
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query('begin');
  await holder.query('lock table volume in access exclusive mode');
  const { region } = server.example;
  const waiting = client.createVolume({ name: 'waits', sizeGB: 1, region, volumeType: 'filesystem' });
  const outcome = waiting.then(
    () => 'made',
    () => 'failed',
  );
  const blocked = `select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = (select datname from pg_stat_activity where pid = ${(await holder.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid})`;
  await eventually(async () => (await adminClient.query(blocked)).rows.length > 0);
  await adminClient.query(`select pg_terminate_backend(pid) from (${blocked}) stuck`);
  expect(await outcome).toBe('failed');
  await holder.query('rollback');
  await eventually(async () => (await client.listVolumes({ pager }).catch(() => null)) !== null);
});

test('volumes stay Bound, and no empty disk is created, while the disk folder is missing', async () => {
  const { url } = await database();
  const folder = await newFolder();
  const first = await start(url, folder);
  const { region } = first.server.example;
  await (await admin(first.server)).createVolume({ name: 'data', sizeGB: 1, region, volumeType: 'filesystem' });
  const bound = async (server: Server): Promise<string | undefined> =>
    (await (await admin(server)).listVolumes({ pager })).volumeList[0]?.status;
  await eventually(async () => (await bound(first.server)) === 'Bound');
  await first.stop();
  await rename(join(folder, 'disks'), join(folder, 'elsewhere'));
  const { server } = await start(url, folder);
  const { storage } = poolNamed(server.drivers.drivers, 'default');
  const { volumeList } = await (await admin(server)).listVolumes({ pager });
  const disk = { kind: 'volume', id: volumeList[0]?.id ?? '' } as const;
  expect(await storage.observe(disk)).toMatchObject({
    kind: 'unknown',
    reason: expect.stringContaining('mount their file system'),
  });
  await expect(storage.create({ kind: 'data', id: 'one' }, 1, AbortSignal.timeout(120_000))).rejects.toThrow(
    /are not in/,
  );
  expect(await bound(server)).toBe('Bound');
});
