/**
 * A private image in a cluster, from a real registry: an account with credentials can launch it, no
 * other can, although the node has the image.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { credentials, startDebianRegistries, type DebianRegistries } from '../../docker/engines/debian-registry.ts';
import { importBusybox } from '../../docker/engines/docker-fixture.ts';
import { docker, until, type Client } from '../../fixtures/server-process.ts';
import { startClusterServer, type ClusterServer } from './cluster-server.ts';

let registries: DebianRegistries;
let scene: ClusterServer;
let untouched: string[];
let ref: string;

beforeAll(async () => {
  registries = await startDebianRegistries();
  ref = `${registries.closed}/team/tool:1`;
  await push(ref);
  const variables = { BERTH_LOCAL_REGISTRIES: 'allow' };
  scene = await startClusterServer({ image: 'busybox', addons: ['storage'], reach: 'portForward', variables });
  await registries.serveClosedIn(scene.cluster.nodePid);
  untouched = await scene.objects();
});
afterAll(async () => {
  await scene?.stop();
  await registries?.stop();
});

/** The host's engine only carries the image to the registry. */
async function push(image: string): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-private-'));
  await importBusybox(docker, image, folder);
  const authconfig = { username: credentials.username, password: credentials.secret, serveraddress: registries.closed };
  const said = await text(await docker.getImage(image).push({ authconfig }));
  if (!/sha256:[0-9a-f]{64}/.test(said)) throw new Error(said);
  await docker.getImage(image).remove({ force: true });
  await rm(folder, { recursive: true });
}

async function registered(client: Client, secret?: string): Promise<void> {
  for (const { id } of (await client.listRegistries()).registries) await client.deleteRegistry({ id });
  if (secret === undefined) return;
  await client.createRegistry({ server: registries.closed, username: credentials.username, secret });
}

/** Waits for a refused download, and returns its text. */
async function refused(client: Client, instanceId: string): Promise<string> {
  const { instance } = await until(
    () => client.getInstance({ instanceId }),
    ({ instance: { instanceRuntimeInfo: now } }) => ['BackOff', 'ImageDenied'].includes(now.diagnosisReason),
  );
  return instance.instanceRuntimeInfo.diagnosisMessage;
}

test('a private image waits and names the fix, runs with credentials, and stays refused to others', async () => {
  const { admin: client } = scene;
  const { imageId } = await client.createImage({ name: 'tool', ref });
  const id = await scene.launch(client, { imageId });
  expect(await refused(client, id)).toContain(
    `register credentials for ${registries.closed} with POST /api/registry/create`,
  );
  await client.terminate({ instanceId: id });
  await scene.reaches(client, id, 'Cleaned');

  await registered(client, 'barnacle');
  const wrong = await scene.launch(client, { imageId });
  expect(await refused(client, wrong)).toContain(`delete the credentials for ${registries.closed}`);
  await registered(client, credentials.secret);
  // The next attempt has the new credentials.
  await scene.reaches(client, wrong, 'Running');

  const { client: thief } = await scene.account('thief');
  const theirs = await thief.createImage({ name: 'tool', ref });
  const stolen = await scene.launch(thief, { imageId: theirs.imageId });
  expect(await refused(thief, stolen)).toContain('POST /api/registry/create');

  // The login is the instance's own, and outlives neither it nor its stop.
  await client.stop({ instanceId: wrong });
  await scene.reaches(client, wrong, 'Stopped');
  await client.start({ instanceId: wrong });
  await scene.reaches(client, wrong, 'Running');
  await client.terminate({ instanceId: wrong });
  await thief.terminate({ instanceId: stolen });
  await scene.reaches(client, wrong, 'Cleaned');
  await scene.reaches(thief, stolen, 'Cleaned');
  await until(scene.objects, (left) => left.join() === untouched.join());
});
