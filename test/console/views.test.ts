/** The address holds the view: a reload, the back button and a shared link show it again. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { launchFirst } from '../fixtures/first-launch.ts';
import { DAY_MS } from '../../src/domain/kernel/durations.ts';
import { sampled } from '../fixtures/level.ts';
import { longTest } from '../fixtures/long-test.ts';
import { leave, settled, useConsoleServer, visit } from './console-server.ts';
import { furnish, type PlaceIds } from './places.ts';

const server = useConsoleServer('32500-32519');
const STAYS_MS = 500;
let ids: PlaceIds;
beforeAll(async () => {
  ids = await furnish(server.admin);
});

/** Each with the address of the same page in its usual view. */
const addresses: readonly [string, () => string][] = [
  ['instances, filtered', () => '/instances?status=Running&q=seen'],
  ['instances, sorted', () => '/instances?sort=name&desc=true'],
  ['a launch with a name', () => '/launch?name=mine'],
  ['lines of a log', () => `/instances/${ids.instance}?tab=logs&log=init&find=pip`],
  ['figures of six hours', () => `/instances/${ids.instance}?tab=figures&range=6h`],
  ['ports', () => `/instances/${ids.instance}?tab=ports`],
  ['settings of an instance', () => `/instances/${ids.instance}?tab=settings`],
  ['volumes, filtered', () => '/volumes?q=data'],
  ['snapshots', () => '/volumes?tab=snapshots'],
  ['files of a volume', () => `/volumes/${ids.volume}?tab=files`],
  ['registries', () => '/images?tab=registries'],
  ['the bill by kind', () => '/billing?by=meter'],
  ['entries of a kind', () => '/billing?tab=entries&kind=charge'],
  ['webhooks', () => '/access?tab=webhooks'],
  ['activity of volumes', () => '/activity?kind=volume'],
  ['the third first step', () => '/welcome?step=prices'],
  ['use of two weeks', () => '/operator/fleet?tab=use&range=weeks'],
  ['all instances', () => '/operator/fleet?tab=instances&q=seen'],
  ['accounts by disk use', () => '/operator/accounts?by=disk'],
  ['money of an account', () => `/operator/accounts/${ids.account}?tab=money`],
  ['prices', () => '/operator/catalog?tab=prices'],
  ['audit of an account', () => '/operator/audit?account=admin'],
];
const views = addresses.map(([name, at]) => ({ name, at, usual: () => at().split('?')[0] ?? '' }));

/** What the page has chosen, filled in and laid out; times and figures change by themselves. */
const viewOf = `(() => {
  const main = document.querySelector('main');
  const texts = (selector, of) => [...main.querySelectorAll(selector)].map(of);
  const words = (element) => element.closest('label')?.innerText ?? element.innerText ?? '';
  return {
    chosen: texts('[role=tab][aria-selected=true], [aria-sort=ascending], [aria-sort=descending]', (one) =>
      words(one) + (one.getAttribute('aria-sort') ?? '')),
    picked: texts('input[type=radio]:checked', (one) => one.value),
    fields: texts('input:not([type=radio]):not([type=checkbox]), select', (one) => one.value),
    parts: texts('h1, h2, h3, [role=table], table', (one) => one.getAttribute('aria-label') ?? (one.tagName.startsWith('H') ? '' : 'table')),
    steps: texts('[data-progress]', (one) => one.innerText),
  };
})()`;

/** Parts of a page come one after the other: the view that stays. */
async function shown(page: Page): Promise<unknown> {
  await settled(page);
  let view = await page.evaluate(viewOf);
  for (;;) {
    await page.waitForTimeout(STAYS_MS);
    const next = await page.evaluate(viewOf);
    if (isDeepStrictEqual(next, view)) return view;
    view = next;
  }
}

/** Words that their place is too narrow for. */
const cutOff = `[...document.querySelectorAll('main span')]
  .filter((one) => one.scrollWidth > one.clientWidth && one.clientWidth > 0)
  .map((one) => one.textContent)`;

