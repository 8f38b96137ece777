/** `npm run uninstall` leaves nothing of an installation, and everything of others. Needs root. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { chainName } from '../../../src/engines/docker/network/firewall-rules.ts';
import { labels } from '../../../src/engines/labels.ts';
import { listMountPoints } from '../../../src/storage/image-file/image-mounts.ts';
import { docker, installationOf, ownedNames } from '../../fixtures/server-process.ts';
import { bannerOfSshd } from '../engines/docker-fixture.ts';
import { startInside, type ServerInside } from './in-process-server.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../../..');
const POOL = 'engine=image-file,size=10000';

let inside: ServerInside;
beforeAll(async () => {
  inside = await startInside({
    nodePorts: '32620-32629',
    limits: { stopGraceMs: 1_000 },
    settings: { BERTH_POOL: POOL, BERTH_SHARED_DISK_GB: '1' },
  });
});
afterAll(async () => {
  await inside?.stop();
});

const uninstallWith = (settings: Record<string, string>, ...args: string[]) =>
  run(process.execPath, ['scripts/uninstall.mjs', ...args], {
    cwd: root,
    env: { ...process.env, BERTH_DATA: inside.folder, BERTH_POOL: POOL, ...settings },
  });
const uninstall = (...args: string[]) => uninstallWith({}, ...args);

const rulesOf = async (installation: string): Promise<string[]> => {
  const { stdout } = await run('iptables-save', { maxBuffer: 2 ** 26 });
  return stdout.split('\n').filter((line) => line.includes(chainName(installation)));
};

async function pathsHere(): Promise<string[]> {
  const { stdout } = await run('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE']);
  return [...(await listMountPoints()), ...stdout.split('\n')].filter((one) => one.startsWith(inside.folder));
}

test('removes an installation after its server has stopped, and nothing of another', async () => {
  const imageId = await inside.offerTiny({ 'bin/sshd': bannerOfSshd });
  const id = await inside.launch({ imageId });
  await inside.sees(id, { status: 'Running' });
  const installation = installationOf(inside.folder);
  const foreign = await docker.createNetwork({
    Name: `foreign-${installation.slice(0, 8)}`,
    Labels: { [labels.installation]: 'another' },
  });
  onTestFinished(() => foreign.remove());
  await expect(uninstall('--yes')).rejects.toThrow(/in use by another Berth/);
  await inside.server.stop();
  await expect(uninstallWith({ BERTH_LISTEN: 'x' })).rejects.toMatchObject({
    stderr: expect.stringMatching(/^The configuration is wrong:\n  BERTH_LISTEN: [^\n]*\n$/),
  });
  const away = `unix://${inside.folder}/no-engine.sock`;
  await expect(uninstallWith({ DOCKER_HOST: away }, '--yes')).rejects.toMatchObject({
    stderr: expect.stringMatching(/^The container engine does not answer \([^\n]*\): start it[^\n]*\n$/),
  });
  await expect(uninstall()).rejects.toThrow(/would remove installation .*Add -- --yes/);
  expect(await ownedNames(installation)).toContain(`/berth-${id}`);
  expect(await pathsHere()).not.toEqual([]);
  expect(await rulesOf(installation)).not.toEqual([]);

  await uninstall('--yes');
  expect(await ownedNames(installation)).toEqual([]);
  expect(await rulesOf(installation)).toEqual([]);
  expect(await pathsHere()).toEqual([]);
  expect(existsSync(inside.folder)).toBe(false);
  await expect(foreign.inspect()).resolves.toMatchObject({ Labels: { [labels.installation]: 'another' } });
});

describe('an uninstall with a separate pool', () => {
  const MOUNTED = 'data/m ount/foreign';

  /** A data folder with a space in its path, and a pool that has a file and a mount beside. */
  async function installed() {
    const folder = await mkdtemp(path.join(tmpdir(), 'berth uninstall-'));
    const [data, pool, foreign] = ['data', 'pool', 'foreign'].map((name) => path.join(folder, name)) as [
      string,
      string,
      string,
    ];
    onTestFinished(async () => {
      await run('umount', [path.join(pool, MOUNTED)]).catch(() => {});
      await run('umount', [pool]).catch(() => {});
      await rm(folder, { recursive: true });
    });
    for (const each of [data, pool, foreign]) await mkdir(each);
    await run('mount', ['-t', 'tmpfs', 'none', pool]);
    await writeFile(path.join(pool, '.berth-installation'), 'one\n');
    await writeFile(path.join(pool, 'photo'), '');
    await writeFile(path.join(foreign, 'kept'), '');
    await mkdir(path.join(pool, MOUNTED), { recursive: true });
    await run('mount', ['--bind', foreign, path.join(pool, MOUNTED)]);
    const database = new DatabaseSync(path.join(data, 'berth.db'));
    database.exec(`create table setting (name text, value text); insert into setting values ('installation', 'one')`);
    database.close();
    const remove = (BERTH_DATA: string) =>
      run(process.execPath, ['scripts/uninstall.mjs', '--yes'], {
        cwd: root,
        env: { ...process.env, BERTH_ENGINE: 'simulated', BERTH_DATA, BERTH_POOL: `path=${pool}` },
      });
    return { folder, data, pool, foreign, remove };
  }

  test('refuses a folder that is not its data folder, and removes nothing', async () => {
    const { folder, pool, remove } = await installed();
    const wrong = path.join(folder, 'wrong');
    await mkdir(wrong);
    await writeFile(path.join(wrong, 'thesis'), '');
    await expect(remove(wrong)).rejects.toThrow(/wrong is not the data folder of an installation; set BERTH_DATA/);
    expect(await readdir(wrong)).toEqual(['thesis']);
    expect(await readdir(pool)).toEqual(['.berth-installation', 'data', 'photo']);
  });

  test('leaves files of others in the pool and below mounts, and the mount of the pool', async () => {
    const { data, pool, foreign, remove } = await installed();
    await remove(data);
    expect(await readdir(pool)).toEqual(['photo']);
    expect(await readdir(foreign)).toEqual(['kept']);
    expect(existsSync(data)).toBe(false);
  });

  test('refuses the pool of another installation, and keeps the data folder', async () => {
    const { data, pool, remove } = await installed();
    await writeFile(path.join(pool, '.berth-installation'), 'another\n');
    await expect(remove(data)).rejects.toThrow(/pool .* belongs to another installation/);
    expect(existsSync(data)).toBe(true);
  });
});
