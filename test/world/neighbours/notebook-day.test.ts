/**
 * A day in a notebook of the default image, in a real browser, on an engine of the test's own:
 * closed tabs, much output, killed kernels and servers, an upgrade, a full disk, restarts of Berth
 * and of the engine. Nothing of it is lost, and each end is reported.
 */
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { instanceId as instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { shell } from '../../docker/e2e/container-shell.ts';
import { startOwnEngine, type OwnEngine } from '../../docker/e2e/test-engine.ts';
import { launchBrowser, networkSettled } from '../../fixtures/browser.ts';
import { copyDefaultImage } from '../../fixtures/default-images.ts';
import { firstLaunchRequest, IMAGE_DEADLINE_MS, running } from '../../fixtures/first-launch.ts';
import {
  closeFailedSaves,
  emptyNotebook,
  failedSave,
  isIdle,
  openPatientPage,
  outputOf,
  PAGE_MS,
  printing,
  run,
  save,
} from '../../fixtures/notebook-page.ts';
import {
  login,
  startServerProcess,
  statusesOf,
  until,
  type Client,
  type ServerProcess,
} from '../../fixtures/server-process.ts';
import { packageIndexSettings } from './package-index.ts';

const DAY_MS = 60 * 60_000;
const LINES = 100_000;
const WORK = '/root/day';

let engine: OwnEngine;
let server: ServerProcess;
let client: Client;
let browser: Browser;
let instanceId: string;
let proxy: http.Server;

beforeAll(async () => {
  browser = await launchBrowser('--disable-http2');
  engine = await startOwnEngine();
  await copyDefaultImage(engine.docker, 'notebook');
  const { IPAM } = await engine.docker.getNetwork('bridge').inspect();
  const BERTH_INSTANCE_PROXY = await startProxy(IPAM?.Config?.[0]?.Gateway ?? '');
  server = await startServerProcess({
    nodePorts: '30820-30829',
    settings: {
      ...packageIndexSettings(),
      BERTH_INSTANCE_PROXY,
      DOCKER_HOST: engine.dockerHost,
      BERTH_POOL: 'engine=image-file,size=200,overcommit=100',
    },
  });
  ({ client } = await login(server));
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await browser?.close();
  await server?.stop();
  proxy?.close();
  proxy?.closeAllConnections();
  await engine?.stop();
});

/** Instances of the test's engine reach this host alone. */
async function startProxy(host: string): Promise<string> {
  proxy = http.createServer();
  proxy.on('connect', (request, socket) => {
    const to = new URL(`tcp://${request.url}`);
    const onward = net.connect(Number(to.port), to.hostname, () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(onward).pipe(socket);
    });
    socket.on('error', () => onward.destroy());
    onward.on('error', () => socket.destroy());
  });
  await once(proxy.listen(0, host), 'listening');
  return `http://${host}:${(proxy.address() as AddressInfo).port}`;
}

/** Past Berth, which may be away. */
const inside = (command: string): Promise<string> => shell(instanceId, command, engine.docker);

/** Opens the notebook in a browser that has no page of it. */
async function openAgain(): Promise<Page> {
  await networkSettled();
  const page = await openPatientPage(browser);
  await page.goto((await client.open({ instanceId })).url);
  await page.goto(`${server.gatewayUrl}/notebook/${instanceId}/lab/tree/day/Untitled.ipynb`);
  await isIdle(page);
  return page;
}

/** Source and end of the output of each cell on the disk. */
const CELLS = `
import json
cells = json.load(open("${WORK}/Untitled.ipynb"))["cells"]
texts = lambda cell: [text for output in cell.get("outputs", []) for text in output.get("text", [])]
print(json.dumps([["".join(cell["source"]), "".join(texts(cell))[-100:]] for cell in cells]))`;
const onDisk = async (): Promise<[string, string][]> => JSON.parse(await inside(`python3 -c '${CELLS}'`));

const shows = (page: Page, cell: number, text: string): Promise<void> =>
  outputOf(page, cell).getByText(text).last().waitFor({ timeout: PAGE_MS });

const dialog = (page: Page, title: string) => page.locator('.jp-Dialog', { hasText: title });

async function write(page: Page, cell: number, text: string): Promise<void> {
  await page.locator('.jp-Notebook .jp-CodeCell').nth(cell).locator('.cm-content').click({ timeout: PAGE_MS });
  await page.keyboard.press('End');
  await page.keyboard.insertText(text);
}

/** Lets the cell that waits print, and waits for its end. */
async function print(): Promise<void> {
  await inside('touch /tmp/go; while [ ! -e /tmp/ended ]; do sleep 0.1; done; rm /tmp/go /tmp/ended');
}

