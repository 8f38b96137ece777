/** The notebook end to end: server, container engine, JupyterLab, browser and ssh client. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { InstanceObject } from '../../src/contract/compute/instance.ts';
import { runCell } from '../fixtures/jupyter.ts';
import { launchBrowser } from '../fixtures/browser.ts';
import { firstLaunchRequest, IMAGE_DEADLINE_MS, launchFirst } from '../fixtures/first-launch.ts';
import {
  installationOf,
  login,
  ownedNames,
  startServerProcess,
  statusesOf,
  until,
  type Client,
  type ServerProcess,
} from '../fixtures/server-process.ts';
import { longTest } from '../fixtures/long-test.ts';
import { makeSshKey, type SshKey } from '../fixtures/ssh.ts';

let server: ServerProcess;
let key: SshKey;
let client: Client;
let token: string;
let first: Awaited<ReturnType<typeof firstLaunchRequest>>;

beforeAll(async () => {
  server = await startServerProcess({ nodePorts: '31000-31099' });
  key = await makeSshKey();
  ({ client, token } = await login(server));
  first = await firstLaunchRequest(client, { name: 'e2e' });
}, IMAGE_DEADLINE_MS);

afterAll(async () => {
  await key?.remove();
  await server?.stop();
});

const pager = { currentPage: 1, pageSize: 50 };

const instance = async (id: string): Promise<InstanceObject> => {
  const found = (await client.listInstances({ pager })).instances.find((one) => one.instanceMetadata.instanceId === id);
  if (!found) throw new Error(`${id} is not listed`);
  return found;
};
const statusOf = (one: InstanceObject): string => one.instanceRuntimeInfo.status;
const nodePortOf = (one: InstanceObject, port: number): number =>
  one.instanceSpecInfo.nodePorts.find((each) => each.port === port)?.nodePort ?? 0;

/** Asks the notebook from its page. */
const ASK = "((path) => fetch(JSON.parse(document.getElementById('jupyter-config-data').textContent).baseUrl + path))";

/** Of a page, as the page of a launch compares it. */
const configOf = (page: string): unknown =>
  JSON.parse(
    /<script id="jupyter-config-data"[^>]*>(.*?)<\/script>/.exec(page)?.[1] ?? 'null',
    (name, value: unknown) =>
      name === 'store_id' ? undefined : Array.isArray(value) ? value.map((one) => JSON.stringify(one)).sort() : value,
  );

const perHour = { chargeMode: 'perHour', duration: 1 } as const;

