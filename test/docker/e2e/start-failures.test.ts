/** Each failure of a start has its own reason, message and outcome, on a real engine. */
import { once } from 'node:events';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, type TestContext } from 'vitest';
import type { Limits } from '../../../src/domain/compute/instance-states.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { diagnoses } from '../../../src/domain/compute/instance-states.ts';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { bannerOfSshd } from '../engines/docker-fixture.ts';
import { shell } from './container-shell.ts';
import { docker, until } from '../../fixtures/server-process.ts';
import { hastened, startInside, type ServerInside } from './in-process-server.ts';
import { makeWire, type Wire } from './fault-proxy.ts';

const limits = { maxAttempts: 3, backOffBaseMs: 400, engineRetryMs: 200, stopGraceMs: 1_000 } satisfies Partial<Limits>;
const SOCKET = (process.env['DOCKER_HOST'] ?? '/var/run/docker.sock').replace(/^unix:\/\//, '');

const containerOf = (id: string) => docker.getContainer(containerName(instanceId(id)));

/** Listens on the port as another program of the host. */
async function hold(port: number, onTestFinished: TestContext['onTestFinished']): Promise<() => Promise<void>> {
  const server = net.createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  const release = (): Promise<void> => new Promise((resolve) => server.close(() => resolve()));
  onTestFinished(release);
  return release;
}

describe('failures inside of the container', () => {
  let inside: ServerInside;
  let imageId: string;
  beforeAll(async () => {
    inside = await startInside({ nodePorts: '31620-31649', limits, time: hastened });
    imageId = await inside.offerTiny();
  });
  afterAll(() => inside?.stop());

  test.concurrent('more memory used than the limit: OutOfMemory, and it runs again', async ({ expect }) => {
    // Each process uses less than process 1 is charged for, so the OOM killer picks process 1.
    const eats = 'dd if=/dev/zero of=/dev/null bs=1200M';
    const greedy = `echo 1000 >/proc/1/oom_score_adj; sleep 1; ${eats} & ${eats}`;
    const id = await inside.launch({ imageId, initScript: greedy });
    const story = await until(
      () => inside.story(id),
      (reported) => reported.some((one) => one.startsWith('Starting/')),
    );
    expect(story).toContain('Starting/Queued/OutOfMemory');
    const message = 'a stop interrupted the init script, which does not run again';
    await inside.sees(id, { status: 'Running', diagnosisReason: '', message });
    await inside.removeAll(id);
  });

  test.concurrent('a program that the kernel kills for want of memory: a message and an event', async ({ expect }) => {
    const id = await inside.launch({ imageId });
    await inside.sees(id, { status: 'Running' });
    await expect(shell(id, 'exec dd if=/dev/zero of=/dev/null bs=3000M count=1')).rejects.toThrow('137');
    const { instanceRuntimeInfo } = await until(
      async () => (await inside.client.getInstance({ instanceId: id })).instance,
      ({ instanceRuntimeInfo: { message } }) => message !== '',
    );
    expect(instanceRuntimeInfo.message).toMatch(
      /^a program was killed at .* UTC: the instance's memory of 2 GB was full$/,
    );
    expect(instanceRuntimeInfo).toMatchObject({ status: 'Running', diagnosisReason: '', healthy: true });
    const { store } = inside.server;
    const events = store.read.selectFrom('event').select('data').where('subjectId', '=', id);
    expect(await events.where('kind', '=', 'instance.outOfMemory').execute()).toHaveLength(1);
    expect((await inside.client.metrics({ instanceId: id })).now?.memoryKills).toBe(1);
    await inside.removeAll(id);
  });

  test.concurrent('a main process that ended once: ContainerExited, and it runs again', async ({ expect }) => {
    const id = await inside.launch({ imageId });
    await inside.sees(id, { status: 'Running' });
    const ends = async (): Promise<number> =>
      (await inside.story(id)).filter((one) => one === 'Starting/Queued/ContainerExited').length;
    await containerOf(id).kill();
    await until(ends, (times) => times === 1);
    const { instanceRuntimeInfo: now } = await inside.sees(id, { status: 'Running', diagnosisReason: '' });
    expect(now).toMatchObject({ healthy: true, diagnosisMessage: '' });
    await inside.removeAll(id);
  });

  test.concurrent('a main process that keeps ending: CrashLoop after the last try', async ({ expect }) => {
    const broken = `rm /bin/sh; printf '#!/bin/busybox ash\\nexit 3\\n' >/bin/sh; chmod 755 /bin/sh`;
    const initScript = `while [ ! -e /tmp/seen ]; do sleep 0.1; done; ${broken}; kill 1`;
    const id = await inside.launch({ imageId, initScript });
    await inside.sees(id, { status: 'Running' });
    await shell(id, 'touch /tmp/seen');
    expect(await inside.givenUp(id, { status: 'StartingFailed', reason: 'CrashLoop', hadRun: true })).toBe(
      'the main process exited with code 3, 4 times in a row',
    );
    expect(await inside.story(id)).toContain('Starting/Queued/ContainerExited');
    await inside.removeAll(id);
  });

  test.concurrent('sshd that stops answering: Unhealthy meanwhile, then healthy again', async ({ expect }) => {
    const id = await inside.launch({ imageId: await inside.offerTiny({ '/usr/sbin/sshd': bannerOfSshd }) });
    await inside.sees(id, { status: 'Running', healthy: true });
    expect((await inside.row(id)).observed.answersBy).toBe('ssh');
    await shell(id, 'touch /tmp/silent');
    const silent = await inside.sees(id, { healthy: false });
    expect(silent.instanceRuntimeInfo).toMatchObject({
      status: 'Running',
      phase: 'Ready',
      diagnosisReason: 'Unhealthy',
      diagnosisMessage: diagnoses.Unhealthy,
    });
    expect((await inside.row(id)).holdsCapacity).toBe(true);
    await shell(id, 'rm /tmp/silent');
    await inside.sees(id, { status: 'Running', healthy: true, diagnosisReason: '' });
    await inside.removeAll(id);
  });

  test.concurrent('a file where a volume is to be mounted: BadMount at once', async ({ expect }) => {
    const withFile = await inside.offerTiny({ '/opt/taken': { content: 'a file', mode: 0o644 } });
    const { region } = inside.server.example;
    const { volume } = await inside.client.createVolume({ name: 'a', sizeGB: 1, region, volumeType: 'filesystem' });
    const mount = { remoteStorageName: 'a', remoteStorageId: volume.id, type: 'filesystem' };
    const id = await inside.launch({ imageId: withFile, remoteStorages: [{ ...mount, mountPath: '/opt/taken' }] });
    const said = await inside.givenUp(id, { status: 'InitializationFailed', reason: 'BadMount' });
    expect(said).toMatch(/over a file of the image/);
    await inside.removeAll(id);
  });

  test('all capacity is released', async () => {
    const { used } = await inside.counted();
    expect(used).toEqual({ cpuMilli: 0, memoryMiB: 0, gpus: {}, nodePorts: 0 });
  });
});

describe('failures of the host', () => {
  test.concurrent(
    'a node port taken by another program: runs on the next; without one, PortsUsedUp',
    async ({ expect, onTestFinished }) => {
      const inside = await startInside({ nodePorts: '31650-31651', limits });
      onTestFinished(() => inside.stop());
      const imageId = await inside.offerTiny();
      const release = await hold(31_650, onTestFinished);
      const first = await inside.launch({ imageId });
      const { instanceSpecInfo } = await inside.sees(first, { status: 'Running', diagnosisReason: '' });
      expect(instanceSpecInfo.nodePorts).toEqual([{ port: 22, address: '127.0.0.1', nodePort: 31_651 }]);

      const second = await inside.launch({ imageId });
      const said = await inside.givenUp(second, { status: 'StartingFailed', reason: 'PortsUsedUp' });
      expect(said).toBe('node port 31650 is taken by another program of the host');
      expect(await inside.story(second)).toContain('Starting/CreateContainer/PortTaken');
      await inside.client.start({ instanceId: second });
      await inside.sees(second, { diagnosisReason: 'PortTaken' });
      await release();
      const running = await inside.sees(second, { status: 'Running', diagnosisReason: '' });
      expect(running.instanceSpecInfo.nodePorts[0]?.nodePort).toBe(31_650);

      // An instance that ran keeps its port and waits for it.
      await inside.client.stop({ instanceId: second });
      await inside.sees(second, { status: 'Stopped' });
      const releaseAgain = await hold(31_650, onTestFinished);
      await inside.client.start({ instanceId: second });
      const blocked = await inside.sees(second, { diagnosisReason: 'PortTaken' });
      expect(blocked.instanceRuntimeInfo.diagnosisMessage).toMatch(/starts when the port is free/);
      await releaseAgain();
      await inside.sees(second, { status: 'Running', diagnosisReason: '' });
      await inside.removeAll(first, second);
    },
  );

  test.concurrent(
    'sshd that never answers: StartTimeout at the deadline, and nothing keeps running',
    async ({ expect, onTestFinished }) => {
      const inside = await startInside({ nodePorts: '31690-31699', limits: { ...limits, readyDeadlineMs: 3_000 } });
      onTestFinished(() => inside.stop());
      const silent = { '/usr/sbin/sshd': bannerOfSshd, '/tmp/silent': { content: '', mode: 0o644 } };
      const id = await inside.launch({ imageId: await inside.offerTiny(silent) });
      const said = await inside.givenUp(id, { status: 'StartingFailed', reason: 'StartTimeout' });
      expect(said).toBe('the instance was not ready 3 s after its start');
      await until(
        () => containerOf(id).inspect(),
        ({ State }) => !State.Running,
      );
      await inside.removeAll(id);
    },
  );

  test.concurrent(
    'unreachable disks: VolumePending, DisksFailed, then recovery; VolumeLost',
    async ({ expect, onTestFinished }) => {
      const inside = await startInside({
        nodePorts: '31652-31669',
        limits,
        time: { ...realTime, every: hastened.every },
      });
      onTestFinished(() => inside.stop());
      const imageId = await inside.offerTiny();
      const { region } = inside.server.example;
      const makeVolume = async (name: string) => {
        const { volume } = await inside.client.createVolume({ name, sizeGB: 1, region, volumeType: 'filesystem' });
        const mount = { remoteStorageName: name, remoteStorageId: volume.id, type: 'filesystem' };
        return { id: volume.id, mounts: [{ ...mount, mountPath: `/root/${name}` }] };
      };
      const lost = await makeVolume('lost');
      const mounting = await inside.launch({ imageId, remoteStorages: lost.mounts });
      await inside.sees(mounting, { status: 'Running' });
      await inside.client.stop({ instanceId: mounting });
      await inside.sees(mounting, { status: 'Stopped' });

      const [disks, away] = [join(inside.folder, 'disks'), join(inside.folder, 'disks.away')];
      await rename(disks, away);
      const pending = await inside.launch({ imageId, remoteStorages: (await makeVolume('pending')).mounts });
      const without = await inside.launch({ imageId });
      const { instanceRuntimeInfo: waits } = await inside.sees(pending, { diagnosisReason: 'VolumePending' });
      expect(waits).toMatchObject({ status: 'Initializing', phase: 'PrepareDisks' });
      expect(waits.diagnosisMessage).toMatch(/volume pending .* is Pending/);
      const { instanceRuntimeInfo: fails } = await inside.sees(without, { diagnosisReason: 'DisksFailed' });
      expect(fails).toMatchObject({ status: 'Initializing', phase: 'PrepareDisks' });
      expect(fails.diagnosisMessage).toBe('the storage of the region could not provide the data disk');
      await inside.givenUp(without, { status: 'InitializationFailed', reason: 'DisksFailed' });
      await rename(away, disks);
      await inside.client.start({ instanceId: without });
      await inside.sees(without, { status: 'Running', diagnosisReason: '' });
      await inside.sees(pending, { status: 'Running', diagnosisReason: '' });

      await rename(join(disks, 'volume', lost.id), join(inside.folder, 'lost'));
      await until(
        () => inside.client.listVolumes({ pager: { currentPage: 1, pageSize: 10 } }),
        ({ volumeList }) => volumeList.some(({ id, status }) => id === lost.id && status === 'Lost'),
      );
      await inside.client.start({ instanceId: mounting });
      const said = await inside.givenUp(mounting, { status: 'StartingFailed', reason: 'VolumeLost' });
      expect(said).toMatch(/volume lost .* is Lost/);
      await inside.removeAll(mounting, pending, without);
    },
  );
});

describe('failures of the engine', () => {
  let inside: ServerInside;
  let engine: Wire;
  let folder: string;
  let imageId: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'berth-wire-'));
    const path = join(folder, 'engine.sock');
    engine = await makeWire({ at: { path }, to: { path: SOCKET } });
    inside = await startInside({ nodePorts: '31670-31689', limits, time: hastened, engineAt: `unix://${path}` });
    imageId = await inside.offerTiny();
  });
  afterAll(async () => {
    await inside?.stop();
    await engine?.down();
    await rm(folder, { recursive: true, force: true });
  });

  test('a missing engine socket: EngineUnreachable, no instance fails, and all recover', async () => {
    const before = await inside.launch({ imageId });
    await inside.sees(before, { status: 'Running' });
    await engine.down();
    const during = await inside.launch({ imageId });
    const { instanceRuntimeInfo: now } = await inside.sees(during, { diagnosisReason: 'EngineUnreachable' });
    expect(now).toMatchObject({ status: 'Initializing', diagnosisMessage: 'the container engine does not answer' });
    await inside.client.stop({ instanceId: before });
    await inside.sees(before, { diagnosisReason: 'EngineUnreachable', status: 'Running', phase: 'Stopping' });
    const { regions } = await until(
      () => inside.client.listRegions(),
      (answer) => answer.regions[0]?.engine.answers === false,
    );
    expect(regions[0]?.engine.answers).toBe(false);
    await engine.up();
    await inside.sees(during, { status: 'Running', diagnosisReason: '' });
    await inside.sees(before, { status: 'Stopped', diagnosisReason: '' });
    expect((await inside.story(during)).filter((one) => one.includes('Failed'))).toEqual([]);
    await inside.removeAll(before, during);
  });

  test('a container name taken by a foreign container: EngineRejected, and the foreign one is untouched', async () => {
    await engine.down();
    const id = await inside.launch({ imageId });
    const foreignContainer = await docker.createContainer({
      name: containerName(instanceId(id)),
      Image: (await inside.row(id)).spec.image.ref,
      Entrypoint: ['sleep', '600'],
    });
    onTestFinished(() => foreignContainer.remove({ force: true }));
    await engine.up();
    const said = await inside.givenUp(id, { status: 'InitializationFailed', reason: 'EngineRejected' });
    expect(said).toMatch(/does not belong to this installation; ask the operator to remove it/);
    await inside.removeAll(id);
    expect((await foreignContainer.inspect()).State.Status).toBe('created');
  });
});
