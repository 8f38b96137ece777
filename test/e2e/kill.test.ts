/** `kill -9` of the server at any moment of a launch: the instance ends `Running` once, no container twice, none forgotten. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  installationOf,
  login,
  docker,
  ownedNames,
  startServerProcess,
  until,
  type Client,
  type ServerProcess,
} from './server-process.ts';
import { labels } from '../../src/engines/labels.ts';

/** In the ordinary run, and where there is time: how often the server is killed. */
const ROUNDS = process.env['BERTH_LONG'] === '1' ? 100 : 8;
const STEP_MS = 40;

let server: ServerProcess;
beforeAll(async () => {
  server = await startServerProcess({ nodePorts: '31100-31199' });
  const { client } = await login(server);
  const pager = { currentPage: 1, pageSize: 10 };
  await until(
    () => client.listImages({ pager }),
    ({ images }) => images[0]?.state === 'Ready',
    600_000,
  );
}, 600_000);
afterAll(async () => {
  await server?.stop();
});

const pager = { currentPage: 1, pageSize: 500 };
const list = async (client: Client) => (await client.listInstances({ pager })).instances;

test(`a launch outlives ${ROUNDS} kills at ${ROUNDS} moments`, async () => {
  const installation = installationOf(server.folder);
  let { client } = await login(server);
  const image = (await client.listImages({ pager })).images[0];
  const place = (await client.catalog()).instanceInfos[0]?.regionInfos[0];
  const type = place?.instanceTypeInfos[0];
  if (!image || !place || !type) throw new Error('nothing is on offer');
  const instanceConfiguration = { enableCommonData: false, enableDocker: false, initScript: '' };
  for (let round = 0; round < ROUNDS; round++) {
    const { instanceId } = await client.launch({
      name: `round ${round}`,
      imageId: image.imageId,
      instanceTypeId: type.instanceTypeId,
      region: place.regionId,
      billing: { chargeMode: 'perHour', duration: 1 },
      remoteStorages: [],
      instanceConfiguration,
      nodePorts: [],
    });
    await new Promise((resolve) => setTimeout(resolve, (round % 12) * STEP_MS));
    await server.kill('SIGKILL');
    await server.start();
    ({ client } = await login(server));
    const settled = await until(
      async () => (await list(client)).find((one) => one.instanceMetadata.instanceId === instanceId),
      (one) => one?.instanceRuntimeInfo.status === 'Running',
    );
    expect(settled?.instanceRuntimeInfo.diagnosisReason).toBe('');
    const filters = { label: [`${labels.installation}=${installation}`, `${labels.id}=${instanceId}`] };
    const containers = await docker.listContainers({ all: true, filters });
    expect(containers.map(({ State }) => State)).toEqual(['running']);
    await client.terminate({ instanceId });
  }
  await until(
    () => ownedNames(installation),
    (names) => names.length === 0,
  );
}, 600_000);