test('a notebook with a volume, ports and ssh survives stop and start, and terminate removes everything', async () => {
  const { imageId, region, instanceTypeId } = first;
  await client.createSshKey({ name: 'e2e', publicKey: key.publicKey });
  const { volume } = await client.createVolume({ name: 'e2e', sizeGB: 1, region, volumeType: 'filesystem' });
  expect(volume).toMatchObject({ status: 'Pending', usageGB: 0 });

  const { instanceId } = await client.launch({
    name: 'e2e',
    imageId,
    instanceTypeId,
    region,
    billing: perHour,
    remoteStorages: [
      { mountPath: '/root/volume', remoteStorageName: 'e2e', remoteStorageId: volume.id, type: 'filesystem' },
    ],
    instanceConfiguration: {
      enableCommonData: false,
      enableDocker: false,
      initScript:
        '#!/bin/bash\necho begun > /tmp/init\nwhile [ ! -e /tmp/go ]; do sleep 0.1; done\necho done\nexit 7\n',
    },
    nodePorts: [8000],
  });
  const running = await until(
    () => instance(instanceId),
    (one) => statusOf(one) === 'Running',
  );
  const statuses = statusesOf(server.folder, instanceId);
  expect(statuses[0]).toBe('Initializing');
  expect(statuses.at(-1)).toBe('Running');
  expect(statuses.every((status) => ['Initializing', 'PullingImage', 'Starting', 'Running'].includes(status))).toBe(
    true,
  );
  expect(running.instanceRuntimeInfo).toMatchObject({ healthy: true, message: 'the init script is running' });
  const sshPort = nodePortOf(running, 22);

  // ssh during the init script, with the same /tmp.
  expect(await key.ssh(sshPort, 'hostname; pwd; cat /tmp/init')).toBe(`${instanceId}-0\n/root\nbegun\n`);
  await key.ssh(
    sshPort,
    'touch /tmp/go; for f in /root/a /root/dataDisk/a /root/sharedDisk/a /root/volume/a; do echo kept > $f; done; sync',
  );
  await until(
    () => instance(instanceId),
    (one) => one.instanceRuntimeInfo.message === 'the init script exited with code 7; last output: done',
  );
  expect(await key.ssh(sshPort, 'cat /var/log/berth/init.log /var/log/berth/init.exit')).toBe('done\n7\n');

  // A kernel through the gateway's WebSocket; Berth's credentials never reach the instance.
  const headers = { authorization: `Bearer ${token}` };
  const notebookUrl = `${server.gatewayUrl}${running.instanceRuntimeInfo.subUrl}`;
  expect(await runCell(notebookUrl, headers, 'print(6 * 7)')).toBe('42\n');

  // A port, by node port and through the gateway; the program echoes the request it gets.
  await key.ssh(
    sshPort,
    `cat > /root/echo.py <<'PY'
import http.server
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (self.path + '\\n' + str(self.headers)).encode()
        self.send_response(200); self.send_header('content-length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(('0.0.0.0', 8000), Echo).serve_forever()
PY
nohup python3 /root/echo.py > /dev/null 2>&1 &`,
  );
  const direct = `http://127.0.0.1:${nodePortOf(running, 8000)}/x`;
  await until(
    () =>
      fetch(direct).then(
        (answer) => answer.ok,
        () => false,
      ),
    Boolean,
  );
  const forwarded = await fetch(`${server.gatewayUrl}/forward/${instanceId}/8000/x?y=1`, {
    headers: { ...headers, cookie: `AccessToken=${token}` },
  });
  const echoed = await forwarded.text();
  expect(echoed).toMatch(/^\/x\?y=1\n/);
  expect(echoed).not.toContain(token);

  // A port that the launch did not name is private to its owner.
  expect((await fetch(`${server.gatewayUrl}/forward/${instanceId}/8888/`)).status).toBe(401);
  expect((await fetch(notebookUrl)).status).toBe(401);

  await client.stop({ instanceId });
  await until(
    () => instance(instanceId),
    (one) => statusOf(one) === 'Stopped',
  );
  await expect(key.ssh(sshPort, 'true')).rejects.toThrow();
  await client.start({ instanceId });
  const again = await until(
    () => instance(instanceId),
    (one) => statusOf(one) === 'Running',
  );
  expect(nodePortOf(again, 22)).toBe(sshPort);
  expect(
    await key.ssh(
      sshPort,
      'cat /root/a /root/dataDisk/a /root/sharedDisk/a /root/volume/a; ls /tmp/go; cat /var/log/berth/init.exit',
    ),
  ).toBe('kept\nkept\nkept\nkept\n/tmp/go\n7\n');

  await expect(client.deleteVolume({ id: volume.id })).rejects.toMatchObject({
    status: 409,
    message: expect.stringContaining(instanceId),
  });
  await client.terminate({ instanceId });
  expect(statusOf(await instance(instanceId))).toBe('Released');
  await expect(client.terminate({ instanceId })).rejects.toMatchObject({
    status: 404,
    message: 'ent: instance not found',
  });
  await until(
    () => instance(instanceId),
    (one) => one.instanceRuntimeInfo.phase === 'Cleaned',
  );
  expect(await ownedNames(installationOf(server.folder))).toEqual([]);

  // The next instance with the volume finds its data.
  const next = await client.launch({
    name: 'next',
    imageId,
    instanceTypeId,
    region,
    billing: perHour,
    remoteStorages: [{ mountPath: '/mnt/v', remoteStorageName: 'e2e', remoteStorageId: volume.id, type: 'filesystem' }],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
    nodePorts: [],
  });
  const second = await until(
    () => instance(next.instanceId),
    (one) => statusOf(one) === 'Running',
  );
  await key.forgetHosts();
  expect(await key.ssh(nodePortOf(second, 22), 'cat /mnt/v/a /root/sharedDisk/a; ls /root/dataDisk')).toBe(
    'kept\nkept\n',
  );
  await client.terminate(next);
  await until(
    async () => await client.deleteVolume({ id: volume.id }).then(() => 'deleted', String),
    (answer) => answer === 'deleted',
  );
  expect((await client.listVolumes({ pager })).volumeList).toEqual([]);
}, 300_000);

longTest(
  "a browser has the scripts of one instance's page for the next one",
  async () => {
    // Copied out of the image at the start.
    await until(
      () => readdir(join(server.folder, 'tools')).catch((): string[] => []),
      (names) => names.includes('bin'),
    );
    const launches = [await launchFirst(client, { name: 'one' }), await launchFirst(client, { name: 'two' })];
    const browser = await launchBrowser();
    try {
      const context = await browser.newContext();
      const fetched: number[] = [];
      for (const { instanceId } of launches) {
        const page = await context.newPage();
        await page.goto((await client.open({ instanceId })).url);
        await page.locator('.jp-LauncherCard[title*="Python 3"]').first().waitFor({ timeout: 60_000 });
        const scripts = await page.evaluate<{ name: string; transferSize: number; decodedBodySize: number }[]>(
          "performance.getEntriesByType('resource').map((one) => one.toJSON()).filter(({ name }) => name.endsWith('.js'))",
        );
        expect(scripts.filter(({ name }) => name.includes('/static/lab/'))).toEqual([]);
        const shared = scripts.filter(({ name }) => name.includes('/.berth/lab/'));
        const sum = (figure: 'transferSize' | 'decodedBodySize') => shared.reduce((all, one) => all + one[figure], 0);
        expect(sum('decodedBodySize')).toBeGreaterThan(5_000_000);
        fetched.push(sum('transferSize'));
      }
      // Compressed the first time, from the browser's cache the second.
      expect(fetched[0]).toBeGreaterThan(1_000_000);
      expect(fetched[0]).toBeLessThan(2_500_000);
      expect(fetched[1]).toBe(0);
    } finally {
      await browser.close();
    }
    for (const { instanceId } of launches) await client.terminate({ instanceId });
  },
  300_000,
);

