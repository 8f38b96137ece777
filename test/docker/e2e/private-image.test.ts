/**
 * A private image on a real engine and registry: an account with credentials can launch it, no
 * other can.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Limits } from '../../../src/domain/compute/instance-states.ts';
import { credentials, startDebianRegistries, type DebianRegistries } from '../engines/debian-registry.ts';
import { importBusybox } from '../engines/docker-fixture.ts';
import { startInside, type ServerInside } from './in-process-server.ts';
import { sampled } from '../../fixtures/level.ts';
import { docker, login, until, type Client } from '../../fixtures/server-process.ts';

const limits = {
  backOffBaseMs: 300,
  backOffMaxMs: 1_000,
  engineRetryMs: 200,
  stopGraceMs: 1_000,
  maxAttempts: 2,
} satisfies Partial<Limits>;
const PASSWORD = 'battery staple';

let registries: DebianRegistries;
let inside: ServerInside;
let folder: string;
let ref: string;
let digestRef: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-private-'));
  registries = await startDebianRegistries();
  inside = await startInside({ nodePorts: '31580-31619', limits: { ...limits, imageDeadlineMs: 4_000 } });
  ref = `${registries.closed}/team/tool:1`;
  await importBusybox(docker, ref, folder);
  const authconfig = { username: credentials.username, password: credentials.secret, serveraddress: registries.closed };
  const said = await text(await docker.getImage(ref).push({ authconfig }));
  const [digest] = /sha256:[0-9a-f]{64}(?=[^]*$)/.exec(said.slice(said.lastIndexOf('digest'))) ?? [];
  if (digest === undefined) throw new Error(said);
  digestRef = `${registries.closed}/team/tool@${digest}`;
  await docker.getImage(ref).remove({ force: true });
});
afterAll(async () => {
  await inside?.stop();
  for (const one of [ref, digestRef]) await docker.getImage(one).remove({ force: true }).catch(ignoreMissing);
  await registries?.stop();
  await rm(folder, { recursive: true, force: true });
});

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Error && 'statusCode' in error && error.statusCode === 404)) throw error;
}

const server = (): string => registries.closed;

/** An image that its registry denies from then on. */
async function createDenied(client: Client, name: string): Promise<{ imageId: string }> {
  await registered(client);
  const created = await client.createImage({ name: 'tool', ref: name });
  for (const { id } of (await client.listRegistries()).registries) await client.deleteRegistry({ id });
  return created;
}

async function registered(client: Client, secret = credentials.secret): Promise<void> {
  for (const { id } of (await client.listRegistries()).registries) await client.deleteRegistry({ id });
  await client.createRegistry({ server: server(), username: credentials.username, secret });
}

test('a private image without credentials waits and names the fix; with credentials the next start runs', async () => {
  const { client } = inside;
  const advised = { status: 400, message: expect.stringContaining('POST /api/registry/create') };
  await expect(client.createImage({ name: 'tool', ref }), 'refused at once').rejects.toMatchObject(advised);
  const { imageId } = await createDenied(client, ref);
  const id = await inside.launch({ imageId });
  const { instanceRuntimeInfo: waiting } = await inside.sees(id, { diagnosisReason: 'BackOff' });
  expect(waiting).toMatchObject({ status: 'Starting', phase: 'DownloadImage' });
  const advice = `register credentials for ${server()} with POST /api/registry/create`;
  expect(waiting.diagnosisMessage).toContain(advice);
  expect(await inside.givenUp(id, { status: 'StartingFailed', reason: 'ImageDenied' })).toContain(advice);

  await registered(client, 'barnacle');
  await client.start({ instanceId: id });
  const { instanceRuntimeInfo: wrong } = await inside.sees(id, { diagnosisReason: 'BackOff' });
  expect(wrong.diagnosisMessage).toContain(`delete the credentials for ${server()} (user ${credentials.username})`);
  expect(JSON.stringify(await client.listRegistries())).not.toContain('barnacle');
  await registered(client);
  await inside.sees(id, { status: 'Running', diagnosisReason: '' });
  await inside.removeAll(id);
});

test.each(sampled(['digest', 'tag'] as const, { oneIn: 2 }))(
  'refuses a private image by %s to another account, although the host has it',
  async (by) => {
    const name = by === 'tag' ? ref : digestRef;
    const { client } = inside;
    await registered(client);
    const mine = await client.createImage({ name: `tool by ${by}`, ref: name });
    const id = await inside.launch({ imageId: mine.imageId });
    await inside.sees(id, { status: 'Running' });
    expect((await docker.getImage(name).inspect()).Id).toMatch(/^sha256:/);

    const username = `thief-${by}`;
    await client.createUser({ username, password: PASSWORD, balance: 100 });
    const thief = await loginAt(username);
    const pager = { currentPage: 1, pageSize: 100 };
    expect((await thief.listImages({ pager })).images.map(({ imageId }) => imageId)).not.toContain(mine.imageId);
    await expect(launchAs(thief, mine.imageId)).rejects.toMatchObject({ status: 404 });
    await expect(thief.createImage({ name: 'tool', ref: name })).rejects.toMatchObject({ status: 400 });
    const theirs = await createDenied(thief, name);
    const { instanceId } = await launchAs(thief, theirs.imageId);
    const { observed } = await until(
      () => inside.row(instanceId),
      ({ observed: { status } }) => status === 'StartingFailed' || status === 'Running',
    );
    expect(observed).toMatchObject({ status: 'StartingFailed', diagnosis: 'ImageDenied' });
    await thief.terminate({ instanceId });

    // A cached image starts without the registry; a new one needs its permission.
    await registered(client, 'barnacle');
    await client.stop({ instanceId: id });
    await inside.sees(id, { status: 'Stopped' });
    await client.start({ instanceId: id });
    await inside.sees(id, { status: 'Running' });
    const second = await inside.launch({ imageId: mine.imageId });
    await inside.sees(second, { diagnosisReason: 'BackOff' });
    await inside.removeAll(id, second);
  },
);

const loginAt = async (username: string): Promise<Client> =>
  (await login({ apiUrl: inside.server.apiUrl }, username, PASSWORD)).client;

const launchAs = (client: Client, imageId: string): Promise<{ instanceId: string }> =>
  client.launch({
    name: 'theirs',
    ...inside.server.example,
    imageId,
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [],
    nodePorts: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
  });
