/** Disks that processes of the host hold, and mounts after a stop of the server. Needs root. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { listMountPoints } from '../../../src/storage/image-file/image-mounts.ts';
import { poolsOf } from '../../../src/store/tables/pools.ts';
import { until } from '../../fixtures/server-process.ts';
import { bannerOfSshd } from '../engines/docker-fixture.ts';
import { hastened, startInside, type ServerInside } from './in-process-server.ts';
import { DROP_OTHER_MOUNTS } from '../storage/file-systems.ts';

const run = promisify(execFile);

let inside: ServerInside;
let imageId: string;
beforeAll(async () => {
  inside = await startInside({
    nodePorts: '32600-32619',
    limits: { stopGraceMs: 1_000, engineRetryMs: 200 },
    time: hastened,
    settings: { BERTH_POOL: 'engine=image-file,size=10000', BERTH_SHARED_DISK_GB: '1' },
  });
  imageId = await inside.offerTiny({ 'bin/sshd': bannerOfSshd });
});
afterAll(async () => {
  await inside?.stop();
});

async function running(): Promise<string> {
  const id = await inside.launch({ imageId });
  await inside.sees(id, { status: 'Running' });
  return id;
}

async function mountsAndDevices(): Promise<string[]> {
  const { stdout } = await run('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE']);
  return [...(await listMountPoints()), ...stdout.split('\n')].filter((path) => path.startsWith(inside.folder));
}

/** Holds copies of this server's mounts alone. */
const HOLD = `${DROP_OTHER_MOUNTS}
exec sleep 600`;

const bestEffortGB = async (): Promise<number> => {
  const pools = await poolsOf(inside.server.store.read, inside.server.example.region);
  return pools.reduce((sum, pool) => sum + pool.bestEffortGB, 0);
};

test('a terminate frees the capacity at once; a disk that a process of the host holds is listed until it is gone', async () => {
  const id = await running();
  const holder = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', HOLD, 'sh', inside.folder]);
  onTestFinished(() => void holder.kill('SIGKILL'));
  await expect.poll(() => readFile(`/proc/${holder.pid}/comm`, 'utf8')).toBe('sleep\n');
  const beforeGB = await bestEffortGB();
  await inside.client.terminate({ instanceId: id });
  expect((await inside.row(id)).holdsCapacity).toBe(false);
  const { instanceRuntimeInfo: shown } = await inside.sees(id, { diagnosisReason: 'DiskInUse' });
  expect(shown).toMatchObject({
    status: 'Released',
    phase: 'RemovingDisks',
    diagnosisMessage: 'a process of the host still uses the data disk',
  });
  const { disks } = await inside.client.listHeldDisks({});
  expect(disks).toMatchObject([
    { kind: 'data', id, pool: 'default', processes: [{ pid: holder.pid, command: 'sleep' }] },
  ]);
  expect(await bestEffortGB()).toBe(beforeGB);

  holder.kill('SIGKILL');
  await once(holder, 'exit');
  await inside.sees(id, { phase: 'Cleaned', diagnosisReason: '' });
  expect(await inside.client.listHeldDisks({})).toEqual({ disks: [] });
  expect(await bestEffortGB()).toBeLessThan(beforeGB);
});

test('a server that stops leaves mounts and loop devices to running instances alone', async () => {
  const [stays, stops] = [await running(), await running()];
  await inside.client.stop({ instanceId: stops });
  await inside.sees(stops, { status: 'Stopped' });
  await inside.server.stop();
  const left = await until(mountsAndDevices, (paths) => !paths.some((path) => path.includes(stops)));
  expect(left.filter((path) => path.includes(stays))).toHaveLength(2);
});
