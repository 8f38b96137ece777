/** Acts are done once, for the account that the page shows, and dialogs give the focus back. */
import { expect, test } from 'vitest';
import { firstLaunchRequest, launchFirst } from '../fixtures/first-launch.ts';
import { longTest } from '../fixtures/long-test.ts';
import { PASSWORD, until } from '../fixtures/server-process.ts';
import { leave, seriousFindings, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('32580-32599');
const everything = { pager: { currentPage: 1, pageSize: 50 } };

test('a double click, and another press after a lost answer, launch one instance', async () => {
  const { username, client } = await server.newAccount();
  const { context, page } = await visit(server, username);
  try {
    await page.goto(`${server.server.apiUrl}/launch`);
    // The server acts, and its answer is lost.
    await page.route('**/api/instance/create', async (route) => {
      await route.fetch();
      await route.abort();
    });
    const launch = page.getByRole('button', { name: 'Launch', exact: true });
    await launch.dblclick();
    await page.getByText('The server does not answer').waitFor();
    expect((await client.listInstances(everything)).pager.totalEntries).toBe(1);
    await page.unroute('**/api/instance/create');
    await launch.dblclick();
    await page.waitForURL(/\/(instances|notebook)\/notebook-/);
    expect((await client.listInstances(everything)).pager.totalEntries).toBe(1);
  } finally {
    await leave(context);
  }
});

test('a page reloads when another account logs in elsewhere in the browser', async () => {
  const [first, second] = [await server.newAccount(), await server.newAccount()];
  const { context, page } = await visit(server, first.username);
  try {
    await page.goto(`${server.server.apiUrl}/volumes`);
    await page.getByRole('button', { name: `Account ${first.username}` }).waitFor();
    await context.request.post(`${server.server.apiUrl}/api/user/login`, {
      data: { username: second.username, password: PASSWORD },
    });
    const other = await context.newPage();
    await other.goto(`${server.server.apiUrl}/volumes`);
    for (const tab of [other, page]) await tab.getByRole('button', { name: `Account ${second.username}` }).waitFor();
    expect(await page.getByRole('button', { name: `Account ${first.username}` }).count()).toBe(0);
  } finally {
    await leave(context);
  }
});

test('events of a webhook that are set aside are shown, and sent again one or all', async () => {
  const { username, client } = await server.newAccount();
  const { webhook } = await client.createWebhook({ url: 'https://hooks.example.net/' });
  const { context, page } = await visit(server, username);
  const event = { accountId: 'a', kind: 'volume.created', subjectId: 'volume-1', resending: false, refusals: 5 };
  const refused = { ...event, setAsideAtUnixMs: Date.now(), status: 422, answer: 'no such field' };
  const setAside = [2, 3].map((seq) => ({ ...refused, seq, deliveryId: `msg_${seq}` }));
  const asked: unknown[] = [];
  try {
    await page.route('**/api/webhook/deliveries', (route) =>
      route.fulfill({ json: { deliveries: [], setAside, setAsideCount: 2 } }),
    );
    await page.route('**/api/webhook/resend', async (route) => {
      asked.push(route.request().postDataJSON());
      await route.fulfill({ json: { count: 1 } });
    });
    await page.goto(`${server.server.apiUrl}/access?tab=webhooks&webhook=${webhook.id}`);
    await page.getByText('2 events are set aside').waitFor();
    await page.getByRole('button', { name: 'Send volume.created again' }).last().click();
    await page.getByText('1 event is sent again').waitFor();
    await page.getByRole('button', { name: 'Send all again' }).click();
    await expect.poll(() => asked).toEqual([{ id: webhook.id, deliveryId: 'msg_3' }, { id: webhook.id }]);
  } finally {
    await leave(context);
  }
});

test('a GPU shows its readings and holder, and one in quarantine is returned with a reason, by keyboard', async () => {
  const { admin } = server;
  const catalog = (await admin.catalog()).instanceInfos.flatMap(({ regionInfos }) => regionInfos);
  const type = catalog.flatMap(({ instanceTypeInfos }) => instanceTypeInfos).find(({ gpuNum }) => gpuNum === 1);
  const { instanceTypeId } = type ?? expect.fail('no type with a GPU is offered');
  const { instanceId } = await admin.launch({
    ...(await firstLaunchRequest(admin, { name: 'holds' })),
    instanceTypeId,
  });
  const isSampled = ({ regions }: Awaited<ReturnType<typeof admin.fleet>>): boolean =>
    regions.some(({ gpus }) => gpus.some(({ holder, powerMilliwatts }) => holder && powerMilliwatts !== null));
  await until(() => admin.fleet(), isSampled);
  const { context, page } = await visit(server, 'admin');
  const returned: unknown[] = [];
  try {
    await page.route('**/api/admin/fleet', async (route) => {
      const answer = await (await route.fetch()).json();
      const [sick, other] = answer.regions[0].gpus.filter((gpu: { holder: unknown }) => gpu.holder === null);
      Object.assign(other, { uuid: 'GPU-1', index: 17 });
      Object.assign(sick, {
        driverVersion: '580.159.04',
        cudaVersion: '13.0',
        numaNode: 3,
        links: [{ uuid: 'GPU-1', kind: 'NV18' }],
        quarantine: ['xid 79', 'eccUncorrected'],
        findings: [
          { reason: 'xid 79', evidence: '100', sinceUnixMs: Date.now() - 60_000 },
          { reason: 'eccUncorrected', evidence: '4', sinceUnixMs: Date.now() },
        ],
      });
      await route.fulfill({ json: answer });
    });
    await page.route('**/api/admin/card/return', async (route) => {
      returned.push(route.request().postDataJSON());
      const { regionId, cardId } = route.request().postDataJSON();
      await route.fulfill({ json: { regionId, cardId, reasons: ['xid 79', 'eccUncorrected'] } });
    });
    await page.goto(`${server.server.apiUrl}/operator/fleet`);
    await page.getByRole('button', { name: /held by holds of admin/ }).focus();
    await page.keyboard.press('Enter');
    const panel = page.getByRole('dialog', { name: /^GPU \d+: Simulated GPU/ });
    await panel.getByText(/^\d+ W$/).waitFor();
    await panel.getByText(/^\d+ °C$/).waitFor();
    await panel.getByText(/GB of \d+ GB/).waitFor();
    await page.reload();
    await panel.getByRole('link', { name: 'holds' }).waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    await panel.getByRole('link', { name: 'holds' }).click();
    await page.waitForURL(`**/operator/fleet?tab=instances&q=${instanceId}`);
    await page.goBack();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });

    await page.getByRole('button', { name: /takes no launches/ }).focus();
    await page.keyboard.press('Enter');
    for (const text of ['580.159.04', '13.0', '3', 'NV18: GPU 17'])
      await panel.getByText(text, { exact: true }).waitFor();
    await panel.getByText('The driver reported Xid 79').waitFor();
    await panel.getByText('4 memory errors that ECC did not correct').waitFor();
    const button = panel.getByRole('button', { name: 'Return the card' });
    expect(await button.isDisabled()).toBe(true);
    expect(await seriousFindings(page)).toEqual([]);
    await panel.getByLabel('Reason').focus();
    await page.keyboard.type('was reset');
    await page.keyboard.press('Enter');
    await page.getByText('The card takes launches again').waitFor();
    await panel.waitFor({ state: 'detached' });
    expect(returned).toEqual([{ regionId: expect.any(String), cardId: expect.any(String), reason: 'was reset' }]);
    expect(await page.evaluate('document.activeElement.textContent')).toMatch(/takes no launches/);
  } finally {
    await leave(context);
    await admin.terminate({ instanceId });
  }
});