const startedAt = async (): Promise<string> =>
  (await engine.docker.getContainer(containerName(instanceIdOf(instanceId))).inspect()).State.StartedAt;

async function launchWithVolume(): Promise<void> {
  const request = await firstLaunchRequest(client, { name: 'day' });
  const { region } = request;
  const { volume } = await client.createVolume({ name: 'work', sizeGB: 1, region, volumeType: 'filesystem' });
  const mount = { mountPath: WORK, remoteStorageName: 'work', remoteStorageId: volume.id, type: 'filesystem' };
  ({ instanceId } = await client.launch({ ...request, remoteStorages: [mount] }));
  await running(client, instanceId);
  await inside(`echo '${JSON.stringify(emptyNotebook)}' >${WORK}/Untitled.ipynb`);
}

test(
  'a day in a notebook loses nothing, and tells what ended',
  async () => {
    await launchWithVolume();
    let page = await openAgain();
    await run(page, 0, 'print("morning", 40 + 2)');
    await shows(page, 0, 'morning 42');

    // Berth is restarted, and every connection of the page lost with it.
    await run(page, 1, printing(3));
    await shows(page, 1, 'begun');
    const leaveFailedSaves = await closeFailedSaves(page);
    await server.kill('SIGKILL');
    await print();
    await server.start();
    await shows(page, 1, '2 xxx');
    await isIdle(page);
    await leaveFailedSaves();

    // The tab is closed, and comes back after 100 MB of output.
    await run(page, 2, printing(LINES));
    await shows(page, 2, 'begun');
    expect(await save(page)).toBe(200);
    await page.close();
    await print();
    page = await openAgain();
    await shows(page, 2, `${LINES - 1} xxx`);
    await shows(page, 2, 'more than is kept');

    // The kernel is killed for memory.
    await run(page, 3, 'hog = [b"x" * 10**8 for _ in range(10_000)]');
    await dialog(page, 'Kernel Restarting').locator('.jp-mod-accept').click({ timeout: PAGE_MS });
    await isIdle(page);
    const message = async (): Promise<string> =>
      (await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.message;
    await expect.poll(message, { timeout: PAGE_MS }).toMatch(/^a program was killed at .* memory of .* was full$/);

    // JupyterLab is upgraded below the page, which goes on.
    const command = ['sh', '-c', 'pip install -q "jupyterlab<4.6" 2>&1 && pip install -q -U jupyterlab 2>&1'];
    const upgraded = await client.exec({ instanceId, command, timeoutSeconds: 600 });
    expect(upgraded.exitCode, upgraded.stdout).toBe(0);
    await run(page, 4, 'print("after", 6 * 7)');
    await shows(page, 4, 'after 42');
    expect(await save(page)).toBe(200);

    // The disk is full: the page says so, and the notebook on the disk is whole.
    const before = await onDisk();
    await inside(`head -c 2G /dev/zero >${WORK}/filling 2>/dev/null || true`);
    await write(page, 5, 'full = "typed while the disk was full"');
    expect(await save(page)).toBe(500);
    await failedSave(page).waitFor({ timeout: PAGE_MS });
    expect(await onDisk()).toEqual(before);
    await inside(`rm ${WORK}/filling`);
    await closeFailedSaves(page);
    await write(page, 5, '; print(full)');
    // A second save beside that of the page itself would ask whether the file has changed.
    await until(onDisk, (cells) => cells[5]?.[0].includes('print(full)') === true, PAGE_MS);

    // The engine is restarted, and with it the instance: what is typed meanwhile is saved.
    const began = await startedAt();
    await engine.kill('SIGTERM');
    await write(page, 5, '; "typed while the engine was away"');
    await engine.start();
    await until(startedAt, (now) => now !== began, PAGE_MS);
    await running(client, instanceId);
    await until(onDisk, (cells) => cells[5]?.[0].includes('engine was away') === true, PAGE_MS);
    await page.close();

    page = await openAgain();
    await run(page, 5, '');
    await shows(page, 5, 'typed while the disk was full');
    await page.locator('#berth-bar').getByText(/^day/).waitFor({ timeout: PAGE_MS });
    expect(await save(page)).toBe(200);
    const evening = await onDisk();
    expect(evening.slice(0, 5)).toEqual(before.slice(0, 5));
    expect(evening.map(([, output]) => output.trim().slice(-20))).toEqual([
      'morning 42',
      'x'.repeat(20),
      'x'.repeat(20),
      '',
      'after 42',
      'while the disk was full'.slice(-20),
      '',
    ]);
    expect(statusesOf(server.folder, instanceId).filter((status) => status.includes('Failed'))).toEqual([]);
    await client.terminate({ instanceId });
  },
  DAY_MS,
);
