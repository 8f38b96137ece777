/** A notebook in a cluster: browser, ssh, terminal, figures, volumes, start and end. */
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import { launchBrowser } from '../../fixtures/browser.ts';
import { nodePortOf } from '../../fixtures/first-launch.ts';
import { until } from '../../fixtures/server-process.ts';
import { startClusterServer, type ClusterServer } from './cluster-server.ts';

/** The host's engine builds the image where it is missing. */
const IMAGE_DEADLINE_MS = 600_000;
const pager = { currentPage: 1, pageSize: 50 };

let scene: ClusterServer;
let untouched: string[];
beforeAll(async () => {
  const addons = ['storage', 'networkPolicy', 'dns', 'metrics'] as const;
  scene = await startClusterServer({ image: 'notebook', addons });
  untouched = await scene.objects();
}, IMAGE_DEADLINE_MS);
afterAll(() => scene?.stop());

const ssh = (instance: InstanceObject, command: string): Promise<string> => {
  const { address, nodePort } = nodePortOf(instance, 22);
  return scene.key.ssh(nodePort, command, address);
};

async function runsCell(url: string): Promise<void> {
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(url);
    await page.locator('.jp-LauncherCard[title*="Python 3"]').first().click({ timeout: 60_000 });
    await page.getByText('Python 3 (ipykernel) | Idle').waitFor({ timeout: 60_000 });
    const cell = page.locator('.jp-Notebook .jp-Cell .cm-content').first();
    await cell.click({ timeout: 60_000 });
    await page.keyboard.type('print("sum", 20 + 22)');
    await page.keyboard.press('Shift+Enter');
    await page.locator('.jp-OutputArea-output', { hasText: 'sum 42' }).waitFor({ timeout: 60_000 });
  } finally {
    await browser.close();
  }
}

test('a notebook runs cells in a browser, takes ssh, shows its figures, and leaves nothing', async () => {
  const { admin: client, region } = scene;
  const { volume } = await client.createVolume({ name: 'kept', sizeGB: 1, region, volumeType: 'filesystem' });
  const mount = { mountPath: '/root/kept', remoteStorageName: 'kept', remoteStorageId: volume.id, type: 'filesystem' };
  const instanceId = await scene.launch(client, {
    remoteStorages: [mount],
    nodePorts: [8000],
    environment: { GREETING: 'good morning' },
    initScript: '#!/bin/bash\necho "$GREETING" >/root/greeting\nexit 3\n',
  });
  const running = await scene.reaches(client, instanceId, 'Running');
  expect(running.instanceRuntimeInfo).toMatchObject({ healthy: true, diagnosisReason: '' });

  // ssh by the node port, with the environment and a host key that outlives the root disk.
  expect(await ssh(running, 'hostname; pwd; echo "$GREETING"')).toBe(`${instanceId}-0\n/root\ngood morning\n`);
  await runsCell((await client.open({ instanceId })).url);

  const exec = await client.exec({ instanceId, command: ['sh', '-c', 'cat; echo err >&2; exit 5'], stdin: 'in' });
  expect(exec).toMatchObject({ exitCode: 5, stdout: 'in', stderr: 'err\n' });
  const terminal = await client.openTerminal({ instanceId });
  const shown = text(terminal.shown);
  await terminal.write(new TextEncoder().encode('echo $((6 * 7)) on $(hostname); exit\n'));
  await terminal.ended;
  expect(await shown).toContain(`42 on ${instanceId}-0`);

  const initMessage = 'the init script exited with code 3';
  const message = (one: { instance: InstanceObject }): string => one.instance.instanceRuntimeInfo.message;
  await until(
    () => client.getInstance({ instanceId }),
    (one) => message(one).startsWith(initMessage),
  );
  const { lines } = await client.logs({ instanceId, source: 'console' });
  expect(lines.map((line) => line.text)).toEqual(
    expect.arrayContaining(['berth: services ssh notebook', expect.stringMatching(/^berth: init exit 3/)]),
  );
  const { now } = await until(
    () => client.metrics({ instanceId }),
    (figures) => (figures.now?.memoryBytes ?? 0) > 0,
  );
  expect(now?.memoryBytes).toBeGreaterThan(20e6);

  await ssh(running, 'for folder in /root /root/dataDisk /root/kept; do echo here >$folder/mark; done; sync');
  await client.stop({ instanceId });
  await scene.reaches(client, instanceId, 'Stopped');
  await expect(ssh(running, 'true')).rejects.toThrow();
  await client.start({ instanceId });
  const again = await scene.reaches(client, instanceId, 'Running');
  expect(nodePortOf(again, 22)).toEqual(nodePortOf(running, 22));
  expect(await ssh(again, 'cd /; ls root/mark root/dataDisk/mark root/kept/mark 2>&1; true')).toBe(
    "ls: cannot access 'root/mark': No such file or directory\nroot/dataDisk/mark\nroot/kept/mark\n",
  );
  await client.restart({ instanceId });
  const restarted = await scene.reaches(client, instanceId, 'Running');
  await runsCell((await client.open({ instanceId })).url);
  expect(await ssh(restarted, 'cat /root/kept/mark')).toBe('here\n');

  await expect(client.deleteVolume({ id: volume.id })).rejects.toThrow(instanceId);
  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
  await client.deleteVolume({ id: volume.id });
  await until(scene.objects, (left) => left.join() === untouched.join());
  const { periods } = await client.listUsagePeriods({ pager });
  expect(periods.filter(({ untilUnixMs }) => untilUnixMs === null)).toEqual([]);
}, 300_000);

