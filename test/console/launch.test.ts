/** The launch page: what is chosen, kept and gone. */
import { expect, test } from 'vitest';
import { firstLaunchRequest } from '../fixtures/first-launch.ts';
import { longTest } from '../fixtures/long-test.ts';
import { PASSWORD } from '../fixtures/server-process.ts';
import { leave, seriousFindings, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('32740-32759');

longTest('a name is cleared, and a volume and an instance that are gone are reported', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await client.launch(await firstLaunchRequest(client, { name: 'earlier' }));
  const { context, page } = await visit(server, username);
  const launch = page.getByRole('button', { name: 'Launch', exact: true });
  try {
    const mounts = JSON.stringify([{ id: 'gone', path: '/root/data' }]);
    await page.goto(`${server.server.apiUrl}/launch?like=none&mounts=${encodeURIComponent(mounts)}`);
    await page.getByText('There is no instance none').waitFor();
    await page.getByText('No such volume').waitFor();
    await expect.poll(() => launch.isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Do not mount gone' }).click();
    await expect.poll(() => launch.isEnabled()).toBe(true);

    const name = page.getByLabel('Name', { exact: true });
    await name.fill('');
    await expect.poll(() => launch.isDisabled()).toBe(true);
    await name.pressSequentially('my lab');
    expect(await name.inputValue()).toBe('my lab');

    await page.goto(`${server.server.apiUrl}/launch?like=${instanceId}`);
    await page.getByText('variables and labels of earlier are not copied').waitFor();
  } finally {
    await leave(context);
  }
});

test('a script that is not sent yet stays over a reload and a login, and is dropped with the page', async () => {
  const { username } = await server.newAccount();
  const { context, page } = await visit(server, username);
  const script = page.getByLabel('At the first start');
  try {
    await page.goto(`${server.server.apiUrl}/launch?name=lab`);
    await page.getByRole('button', { name: 'Scripts' }).click();
    await script.fill('pip install torch');
    await page.reload();
    await expect.poll(() => script.inputValue()).toBe('pip install torch');
    await context.clearCookies();
    await page.reload();
    await page.getByLabel('Name or email').fill(username);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/launch?name=lab');
    await expect.poll(() => script.inputValue()).toBe('pip install torch');
    await page.getByRole('link', { name: 'Volumes' }).first().click();
    await page.getByRole('heading', { name: 'Volumes' }).waitFor();
    await page.goto(`${server.server.apiUrl}/launch?name=lab`);
    await page.getByRole('button', { name: 'Scripts' }).click();
    expect(await script.inputValue()).toBe('');
  } finally {
    await leave(context);
  }
});

test('a template is replaced, chosen, loaded again and deleted', async () => {
  const { username, client } = await server.newAccount();
  const request = await firstLaunchRequest(client, { name: 'from-template', initScript: 'pip install torch' });
  await client.setTemplate({ name: 'lab', launch: { ...request, environment: { LEVEL: '3' } } });
  const { context, page } = await visit(server, username);
  const menu = page.getByRole('button', { name: 'Templates' });
  const script = page.getByLabel('At the first start');
  try {
    await page.goto(`${server.server.apiUrl}/launch`);
    await menu.click();
    await page.getByRole('menuitem', { name: 'lab', exact: true }).click();
    await page.waitForURL('**template=lab*');
    await page.reload();
    await expect.poll(() => script.inputValue()).toBe('pip install torch');
    await expect.poll(() => page.getByRole('textbox', { name: 'Environment variables' }).inputValue()).toBe('LEVEL=3');

    await menu.click();
    await page.getByLabel('Name of a template').fill('lab');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The template lab is replaced').waitFor();
    await page.getByRole('button', { name: 'Delete lab' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete the template lab?' });
    await dialog.waitFor();
    expect((await client.listTemplates()).templates).toHaveLength(1);
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('The template lab is deleted').waitFor();
    expect((await client.listTemplates()).templates).toEqual([]);
    expect(new URL(page.url()).searchParams.has('template')).toBe(false);
    expect(await script.inputValue()).toBe('pip install torch');
  } finally {
    await leave(context);
  }
});

test("the image's own command is offered with what the image declares, launched, and launched again", async () => {
  const { username, client } = await server.newAccount();
  const { imageId } = await client.createImage({ name: 'models', ref: 'quay.io/team/models:1' });
  const declared = { entrypoint: ['/serve'], command: ['--all'], user: '1000', workingDir: '/srv', ports: [8000] };
  const contained = { volumes: ['/data'], healthCheck: ['true'], shell: true, sshd: false, jupyter: null };
  const { context, page } = await visit(server, username);
  const option = page.getByRole('switch', { name: "Run the image's own command" });
  try {
    await page.route('**/image/list', async (route) => {
      const answer: { images: object[] } = await (await route.fetch()).json();
      const [images, details] = [answer.images, { ...declared, ...contained }];
      await route.fulfill({ json: { ...answer, images: images.map((image) => ({ ...image, details })) } });
    });
    await page.goto(`${server.server.apiUrl}/launch?imageId=${imageId}`);
    const said =
      'runs /serve --all · user 1000 · folder /srv · ports 8000 · volumes /data · has a health check · no sshd';
    await page.getByText(said).waitFor();
    await option.click({ force: true });
    await page.getByRole('button', { name: 'Scripts' }).click();
    expect(await page.getByLabel('At every start').isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Ports' }).click();
    await page
      .getByRole('combobox', { name: 'Ports' })
      .or(page.getByRole('textbox', { name: 'Ports' }))
      .click();
    await page.getByRole('option', { name: '8000' }).click();
    await page.getByRole('button', { name: 'Launch', exact: true }).click();
    await page.waitForURL(/\/instances\/notebook-/);
    const [instance] = (await client.listInstances({ pager: { currentPage: 1, pageSize: 1 } })).instances;
    const instanceId = instance?.instanceMetadata.instanceId ?? expect.fail('nothing was launched');
    expect((await client.getInstance({ instanceId })).runImageCommand).toBe(true);
    expect(instance?.instanceSpecInfo.nodePorts.map(({ port }) => port)).toContain(8000);
    await page.goto(`${server.server.apiUrl}/launch?like=${instanceId}`);
    await expect.poll(() => option.isChecked()).toBe(true);
  } finally {
    await leave(context);
  }
});

longTest('a list of templates that fails leaves the launch as it is, and is reported in the menu', async () => {
  const { username } = await server.newAccount();
  const { context, page } = await visit(server, username);
  try {
    const body = JSON.stringify({ code: 'forbidden', msg: 'no templates for this key' });
    await page.route('**/template/list', (route) => route.fulfill({ status: 403, body }));
    await page.goto(`${server.server.apiUrl}/launch`);
    await page.getByRole('button', { name: 'Templates' }).click();
    await page.getByRole('menu').getByRole('alert').waitFor();
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('notebook');
  } finally {
    await leave(context);
  }
});

test('cards come before types without GPUs, each with its parts, price and free count', async () => {
  const { username, client } = await server.newAccount();
  const { instanceInfos } = await client.catalog();
  const whole = instanceInfos.find(({ gpuName }) => gpuName !== '') ?? expect.fail('no GPU is offered');
  const part = (gpuSlice: 'mig' | 'shared', name: string, fitsNow: number): typeof whole => ({
    ...whole,
    gpuName: `${whole.gpuName} ${name}`,
    regionInfos: whole.regionInfos.map((region) => ({
      ...region,
      instanceTypeInfos: region.instanceTypeInfos.slice(0, 1).map((type) => ({
        ...type,
        instanceTypeId: `of-${gpuSlice}`,
        instanceTypeName: gpuSlice,
        gpuMemoryGB: 18,
        gpuSlice,
        gpuCard: whole.gpuName,
        fitsNow,
        stockStatus: fitsNow === 0 ? ('OutOfStock' as const) : ('InStock' as const),
        price: [{ chargeMode: 'perHour' as const, price: 0.5 }],
      })),
    })),
  });
  const shown = [...instanceInfos, part('shared', '1/4', 0), part('mig', 'MIG 1g.18gb', 3)];
  const { context, page } = await visit(server, username);
  try {
    await page.route('**/resource/user/instance/list', (route) => route.fulfill({ json: { instanceInfos: shown } }));
    await page.goto(`${server.server.apiUrl}/launch`);
    const groups = page.getByRole('radiogroup', { name: 'Instance type' }).getByRole('group');
    await groups.first().waitFor();
    expect(await groups.count()).toBe(2);
    expect(await groups.first().getAttribute('aria-label')).toBe(whole.gpuName);
    expect(await groups.last().getAttribute('aria-label')).toBe('Without GPUs');
    const cards = groups.first().getByRole('radio');
    const names = await cards.allTextContents();
    expect(names.at(-2)).toMatch(
      /1 × MIG 1g.18gb: part of a card with its own memory · 18 GB.*3 free · \$0.50 per hour of a part/,
    );
    expect(names.at(-1)).toMatch(/1 × 1\/4: turns on a card, memory is not limited.*none free/);
    expect(await seriousFindings(page)).toEqual([]);
    await cards.nth(-2).click();
    await page.waitForURL('**offer=of-mig*');
  } finally {
    await leave(context);
  }
});
