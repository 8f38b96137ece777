/** Docker's prune in each form against instances in each state, on an engine of the test's own. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { realTime } from '../../../src/control/kernel/time.ts';
import { readRecipe, recipeRef } from '../../../src/engines/docker/image/recipes.ts';
import { startDebianRegistries, type DebianRegistries } from '../engines/debian-registry.ts';
import { importBusybox } from '../engines/docker-fixture.ts';
import { until } from '../../fixtures/server-process.ts';
import { sampled } from '../../fixtures/level.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { shell } from './container-shell.ts';
import { startInside, type LaunchOptions, type ServerInside } from './in-process-server.ts';
import { startOwnEngine, type OwnEngine } from './test-engine.ts';

const limits = { maxAttempts: 2, backOffBaseMs: 300, engineRetryMs: 200, stopGraceMs: 120_000 };
const HOUR_MS = 3_600_000;

/** Ends with 3 as often as `/broken` has lines. Stays at SIGTERM once `/deaf` is there. */
const main = `#!/bin/sh
if [ -s /broken ]; then sed -i 1d /broken; exit 3; fi
trap 'exit 0' TERM
while [ ! -e /leave ]; do
  if [ -e /deaf ]; then trap : TERM; : >/heard; fi
  sleep 0.1
done
rm /leave /deaf
`;

let engine: OwnEngine;
let registries: DebianRegistries;
let inside: ServerInside;
let ref: string;
let imageId: string;
let aheadMs = 0;
const time = { ...realTime, now: () => realTime.now() + aheadMs };

beforeAll(async () => {
  [engine, registries] = await Promise.all([startOwnEngine(), startDebianRegistries()]);
  await engine.importTiny(recipeRef(await readRecipe(join(import.meta.dirname, '../../../images/notebook'))));
  inside = await startBerth('31230-31249');
  ref = `berth.local/main:${process.pid}`;
  const files = { '/main': { content: main, mode: 0o755 } };
  await importBusybox(engine.docker, ref, inside.folder, files, undefined, ['CMD ["/main"]']);
  imageId = await inside.offer(ref);
});
afterAll(async () => {
  await inside?.stop();
  await engine?.stop();
  await registries?.stop();
});

const startBerth = (nodePorts: string, settings: Record<string, string> = {}): Promise<ServerInside> =>
  startInside({ nodePorts, limits, time, settings, engineAt: engine.dockerHost, engine: engine.docker });

const run = (id: string, command: string): Promise<string> => shell(id, command, engine.docker);

async function launch(options: LaunchOptions = {}, server = inside): Promise<string> {
  const id = await server.launch({ imageId, ...options });
  await server.sees(id, { status: 'Running' });
  await run(id, 'echo root >/root/kept; echo data >/root/dataDisk/kept');
  return id;
}

async function stop(id: string, server = inside): Promise<string> {
  await server.client.stop({ instanceId: id });
  await server.sees(id, { status: 'Stopped' });
  return id;
}

async function makeStopping(): Promise<string> {
  const id = await launch({ runImageCommand: true });
  await run(id, 'touch /deaf');
  await until(
    () => run(id, 'ls /'),
    (names) => names.includes('heard'),
  );
  await inside.client.stop({ instanceId: id });
  await inside.sees(id, { phase: 'Stopping' });
  return id;
}

async function makeFailed(): Promise<string> {
  const id = await launch({ runImageCommand: true });
  await run(id, `yes | head -n ${limits.maxAttempts} >/broken; touch /leave /deaf`);
  await inside.givenUp(id, { status: 'StartingFailed', reason: 'CrashLoop', hadRun: true });
  return id;
}

async function makeArchived(): Promise<string> {
  const id = await stop(await launch());
  await inside.client.archive({ instanceId: id });
  await inside.sees(id, { status: 'Archived', phase: 'Archived' });
  return id;
}

const prunes = {
  containers: () => engine.docker.pruneContainers(),
  networks: () => engine.docker.pruneNetworks(),
  volumes: () => engine.docker.pruneVolumes(),
  nameless: () => engine.docker.pruneImages(),
  images: () => engine.docker.pruneImages({ filters: JSON.stringify({ dangling: ['false'] }) }),
  builds: () => engine.docker.pruneBuilder(),
};
type Prune = keyof typeof prunes;

/** What Docker's program asks the engine for. */
const commands: { command: string; asks: Prune[] }[] = [
  { command: 'network prune', asks: ['networks'] },
  { command: 'volume prune', asks: ['volumes'] },
  { command: 'builder prune', asks: ['builds'] },
  { command: 'image prune', asks: ['nameless'] },
  { command: 'image prune -a', asks: ['images'] },
  { command: 'container prune', asks: ['containers'] },
  { command: 'system prune', asks: ['containers', 'networks', 'nameless', 'builds'] },
  { command: 'system prune -a --volumes', asks: ['containers', 'networks', 'volumes', 'images', 'builds'] },
];

const asksOf = (named: string): Prune[] => commands.find(({ command }) => command === named)?.asks ?? expect.fail();

const lossesOf = async (id: string, { server }: ServerInside = inside): Promise<number> => {
  const events = server.store.read.selectFrom('event').select('id').where('subjectId', '=', id);
  return (await events.where('kind', '=', 'instance.rootDiskLost').execute()).length;
};