test('a volume grows while it is mounted, has a snapshot and a copy, and serves its files', async () => {
  const { admin: client, region } = scene;
  const { volume } = await client.createVolume({ name: 'data', sizeGB: 1, region, volumeType: 'filesystem' });
  const isBound = async (id: string): Promise<void> =>
    void (await until(
      () => client.getVolume({ id }),
      (one) => one.volume.status === 'Bound',
    ));
  await isBound(volume.id);
  await client.uploadFile(volume.id, 'note', 'first');
  const mount = { mountPath: '/root/data', remoteStorageName: 'data', remoteStorageId: volume.id, type: 'filesystem' };
  const instanceId = await scene.launch(client, { remoteStorages: [mount] });
  const running = await scene.reaches(client, instanceId, 'Running');
  const sizeMiB = async (): Promise<number> =>
    Number((await ssh(running, 'df -m --output=size /root/data | tail -n 1')).trim());
  expect(await sizeMiB()).toBeLessThan(1_100);
  await client.expandVolume({ id: volume.id, sizeGB: 2 });
  await until(sizeMiB, (size) => size > 1_800);
  expect(await ssh(running, 'cat /root/data/note; sync')).toBe('first');

  const { snapshot } = await client.createSnapshot({ volumeId: volume.id, name: 'before' });
  await until(
    () => client.listSnapshots({ pager }),
    ({ snapshotList }) => snapshotList.some(({ id, status }) => id === snapshot.id && status === 'Ready'),
  );
  await client.uploadFile(volume.id, 'note', 'second');
  expect(await ssh(running, 'cat /root/data/note')).toBe('second');
  const copy = await client.copyVolume({ id: volume.id, name: 'copy' });
  const restored = await client.restoreSnapshot({ id: snapshot.id, name: 'restored' });
  await Promise.all([isBound(copy.volume.id), isBound(restored.volume.id)]);
  const note = async (id: string): Promise<string> => (await client.downloadFile(id, 'note')).text();
  expect(await note(copy.volume.id)).toBe('second');
  expect(await note(restored.volume.id)).toBe('first');

  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
  await client.deleteSnapshot({ id: snapshot.id });
  for (const { id } of [volume, copy.volume, restored.volume]) await client.deleteVolume({ id });
  await until(scene.objects, (left) => left.join() === untouched.join());
}, 300_000);