longTest('the focus is back on what opened a dialog when it closes', async () => {
  const { username } = await server.newAccount();
  const { context, page } = await visit(server, username);
  try {
    await page.goto(`${server.server.apiUrl}/volumes`);
    const opener = page.getByRole('button', { name: 'New volume' }).first();
    await opener.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await page.evaluate('document.activeElement.closest("button")?.innerText')).toContain('New volume');
  } finally {
    await leave(context);
  }
});

test('ports on which programs listen are offered, those on loopback by a click that says so', async () => {
  const { username, client } = await server.newAccount();
  const initScript = '# berth-sim: listen 7000 http\n# berth-sim: listen 7001 http on loopback';
  const { instanceId } = await launchFirst(client, { name: 'app', initScript, nodePorts: [] });
  const listening = {
    instanceId,
    ports: [
      { port: 7000, onLoopback: false },
      { port: 7001, onLoopback: true },
    ],
  };
  expect(await client.listListeningPorts({ instanceId })).toEqual(listening);
  const { context, page } = await visit(server, username);
  const accessOf = async (port: number) =>
    (await client.listPorts({ instanceId })).ports.find((one) => one.port === port)?.access;
  try {
    await page.goto(`${server.server.apiUrl}/instances/${instanceId}?tab=ports`);
    const opened = context.waitForEvent('page');
    await page.getByRole('button', { name: 'Open port 7000' }).click();
    await (await opened).getByText('"simulated":true').waitFor();
    const onLoopback = page.getByRole('group', { name: 'Programs on port 7001' });
    await onLoopback.getByText('on 127.0.0.1 or ::1 only').waitFor();
    expect(await accessOf(7001)).toBeUndefined();
    await onLoopback.getByRole('button', { name: 'Open port 7001 to me alone' }).click();
    await expect.poll(() => accessOf(7001)).toBe('loopback');
    await onLoopback.waitFor({ state: 'detached' });
    // The gateway's page leads here.
    await page.goto(`${server.server.apiUrl}/instances/${instanceId}?tab=ports&loopback=7002`);
    await page.getByText('A program listens on port 7002 on loopback only').waitFor();
    await page.getByRole('button', { name: 'Open port 7002 to me alone' }).click();
    await expect.poll(() => accessOf(7002)).toBe('loopback');
    expect(await seriousFindings(page)).toEqual([]);
  } finally {
    await leave(context);
  }
});

longTest('a stopped instance starts when its owner opens the notebook, by the setting of the console', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'asleep', initScript: '', nodePorts: [] });
  const { url } = await client.open({ instanceId });
  const status = async () => (await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.status;
  await client.stop({ instanceId });
  await until(status, (now) => now === 'Stopped');
  const { context, page } = await visit(server, username);
  const notebook = `${server.server.gatewayUrl}/notebook/${instanceId}/`;
  try {
    await page.goto(url);
    await page.getByText('The instance is not running').waitFor();
    await page.goto(`${server.server.apiUrl}/instances/${instanceId}?tab=settings`);
    const card = page.getByRole('region', { name: 'Start on request' });
    await card.getByLabel('Started by requests of').selectOption('owner');
    await card.getByRole('button', { name: 'Save' }).click();
    await expect.poll(async () => (await client.wake({ instanceId })).by).toBe('owner');
    await page.goto(notebook);
    await page.getByText(/It costs \$[\d.]+ an hour while it runs/).waitFor();
    await page.getByText('"simulated":true').waitFor();
    expect(await status()).toBe('Running');
  } finally {
    await leave(context);
  }
});
