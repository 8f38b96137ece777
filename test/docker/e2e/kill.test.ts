/**
 * `kill -9` of the server at random moments under a mixed load on a real engine (`kill-load.ts`).
 * Each acknowledged request holds, and once the server has settled desired states and containers
 * agree exactly (`kill-checks.ts`).
 *
 * `BERTH_SEED` gives the same moments and choices again; what the engine is doing just then is its
 * own.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeRandom } from '../../fixtures/seeded-random.ts';
import { offerImage, thisMachine } from '../../../src/main/first-run.ts';
import { openStore } from '../../../src/store/open.ts';
import { atLevel } from '../../fixtures/level.ts';
import {
  docker,
  installationOf,
  login,
  ownedNames,
  startServerProcess,
  until,
  type ServerProcess,
} from '../../fixtures/server-process.ts';
import { bannerOfSshd, importBusybox } from '../engines/docker-fixture.ts';
import { expectAgreement, filesOf, PRECIOUS, savesAreListed, settledList, volumesHold } from './kill-checks.ts';
import { idOf, killUnderLoad, listOf, statusOf, type Scene } from './kill-load.ts';

/** Kills between two checks, and how often that is done. */
const KILLS = atLevel({ short: 2, long: 25 });
const ROUNDS = atLevel({ short: 1, long: 1, soak: 8 });
const TIMEOUT = { timeout: 30 * 60_000 };

const seed = process.env['BERTH_SEED'] ?? randomUUID().slice(0, 8);
const imageRef = `berth.local/kill:${randomUUID()}`;

let server: ServerProcess | undefined;
let scene: Scene;
beforeAll(async () => {
  const scratch = await mkdtemp(join(tmpdir(), 'berth-kill-'));
  await importBusybox(docker, imageRef, scratch, { '/usr/sbin/sshd': bannerOfSshd });
  await rm(scratch, { recursive: true });
  let imageId = '';
  const prepare = async (folder: string): Promise<void> => {
    const store = await openStore({ file: join(folder, 'berth.db'), log: pino({ level: 'silent' }) });
    const image = { key: 'kill', name: 'kill', ref: imageRef, tags: [], architecture: thisMachine().architecture };
    imageId = await offerImage(store, image, { nowMs: Date.now(), uuid: randomUUID });
    await store.stop();
  };
  server = await startServerProcess({ nodePorts: '31100-31199', prepare });
  const { client: admin } = await login(server);
  const { instanceInfos } = await admin.catalog();
  const region = instanceInfos[0]?.regionInfos[0];
  const type = region?.instanceTypeInfos[0];
  if (!region || !type) throw new Error('nothing is on offer');
  const launch = { imageId, region: region.regionId, instanceTypeId: type.instanceTypeId };
  scene = { server, admin, launch, accounts: [], tally: new Map(), answered: 0, random: makeRandom(seed) };
  for (const username of ['ada', 'grace']) await addAccount(username);
});
afterAll(async () => {
  await server?.stop();
  await docker.getImage(imageRef).remove({ force: true });
});

/** An account with a volume that holds a precious file. */
async function addAccount(username: string): Promise<void> {
  const password = `the password of ${username}`;
  await scene.admin.createUser({ username, password, balance: 1_000_000 });
  const { client } = await login(scene.server, username, password);
  const { volume } = await client.createVolume({
    name: 'kept',
    sizeGB: 1,
    region: scene.launch.region,
    volumeType: 'filesystem',
  });
  await until(
    () => client.listVolumes({ pager: { currentPage: 1, pageSize: 10 } }),
    ({ volumeList }) => volumeList[0]?.status === 'Bound',
  );
  await writeFile(join(await filesOf(scene.server.folder, volume.id), 'precious'), PRECIOUS);
  scene.accounts.push({
    username,
    client,
    volumeId: volume.id,
    desired: new Map(),
    unsure: new Set(),
    sure: new Map(),
    archivedOnce: new Set(),
  });
}

test.for(Array.from({ length: ROUNDS }, (_, round) => round + 1))(
  `${KILLS} kills under a mixed load (seed ${seed}): desired states and containers agree exactly, round %i`,
  TIMEOUT,
  async () => {
    await killUnderLoad(scene, KILLS);
    await expectAgreement(scene);
  },
);

test('terminated instances leave no container, image, disk or file, and volumes keep their data', TIMEOUT, async () => {
  for (const account of scene.accounts) {
    for (const one of await listOf(account)) {
      if (statusOf(one) !== 'Released') await account.client.terminate({ instanceId: idOf(one) });
      account.desired.set(idOf(one), new Set(['released']));
    }
    await settledList(account);
  }
  await until(
    () => ownedNames(installationOf(scene.server.folder)),
    (names) => names.length === 0,
  );
  await savesAreListed(scene);
  expect(await readdir(join(scene.server.folder, 'disks/data'))).toEqual([]);
  const controlFiles = await readdir(join(scene.server.folder, 'control-files'));
  // All instances share the sets of processors.
  expect(controlFiles.filter((name) => name !== '.processors')).toEqual([]);
  await volumesHold(scene, []);
});
