/** The real program in a data folder whose file system is full. */
import { removeDataFolder } from '../../../scripts/lib/remove-data-folder.mjs';
import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';

const pager = { currentPage: 1, pageSize: 100 };

/** A server on a file system of 96 MiB. */
async function startOnSmallDisk(): Promise<ServerProcess> {
  const pool = mkdtempSync(join(tmpdir(), 'berth-pool-'));
  const server = await startServerProcess({
    nodePorts: '32630-32639',
    settings: {
      BERTH_ENGINE: 'simulated',
      BERTH_POOL: `path=${pool},overcommit=100`,
      BERTH_DISK_RESERVE_PERCENT: '0.1',
    },
    prepare: async (folder) => void execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=96m,mode=700', 'tmpfs', folder]),
  });
  onTestFinished(async () => {
    await server.kill('SIGKILL');
    removeDataFolder(pool);
    execFileSync('umount', [server.folder]);
    rmSync(server.folder, { recursive: true });
  });
  return server;
}

/** Takes all space, to the last byte. */
function fill(folder: string): void {
  for (let size = 2 ** 20; size >= 1; size = Math.floor(size / 16)) {
    try {
      for (;;) appendFileSync(join(folder, 'filling'), Buffer.alloc(size));
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
    }
  }
}

async function launchRequest(client: Client) {
  const { images } = await client.listImages({ pager: { currentPage: 1, pageSize: 1 } });
  const regionInfo = (await client.catalog()).instanceInfos[0]?.regionInfos[0];
  return {
    name: 'one',
    imageId: images[0]?.imageId ?? '',
    instanceTypeId: regionInfo?.instanceTypeInfos[0]?.instanceTypeId ?? '',
    region: regionInfo?.regionId ?? '',
    billing: { chargeMode: 'perHour', duration: 1 } as const,
    remoteStorages: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    nodePorts: [],
  };
}

const statuses = async (client: Client): Promise<string[]> =>
  (await client.listInstances({ pager })).instances.map(({ instanceRuntimeInfo: { status } }) => status);

/** Waits until the engine has no container of the instance left. */
const released = (client: Client, instanceId: string) =>
  until(
    async () => (await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.phase,
    (phase) => phase === 'Cleaned',
  );

const ready = async ({ apiUrl }: ServerProcess): Promise<{ status: number; body: unknown }> => {
  const response = await fetch(`${apiUrl}/readyz`);
  return { status: response.status, body: await response.json() };
};

const degraded = { ready: true, status: 'degraded', text: expect.stringContaining('the data folder is full') };

/** Compares the balance with the entries, and the entries of use with its periods. */
async function expectExactMoney(client: Client): Promise<void> {
  const [{ balance }, { entries }, { periods }] = await Promise.all([
    client.balance({}),
    client.listEntries({ pager }),
    client.listUsagePeriods({ pager }),
  ]);
  const micros = (dollars: number): number => Math.round(dollars * 1e6);
  expect(micros(balance)).toBe(entries.reduce((sum, { amount }) => sum + micros(amount), 0));
  const charged = periods.filter(({ amount }) => amount > 0);
  expect(charged.length).toBeGreaterThan(0);
  for (const { periodId, fromUnixMs, untilUnixMs, price } of charged) {
    const used = Math.floor((micros(price) * ((untilUnixMs ?? fromUnixMs) - fromUnixMs)) / 3_600_000);
    const booked = entries.filter((entry) => entry.periodId === periodId);
    expect(booked.reduce((sum, { amount }) => sum - micros(amount), 0)).toBe(used);
  }
}

test('a full data folder stores logins and terminations from a reserve, reads on, and refuses the rest', async () => {
  const server = await startOnSmallDisk();
  const { client } = await login(server);
  const request = await launchRequest(client);
  const [first, second] = [await client.launch(request), await client.launch(request)];
  await until(
    () => statuses(client),
    (found) => found.join() === 'Running,Running',
  );
  expect(existsSync(join(server.folder, 'space-reserve'))).toBe(true);

  fill(server.folder);
  const full = await until(
    () => ready(server),
    ({ body }) => JSON.stringify(body).includes('degraded'),
  );
  expect(full).toEqual({ status: 200, body: degraded });
  const refusal = { status: 507, code: 'storage_full', message: expect.stringContaining('Free or add space') };
  await expect(client.launch(request)).rejects.toMatchObject(refusal);
  await expect(client.createApiKey({ name: 'one' })).rejects.toMatchObject(refusal);
  const during = await login(server);
  expect(await statuses(during.client)).toEqual(['Running', 'Running']);
  await during.client.terminate(first);
  await released(during.client, first.instanceId);
  await during.client.logout({});

  await server.kill('SIGKILL');
  fill(server.folder);
  await server.start();
  expect(await ready(server)).toEqual({ status: 200, body: degraded });
  const again = await login(server);
  await expect(again.client.launch(request)).rejects.toMatchObject(refusal);
  await again.client.terminate(second);
  await released(again.client, second.instanceId);
  await server.kill('SIGTERM');
  await server.start();

  const { client: last } = await login(server);
  rmSync(join(server.folder, 'filling'));
  await until(
    () => ready(server),
    ({ body }) => !JSON.stringify(body).includes('degraded'),
  );
  await last.terminate(await last.launch(request));
  expect(existsSync(join(server.folder, 'space-reserve'))).toBe(true);
  await expectExactMoney(last);
  const routes = await until(
    async () => (await last.listAudit({ pager })).records.map(({ route, outcome }) => `${route} ${outcome}`),
    (found) => found.filter((one) => one === 'terminate ok').length === 3,
  );
  expect(routes.filter((one) => one === 'login ok')).toHaveLength(4);
  const reported = server.output().split('the file system of the data folder is full').slice(1);
  expect(reported.length).toBeGreaterThan(0);
  expect(reported.join('')).not.toMatch(/"level":"(?:warn|error)".*(?:SQLITE|ENOSPC|disk is full)/);
});
