/** Ten tasks of users and operators, done by a person whose clicks and keystrokes are counted. */
import { afterAll, expect, test } from 'vitest';
import { firstLaunchRequest, launchFirst, running } from '../fixtures/first-launch.ts';
import { PASSWORD, until } from '../fixtures/server-process.ts';
import { leave, useConsoleServer, visit } from './console-server.ts';
import { Person } from './person.ts';

const server = useConsoleServer('32460-32479');
const report: string[] = [];
afterAll(() => process.stdout.write(`${report.join('\n')}\n`));

/** Opens the console at a view, as an account, and reports what the task took. */
async function perform(
  task: string,
  { as = 'admin', at = '/instances' }: { as?: string; at?: string },
  act: (person: Person) => Promise<void>,
): Promise<Person> {
  const { context, page } = await visit(server, as);
  const person = new Person(page);
  try {
    await page.goto(server.server.apiUrl + at);
    await act(person);
    report.push(person.spent(task));
    return person;
  } finally {
    await leave(context);
  }
}

const firstRegion = async (): Promise<string> =>
  (await server.admin.listRegions()).regions[0]?.regionId ?? expect.fail('no region');

test('a first notebook opens by itself, three clicks after the login', async () => {
  const { username } = await server.newAccount();
  const person = await perform('first notebook', { as: username }, async (person) => {
    await person.click(person.link('Launch').first());
    await person.click(person.button('Launch'));
    await person.page.waitForURL(/\/notebook\/notebook-/);
    expect(person.page.url()).toMatch(/\/notebook\/notebook-/);
  });
  expect(person.clicks).toBeLessThanOrEqual(3);
});

test('a notebook whose session expired opens again at exactly its address, after a login', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'again', initScript: '', nodePorts: [] });
  const { browser, server: program } = server;
  const context = await browser.newContext();
  try {
    const person = new Person(await context.newPage());
    const asked = `${program.gatewayUrl}/notebook/${instanceId}/lab/tree/deep/file.ipynb?reset`;
    await person.page.goto(asked);
    await person.click(person.link('Log in'));
    await person.type(person.page.getByLabel('Name or email'), username);
    await person.type(person.page.getByLabel('Password'), PASSWORD);
    await person.press('Enter');
    await person.page.waitForURL(asked);
    report.push(person.spent('notebook again after the session expired'));
    expect(person.clicks).toBeLessThanOrEqual(1);
  } finally {
    await leave(context);
  }
});

test('a new volume is created and mounted within the launch', async () => {
  const { username, client } = await server.newAccount();
  const person = await perform('mount a new volume', { as: username, at: '/launch' }, async (person) => {
    await person.click(person.button('New volume'));
    await person.click(person.button('Create'));
    await person.page.getByLabel('Path of data in the instance').waitFor();
    await person.click(person.button('Launch'));
    await person.page.waitForURL(/\/instances\/notebook-/);
  });
  expect(person.clicks).toBeLessThanOrEqual(3);
  const { instances } = await client.listInstances({ pager: { currentPage: 1, pageSize: 1 } });
  expect(instances[0]?.instanceSpecInfo.remoteStorages).toMatchObject([
    { remoteStorageName: 'data', mountPath: '/root/data' },
  ]);
});

test('a port is shared by a link for a day', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'app', initScript: '', nodePorts: [8000] });
  const at = `/instances/${instanceId}?tab=ports`;
  const person = await perform('expose a port and share it for a day', { as: username, at }, async (person) => {
    await person.click(person.button(/share/i).first());
    const dialog = person.page.getByRole('dialog');
    await dialog.waitFor();
    await person.click(dialog.locator('button[type=submit]'));
    await dialog
      .getByText(/https?:\/\//)
      .first()
      .waitFor();
  });
  expect(person.clicks).toBeLessThanOrEqual(3);
  const { shares } = await client.listShares({ instanceId });
  expect(shares).toHaveLength(1);
  expect((shares[0]?.expiresAtUnixMs ?? 0) - Date.now()).toBeGreaterThan(23 * 3_600_000);
});