async function starts(id: string, server = inside): Promise<void> {
  await server.client.start({ instanceId: id });
  await server.sees(id, { status: 'Running', diagnosisReason: '' });
  expect(await run(id, 'cat /root/kept /root/dataDisk/kept')).toBe('root\ndata\n');
  expect(await lossesOf(id, server)).toBe(0);
}

async function startsEmpty(id: string): Promise<void> {
  expect(await lossesOf(id)).toBe(1);
  await expect(inside.client.start({ instanceId: id })).rejects.toMatchObject({ status: 409 });
  await expect(inside.client.archive({ instanceId: id })).rejects.toMatchObject({ status: 409 });
  await expect(inside.client.saveImage({ instanceId: id, name: 'lost' })).rejects.toMatchObject({ status: 409 });
  await inside.client.start({ instanceId: id, newRootDisk: true });
  await inside.sees(id, { status: 'Running', diagnosisReason: '' });
  expect(await run(id, 'cat /root/dataDisk/kept; [ -e /root/kept ] || echo new')).toBe('data\nnew\n');
}

test.each(sampled(commands, { oneIn: commands.length, from: commands.length - 1 }))(
  'docker $command replaces no root disk, and each that it takes is reported',
  async ({ asks }) => {
    const [running, stopped, failed, archived] = await Promise.all([
      launch(),
      launch().then((id) => stop(id)),
      makeFailed(),
      makeArchived(),
    ]);
    const stopping = await makeStopping();
    for (const ask of asks) await prunes[ask]();
    await inside.sees(stopping, { status: 'Running', phase: 'Stopping' });
    await run(stopping, 'touch /leave');
    await inside.sees(stopping, { status: 'Stopped', diagnosisReason: '' });
    await starts(stopping);

    const takesContainers = asks.includes('containers');
    if (takesContainers) {
      await inside.sees(stopped, { status: 'Stopped', diagnosisReason: 'RootDiskLost' });
      await inside.sees(failed, { status: 'StartingFailed', diagnosisReason: 'RootDiskLost' });
    }
    await (takesContainers ? startsEmpty : starts)(stopped);
    await (takesContainers ? startsEmpty : starts)(failed);
    if (asks.includes('images')) {
      await inside.client.start({ instanceId: archived });
      await inside.sees(archived, { status: 'StartingFailed', diagnosisReason: 'RootDiskLost' });
      await startsEmpty(archived);
    } else await starts(archived);
    await inside.sees(running, { status: 'Running', diagnosisReason: '', healthy: true });
    expect(await run(running, 'cat /root/kept')).toBe('root\n');
    expect(await lossesOf(running)).toBe(0);
    await inside.removeAll(running, stopped, stopping, failed, archived);
  },
);

longTest('docker system prune takes the root disk during a save, and the saved image is whole', async () => {
  const stopped = await launch();
  await run(stopped, 'dd if=/dev/zero of=/root/large bs=1M count=256 2>/dev/null');
  await stop(stopped);
  const { imageId: saved } = await inside.client.saveImage({ instanceId: stopped, name: 'saved' });
  // The engine has a folder here while it writes a layer.
  const { DockerRootDir, Driver } = await engine.docker.info();
  const writing = join(DockerRootDir, 'image', Driver, 'layerdb/tmp');
  await until(
    () => readdir(writing),
    (layers) => layers.length > 0,
  );
  for (const ask of asksOf('system prune')) await prunes[ask]();
  await inside.sees(stopped, { status: 'Stopped', diagnosisReason: 'RootDiskLost' });
  await until(
    () => inside.client.listImages({ pager: { currentPage: 1, pageSize: 100 } }),
    ({ images }) => images.some(({ imageId, state }) => imageId === saved && state !== 'Saving'),
  );
  const from = await inside.launch({ imageId: saved });
  await inside.sees(from, { status: 'Running', diagnosisReason: '' });
  expect(await run(from, 'cat /root/kept; wc -c </root/large')).toBe(`root\n${256 * 2 ** 20}\n`);
  await startsEmpty(stopped);
  await inside.removeAll(from);
  await inside.client.deleteImage({ imageId: saved });
  await inside.removeAll(stopped);
});

test.each([
  { command: 'system prune', nodePorts: '31260-31279', registry: false },
  { command: 'system prune -a --volumes', nodePorts: '31280-31299', registry: true },
])(
  'after a long stop docker $command takes nothing, with a registry for archives: $registry',
  async ({ command, nodePorts, registry }) => {
    const settings = {
      BERTH_SAVE_ROOT_DISK_HOURS: '1',
      ...(registry && { BERTH_ARCHIVE_REGISTRY: `${registries.open}/berth` }),
    };
    const server = await startBerth(nodePorts, settings);
    try {
      const id = await stop(await launch({ imageId: await server.offer(ref) }, server), server);
      aheadMs += HOUR_MS;
      await server.sees(id, { status: 'Archived', phase: 'Archived' });
      for (const ask of asksOf(command)) await prunes[ask]();
      expect(await lossesOf(id, server)).toBe(0);
      await starts(id, server);
      await server.removeAll(id);
    } finally {
      await server.stop();
    }
  },
);
