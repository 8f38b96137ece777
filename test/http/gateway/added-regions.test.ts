/**
 * The whole API and the whole gateway apart, on two simulated regions: instances of a region that
 * an administrator added are reached by the gateway's own engine, also while the API is down.
 */
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import type { RegionDrivers } from '../../../src/control/kernel/regions.ts';
import type { Engine } from '../../../src/engines/contract.ts';
import { readConfig } from '../../../src/main/config.ts';
import { makeOpenRegion } from '../../../src/main/open-region.ts';
import { startServer } from '../../../src/main/server.ts';
import { startGateway } from '../../../src/main/start-gateway.ts';
import { ifMissing } from '../../../src/storage/layout.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { login, PASSWORD, until } from '../../fixtures/server-process.ts';
import { bearer, openTerminal } from '../api/exec-fixture.ts';

const SECRET = 'credentials-of-the-annex';
const REGION = {
  name: 'Annex',
  value: 'annex',
  location: 'cellar',
  sshAddress: '192.0.2.7',
  credentials: SECRET,
  settings: {
    simulated: { cpuCores: 4, memoryGB: 8, gpus: 0 },
    pools: [{ name: 'default' as const, sizeGB: 500 }],
    nodePorts: { first: 31_000, last: 31_099 },
  },
};
const TYPE = {
  name: 'small',
  cpuCores: 1,
  memoryGB: 1,
  rootDiskGB: 20,
  dataDiskGB: 5,
  prices: { tidePerHour: 0.05, perHour: 0.1, perDay: 2, perWeek: 12, perMonth: 40 },
};

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-apart-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Both processes on engines that outlive either, as those of a machine or a cluster do. */
async function apart() {
  const folder = await newFolder();
  const apiPort = await freePort();
  const said: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void said.push(line) });
  const config = readConfig({
    BERTH_DATA: folder,
    BERTH_ENGINE: 'simulated',
    BERTH_LISTEN: `127.0.0.1:${apiPort}`,
    BERTH_GATEWAY_LISTEN: `127.0.0.1:${await freePort()}`,
    BERTH_ADMIN_PASSWORD: PASSWORD,
  });
  const engines = new Map<string, Engine>();
  const lasting = (drivers: RegionDrivers): RegionDrivers => {
    const { regionId, engine } = drivers;
    if (!engines.has(regionId)) engines.set(regionId, { ...engine, stop: async () => {} });
    return { ...drivers, engine: engines.get(regionId) ?? engine };
  };
  const startApi = () =>
    startServer({
      config: { ...config, role: 'api' },
      log,
      openRegionBy: (deps) => {
        const open = makeOpenRegion({ ...deps, config: { ...deps.config, role: 'all' } });
        return async (region) => lasting(await open(region));
      },
    });
  const opened: unknown[] = [];
  const engineOf = (id: string): Engine => engines.get(id) ?? expect.fail(`${id} was not opened by the API`);
  let server = await startApi();
  onTestFinished(() => server.stop());
  const own: Engine = { ...server.drivers.drivers.engine, stop: async () => {} };
  const gateway = await startGateway({
    config: { ...config, role: 'gateway' },
    log,
    openOwnBy: async () => own,
    openRegionBy: async (_deps, region) => {
      opened.push(region);
      return engineOf(region.id);
    },
  });
  onTestFinished(() => gateway.stop());
  return {
    folder,
    apiPort,
    said,
    opened,
    server,
    gatewayUrl: gateway.gatewayUrl,
    stopApi: () => server.stop(),
    startApi: async () => void (server = await startApi()),
  };
}

test('an instance of an added region is reached through the gateway process, also while the API is down', async () => {
  const { server, apiPort, gatewayUrl, opened, ...processes } = await apart();
  const { client, token } = await login(server);
  const { region } = await client.createRegion(REGION);
  const { regionId } = region;
  const { instanceTypeId } = (await client.createType({ ...TYPE, regionId })).type;
  const request = (name: string, at: { region: string; instanceTypeId: string }) => ({
    name,
    ...at,
    imageId: server.example.imageId,
    billing: { chargeMode: 'perHour' as const, duration: 1 },
    remoteStorages: [],
    nodePorts: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
  });
  const launched = async (name: string, at: { region: string; instanceTypeId: string }) => {
    const { instanceId } = await client.launch(request(name, at));
    const { instances } = await until(
      () => client.listInstances({ pager: { currentPage: 1, pageSize: 10 } }),
      (page) =>
        page.instances.some(
          (one) => one.instanceMetadata.instanceId === instanceId && one.instanceRuntimeInfo.status === 'Running',
        ),
    );
    const found = instances.find((one) => one.instanceMetadata.instanceId === instanceId);
    return { instanceId, url: `${gatewayUrl}${found?.instanceRuntimeInfo.subUrl ?? ''}echo` };
  };
  const added = await launched('added', { region: regionId, instanceTypeId });
  const ours = await launched('ours', server.example);
  const answerOf = (url: string) =>
    until(
      async () => {
        const answer = await fetch(url, { headers: bearer(token) });
        return { status: answer.status, text: await answer.text() };
      },
      ({ status }) => status === 200,
    );
  for (const { url, instanceId } of [added, ours])
    expect(JSON.parse((await answerOf(url)).text)).toMatchObject({ simulated: true, instanceId });
  const terminal = await openTerminal(apiPort, { instanceId: added.instanceId, terminal: 'work' }, { token });
  terminal.type('echo one\r');
  await terminal.waitForText('\r\none\r\n');

  await processes.stopApi();
  expect(JSON.parse((await answerOf(added.url)).text)).toMatchObject({ instanceId: added.instanceId });

  await processes.startApi();
  const again = await until(
    () => openTerminal(apiPort, { instanceId: added.instanceId, terminal: 'work' }, { token }).catch(() => null),
    (socket) => socket !== null,
  );
  await again?.waitForText('\r\none\r\n');
  expect(again?.messages[0]).toMatchObject({ type: 'attached', created: false });
  // The API that came back named the same region, which stayed open.
  const { sshAddress: address, settings } = REGION;
  expect(opened).toEqual([{ id: regionId, address, settings, secret: SECRET }]);

  const other = 'other-credentials';
  const { version } = (await client.getRegion({ regionId })).region;
  await client.updateRegion({ regionId, version, credentials: other });
  await expect.poll(() => opened.at(-1)).toMatchObject({ id: regionId, secret: other });
  expect(JSON.parse((await answerOf(added.url)).text)).toMatchObject({ instanceId: added.instanceId });

  const written = processes.said.concat(await textsIn(processes.folder)).join('\n');
  expect(written).toContain('the gateway opened a region');
  for (const secret of [SECRET, other]) expect(written).not.toContain(secret);
});

async function textsIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  // The server replaces some of the files meanwhile.
  return Promise.all(
    files.map(({ parentPath, name }) => readFile(join(parentPath, name), 'latin1').catch(ifMissing(''))),
  );
}