test('the reason of a waiting launch is on its page', async () => {
  const { username, client } = await server.newAccount();
  const { admin } = server;
  const request = await firstLaunchRequest(admin, { name: 'all-gpus' });
  const largest = async () => {
    const regions = (await admin.catalog()).instanceInfos.flatMap(({ regionInfos }) => regionInfos);
    const types = regions.flatMap(({ instanceTypeInfos }) => instanceTypeInfos);
    return types.toSorted((one, other) => other.gpuNum - one.gpuNum)[0] ?? expect.fail('no type is offered');
  };
  const { instanceTypeId } = await largest();
  const holders: { instanceId: string }[] = [];
  while ((await largest()).stockStatus === 'InStock') {
    const holder = await admin.launch({ ...request, instanceTypeId });
    await running(admin, holder.instanceId);
    holders.push(holder);
  }
  const waiting = await client.launch({ ...request, name: 'patient', instanceTypeId }, { waitForCapacity: true });
  const person = await perform('find why a launch waits', { as: username }, async (person) => {
    await person.click(person.link('patient'));
    await person.page.getByText(/Waiting for a free place/).waitFor();
    await person.page.getByText(/too little free capacity/).waitFor();
  });
  expect(person.clicks).toBe(1);
  await client.terminate({ instanceId: waiting.instanceId });
  for (const holder of holders) await admin.terminate(holder);
});

test('an instance is stopped before the money ends', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'dear', initScript: '', nodePorts: [] });
  const person = await perform('stop before the money ends', { as: username }, async (person) => {
    await person.click(person.button('More actions').first());
    await person.click(person.page.getByRole('menuitem', { name: 'Stop' }));
    await person.page.getByRole('cell').getByText('Stopped').waitFor();
  });
  expect(person.clicks).toBeLessThanOrEqual(2);
  expect((await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.status).toBe('Stopped');
});

test('a snapshot is restored to a new volume', async () => {
  const { username, client } = await server.newAccount();
  const region = await firstRegion();
  const { volume } = await client.createVolume({ name: 'work', sizeGB: 1, region, volumeType: 'filesystem' });
  await until(
    () => client.getVolume({ id: volume.id }),
    ({ volume: { status } }) => status === 'Bound',
  );
  const { snapshot } = await client.createSnapshot({ volumeId: volume.id, name: 'yesterday' });
  const list = { pager: { currentPage: 1, pageSize: 10 } };
  await until(
    () => client.listSnapshots(list),
    ({ snapshotList }) => snapshotList.some(({ id, status }) => id === snapshot.id && status === 'Ready'),
  );
  const person = await perform("restore yesterday's snapshot", { as: username, at: '/volumes' }, async (person) => {
    await person.click(person.link('work'));
    await person.click(person.page.getByRole('tab', { name: 'Snapshots' }));
    await person.click(person.button('Restore yesterday'));
    await person.click(person.page.getByRole('dialog').locator('button[type=submit]'));
    await until(
      () => client.listVolumes(list),
      ({ volumeList }) => volumeList.length === 2,
    );
  });
  expect(person.clicks).toBeLessThanOrEqual(4);
});

test('the dearest resource of the month is the first line of the bill', async () => {
  const { username, client } = await server.newAccount();
  await launchFirst(client, { name: 'expensive', initScript: '', nodePorts: [] });
  const person = await perform('find what cost most this month', { as: username }, async (person) => {
    await person.click(person.link('Billing'));
    await person.page.getByRole('heading', { name: 'What cost most' }).waitFor();
    await person.page.getByRole('row').filter({ hasText: 'expensive' }).first().waitFor();
  });
  expect(person.clicks).toBe(1);
});

test('a price is raised from tomorrow, after a preview', async () => {
  const pager = { currentPage: 1, pageSize: 100 };
  const person = await perform('raise a price from tomorrow', {}, async (person) => {
    await person.click(person.link('Catalog'));
    await person.click(person.page.getByRole('button', { name: 'Price of cpu.1', exact: true }));
    const dialog = person.page.getByRole('dialog');
    await person.type(dialog.getByLabel(/hour/i).first(), '0.05');
    await dialog.getByText('What it changes').waitFor();
    await person.click(dialog.locator('button[type=submit]'));
    await until(
      () => server.admin.listPrices({ pager }),
      ({ changes }) => changes.some(({ scheduled, prices }) => scheduled && prices?.perHour === 0.05),
    );
  });
  expect(person.clicks).toBeLessThanOrEqual(4);
});

test('the account that fills the disk is found and its instances are stopped', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'filler', initScript: '', nodePorts: [] });
  const person = await perform('find and stop the account that fills the disk', {}, async (person) => {
    await person.click(person.link('Accounts'));
    await person.click(person.page.getByText('By disk use', { exact: true }));
    await person.click(person.button(`Stop the instances of ${username}`));
    const dialog = person.page.getByRole('dialog');
    await person.type(dialog.getByRole('textbox').first(), 'fills the disk');
    await person.click(dialog.locator('button[type=submit]'));
    await until(
      () => client.getInstance({ instanceId }),
      ({ instance }) => instance.instanceRuntimeInfo.status === 'Stopped',
    );
  });
  expect(person.clicks).toBeLessThanOrEqual(5);
});
