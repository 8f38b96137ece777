/** `npm run uninstall` leaves nothing of an installation, and everything of others. Needs root. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
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

const uninstall = (...args: string[]) =>
  run(process.execPath, ['scripts/uninstall.mjs', ...args], {
    cwd: root,
    env: { ...process.env, BERTH_DATA: inside.folder, BERTH_POOL: POOL },
  });

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