describe('a view of the console', () => {
  test.each(sampled(views, { oneIn: 21 }))('$name is the same by a link, a reload and the way back', async (view) => {
    const { context, page, troubles } = await visit(server, 'admin');
    const { apiUrl } = server.server;
    try {
      await page.goto(apiUrl + view.at());
      const first = await shown(page);
      const address = page.url();
      await page.reload();
      await expect.poll(() => page.evaluate(viewOf)).toEqual(first);
      await page.getByRole('link', { name: 'Settings' }).first().click();
      await page.waitForURL('**/settings');
      await page.goBack();
      expect(page.url()).toBe(address);
      await expect.poll(() => page.evaluate(viewOf)).toEqual(first);
      await page.goto(apiUrl + view.usual());
      expect(await shown(page), 'the usual view of the page').not.toEqual(first);
      expect(troubles).toEqual([]);
    } finally {
      await leave(context);
    }
  });

  test('the use of the fleet is drawn for the time that is chosen', async () => {
    const { regions } = await server.admin.fleet();
    const database = new DatabaseSync(join(server.server.folder, 'berth.db'));
    database.exec('pragma busy_timeout = 60000');
    const row = database.prepare('insert into "regionUse" values (?, ?, ?, 8000, 6000, 2000)');
    for (const resource of ['gpuMilli', 'cpuMilli', 'memoryMiB', 'diskGB'])
      row.run(regions[0]?.regionId ?? '', Date.now() - 80 * DAY_MS, resource);
    database.close();
    const { context, page, troubles } = await visit(server, 'admin');
    // An event of the account repeats requests.
    const asksFor = (days: number) =>
      page.waitForRequest((request) => {
        if (!request.url().endsWith('/admin/fleet/history')) return false;
        const { fromUnixMs, toUnixMs } = request.postDataJSON();
        return toUnixMs - fromUnixMs === days * DAY_MS;
      });
    try {
      await Promise.all([asksFor(1), page.goto(`${server.server.apiUrl}/operator/fleet?tab=use`)]);
      await Promise.all([asksFor(14), page.getByText('Two weeks').click()]);
      await Promise.all([asksFor(90), page.getByText('90 days').click()]);
      for (const name of ['GPUs', 'CPU cores', 'Memory in GB', 'Disks in GB'])
        await page
          .getByRole('img', { name: new RegExp(`^${name}\\. Promised .* 75% at most`) })
          .locator('canvas')
          .waitFor();
      expect(troubles).toEqual([]);
    } finally {
      await leave(context);
    }
  });

  longTest('the title names what is shown, and follows the navigation', async () => {
    const { context, page } = await visit(server, 'admin');
    try {
      await page.goto(`${server.server.apiUrl}/instances/${ids.instance}`);
      await expect.poll(() => page.title()).toBe('seen · Instances · Berth');
      await page.getByRole('link', { name: 'Volumes' }).first().click();
      await expect.poll(() => page.title()).toBe('Volumes · Berth');
      await page.getByRole('link', { name: 'data', exact: true }).click();
      await expect.poll(() => page.title()).toBe('data · Volumes · Berth');
      await page.goto(`${server.server.apiUrl}/operator/accounts/${ids.account}`);
      await expect.poll(() => page.title()).toBe('admin · Accounts · Berth');
    } finally {
      await leave(context);
    }
  });

  longTest('a phone shows the whole status of an instance with a long name', async () => {
    const name = 'long-'.repeat(12) + 'name';
    const { username, client } = await server.newAccount();
    await launchFirst(client, { name, initScript: '', nodePorts: [] });
    const { context, page } = await visit(server, username, { width: 360 });
    try {
      await page.goto(`${server.server.apiUrl}/instances`);
      await page.getByRole('table').getByText('Running', { exact: true }).waitFor();
      expect(await page.evaluate(cutOff)).not.toContain('Running');
    } finally {
      await leave(context);
    }
  });

  longTest('loading parts have a name, and a volume has the same status at each place', async () => {
    const { context, page } = await visit(server, 'admin');
    try {
      await page.route('**/operation/list', () => undefined);
      await page.goto(`${server.server.apiUrl}/instances/${ids.instance}?tab=events`);
      const loading = page.getByRole('status', { name: 'Loading What was done' });
      await expect.poll(() => loading.isVisible()).toBe(true);
      await page.goto(`${server.server.apiUrl}/operator/accounts/${ids.account}`);
      await page.getByRole('row', { name: 'data' }).getByText('Ready').waitFor();
    } finally {
      await leave(context);
    }
  });

  test('a chosen tab is in the address, and the way back leads to the page before', async () => {
    const { context, page } = await visit(server, 'admin');
    try {
      await page.goto(server.server.apiUrl + '/volumes');
      await page.getByRole('link', { name: 'data', exact: true }).click();
      // The list has such a tab as well.
      await page.getByRole('heading', { name: 'data', exact: true }).waitFor();
      await page.getByRole('tab', { name: 'Snapshots' }).click();
      await page.waitForURL('**/volumes/*?tab=snapshots');
      await page.reload();
      await page.getByRole('tab', { name: 'Snapshots', selected: true }).waitFor();
      await page.goBack();
      await settled(page);
      if (new URL(page.url()).pathname !== '/volumes') await page.goBack();
      expect(new URL(page.url()).pathname).toBe('/volumes');
      await page.getByRole('link', { name: 'data', exact: true }).waitFor();
    } finally {
      await leave(context);
    }
  });
});