test('a browser opens JupyterLab by a link of a launch under way, runs cells and loses nothing in a reload; the link works once', async () => {
  // Copied out of the image at the start.
  await until(
    () => readdir(join(server.folder, 'tools')).catch((): string[] => []),
    (names) => names.includes('bin'),
  );
  const browser = await launchBrowser();
  const page = await browser.newPage();
  const { instanceId } = await client.launch(await firstLaunchRequest(client, { name: 'browser' }));
  const { url } = await client.open({ instanceId });
  try {
    const errors: string[] = [];
    page.on('console', (said) => said.type() === 'error' && errors.push(`${said.text()} ${said.location().url}`));
    const answer = await page.goto(url);
    // An instance's page sets a cookie.
    expect(await answer?.headerValue('set-cookie')).toBeNull();
    const ofImage = configOf((await answer?.text()) ?? '');
    expect(new URL(page.url()).pathname).toContain(`/notebook/${instanceId}/`);
    expect(page.url()).not.toContain('key=');
    await page.locator('.jp-LauncherCard[title*="Python 3"]').first().click({ timeout: 60_000 });
    await page.getByText('Python 3 (ipykernel) | Idle').waitFor({ timeout: 60_000 });
    const bar = page.locator('#berth-bar');
    await bar.getByText(/^browser · .*\$[\d.]+ so far, \$[\d.]+ an hour$/).waitFor({ timeout: 60_000 });
    expect(await bar.getByRole('link').getAttribute('href')).toBe(`${server.apiUrl}/instances/${instanceId}`);
    const cell = page.locator('.jp-Notebook .jp-Cell .cm-content').first();
    await cell.click({ timeout: 60_000 });
    await page.keyboard.type('print("sum", 20 + 22)');
    await page.keyboard.press('Shift+Enter');
    await page.locator('.jp-OutputArea-output', { hasText: 'sum 42' }).waitFor({ timeout: 60_000 });
    await expect.poll(() => page.locator('.jp-Launcher').count()).toBe(0);

    const saved = (): Promise<string> =>
      page.evaluate(`${ASK}('api/contents/Untitled.ipynb').then((answer) => answer.text())`);
    await page.keyboard.type('import ipywidgets; ipywidgets.IntSlider(7, description="number")');
    await page.keyboard.press('Shift+Enter');
    await page.locator('.jp-OutputArea-output .widget-slider', { hasText: 'number' }).waitFor({ timeout: 60_000 });
    // Nobody saves; the page does.
    await expect.poll(saved, { timeout: 60_000 }).toContain('IntSlider');
    const ofServer = await page.evaluate<string>(`${ASK}('lab').then((answer) => answer.text())`);
    expect(configOf(ofServer), 'the page needs no reload').toEqual(ofImage);
    await page.reload();
    await page.locator('.jp-OutputArea-output', { hasText: 'sum 42' }).waitFor({ timeout: 60_000 });
    await expect
      .poll(() => page.locator('.jp-Notebook .cm-content').allTextContents())
      .toEqual(['print("sum", 20 + 22)', 'import ipywidgets; ipywidgets.IntSlider(7, description="number")', '']);
    expect(errors).toEqual([]);
    const scripts = await page.evaluate<string[]>('[...document.scripts].map(({ src }) => src)');
    expect(scripts.filter((src) => src.includes('/.berth/lab/'))).not.toEqual([]);

    // The bar saves, stops, and leads to the console.
    await page.locator('.jp-Notebook .cm-content').last().click();
    await page.keyboard.type('# typed just before');
    await page.route(`${server.apiUrl}/**`, (route) => route.fulfill({ body: 'the console' }));
    await bar.getByRole('button', { name: 'Stop' }).click();
    const file = page.waitForRequest((request) => request.method() === 'PUT' && request.url().includes('/contents/'));
    await page.locator('.jp-Dialog').getByRole('button', { name: 'Stop' }).click();
    expect((await file).postData()).toContain('typed just before');
    await page.waitForURL(`${server.apiUrl}/instances/${instanceId}`);
    await until(
      () => instance(instanceId),
      (one) => statusOf(one) === 'Stopped',
    );
  } finally {
    await browser.close();
  }
  const spent = await fetch(url, { redirect: 'manual' });
  expect(spent.status).toBeGreaterThanOrEqual(400);
  expect(spent.headers.getSetCookie()).toEqual([]);
  await client.terminate({ instanceId });
}, 300_000);
