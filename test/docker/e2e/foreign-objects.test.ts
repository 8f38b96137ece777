/**
 * Containers, networks and volumes without a label of this installation are never touched by
 * sweeps, stops and deletes.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import { containerName, labels, networkName } from '../../../src/engines/labels.ts';
import { importBusybox } from '../engines/docker-fixture.ts';
import { hastened, startInside, type ServerInside } from './in-process-server.ts';
import { docker, installationOf, ownedNames, until } from '../../fixtures/server-process.ts';

const other = randomUUID();
const imageRef = `berth.local/neighbour:${other}`;
const saved = { plain: `berth.local/archive/plain:${other}`, theirs: `berth.local/saved/theirs:${other}` };
const soon = (): AbortSignal => AbortSignal.timeout(60_000);

const labelsOf = (installation: string | null, kind: string, id: string): Record<string, string> => ({
  ...(installation === null ? {} : { [labels.installation]: installation }),
  [labels.kind]: kind,
  [labels.id]: id,
  [labels.owner]: id,
  [labels.generation]: '1',
  [labels.imageRef]: imageRef,
});

const containers: string[] = [];
const networks: string[] = [];

async function container(more: { name?: string; Labels?: Record<string, string>; stopped?: boolean }): Promise<string> {
  const { stopped = false, ...asked } = more;
  const made = await docker.createContainer({
    ...asked,
    Image: imageRef,
    Entrypoint: ['sleep', '3600'],
    HostConfig: { NetworkMode: 'none' },
  });
  containers.push(made.id);
  if (!stopped) await made.start();
  return made.id;
}

async function network(name: string, subnet: string, Labels: Record<string, string> = {}): Promise<void> {
  const IPAM = { Driver: 'default', Config: [{ Subnet: subnet }] };
  networks.push((await docker.createNetwork({ Name: name, Labels, IPAM })).id);
}

/** Every detail that a stop, a start or a recreation would change. */
async function picture(): Promise<unknown> {
  const there = containers.map(async (id) => {
    const { Id, Name, State, Config } = await docker.getContainer(id).inspect();
    return { Id, Name, labels: Config.Labels, runs: State.Running, since: State.StartedAt, pid: State.Pid };
  });
  const nets = networks.map(async (id) => {
    const { Id, Name, Labels } = await docker.getNetwork(id).inspect();
    return { Id, Name, Labels };
  });
  const images = [imageRef, saved.plain, saved.theirs].map(async (ref) => {
    const { Id, RepoTags } = await docker.getImage(ref).inspect();
    return { Id, RepoTags };
  });
  return { containers: await Promise.all(there), networks: await Promise.all(nets), images: await Promise.all(images) };
}

let inside: ServerInside;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-neighbours-'));
  await importBusybox(docker, imageRef, folder);
  inside = await startInside({
    nodePorts: '31400-31449',
    limits: { stopGraceMs: 1_000 },
    time: hastened,
    settings: { BERTH_STRAYS: 'delete' },
  });
  const mine = installationOf(inside.folder);
  const plain = await container({});
  await container({ stopped: true });
  await container({ name: containerName(instanceIdOf(randomUUID())) });
  const theirs = instanceIdOf(randomUUID());
  await container({ name: containerName(theirs), Labels: labelsOf(other, 'instance', theirs) });
  const labelled = instanceIdOf(randomUUID());
  await container({ name: containerName(labelled), Labels: labelsOf(null, 'instance', labelled) });
  await container({ Labels: { [labels.installation]: `${mine}-not`, [labels.kind]: 'instance' } });
  await network(`plain-${other}`, '10.214.0.0/28');
  await network(networkName(mine, userId(randomUUID())), '10.214.0.16/28');
  await network(networkName(other, userId(other)), '10.214.0.32/28', labelsOf(other, 'network', other));
  const commit = (ref: string, more: { changes?: string } = {}): Promise<unknown> => {
    const [repo, tag] = [ref.slice(0, ref.lastIndexOf(':')), ref.slice(ref.lastIndexOf(':') + 1)];
    return docker.getContainer(plain).commit({ repo, tag, ...more });
  };
  await commit(saved.plain);
  const said = Object.entries({ ...labelsOf(other, 'image', theirs), [labels.imageRef]: saved.theirs });
  await commit(saved.theirs, { changes: `LABEL ${said.map(([name, value]) => `${name}=${value}`).join(' ')}` });
}, 120_000);

afterAll(async () => {
  await inside?.stop();
  for (const id of containers) await docker.getContainer(id).remove({ force: true, v: true });
  for (const id of networks) await docker.getNetwork(id).remove();
  for (const ref of [saved.theirs, saved.plain, imageRef]) await docker.getImage(ref).remove({ force: true });
  await rm(folder, { recursive: true, force: true });
});

test('foreign containers, networks and volumes stay unchanged and running, while orphans of this installation are deleted', async () => {
  const before = await picture();
  const { engine, nodePortAddress } = inside.server.drivers.drivers;
  const installation = installationOf(inside.folder);
  const imageId = await inside.offerTiny();
  const lives = await inside.launch({ imageId });
  const stops = await inside.launch({ imageId });
  for (const id of [lives, stops]) await inside.sees(id, { status: 'Running' });

  const orphan = instanceIdOf(randomUUID());
  const nobody = userId(randomUUID());
  const spec = {
    id: orphan,
    ownerId: nobody,
    generation: 1,
    hostname: `${orphan}-0`,
    imageRef,
    cpuMilli: 100,
    memoryMiB: 64,
    pidsLimit: 50,
    gpus: 0,
    mounts: [],
    nodePorts: [],
    nodePortAddress,
    files: [{ name: 'start', content: 'sleep 3600\n', mode: 0o555 }],
  };
  await engine.ensure(spec, soon());
  await engine.saveImage(orphan, `berth.local/archive/${orphan}:1`, soon());
  const holds = async () => (await engine.listOwned(soon())).filter(({ ownerId }) => ownerId === nobody);
  expect((await holds()).map(({ kind }) => kind).toSorted()).toEqual(['image', 'instance', 'network']);
  await until(holds, (left) => left.length === 0);
  await until(
    () => inside.client.listStrays(),
    ({ strays: orphans }) => orphans.length === 0,
  );
  const found = await inside.server.store.read
    .selectFrom('event')
    .selectAll()
    .where('kind', '=', 'stray.found')
    .execute();
  expect(found.length).toBeGreaterThan(0);
  expect(await picture()).toEqual(before);

  await inside.client.stop({ instanceId: stops });
  await inside.sees(stops, { status: 'Stopped' });
  await inside.removeAll(lives, stops);
  await until(
    () => ownedNames(installation),
    (names) => names.length === 0,
  );
  expect(await picture()).toEqual(before);
});
