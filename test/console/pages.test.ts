/**
 * Every page in both themes, both languages and three widths: whole, accessible, and without
 * errors.
 */
import axe from 'axe-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { launchFirst } from '../fixtures/first-launch.ts';
import { isLong } from '../fixtures/level.ts';
import { useConsoleServer, visit, type Look } from './console-server.ts';

const server = useConsoleServer('32440-32459');

const ids = { instance: '', volume: '', account: '' };
const pages: Record<string, () => string> = {
  instances: () => '/instances',
  'no instance found': () => '/instances?q=no-such-name',
  launch: () => '/launch',
  overview: () => `/instances/${ids.instance}`,
  terminal: () => `/instances/${ids.instance}?tab=terminal`,
  logs: () => `/instances/${ids.instance}?tab=logs`,
  figures: () => `/instances/${ids.instance}?tab=figures`,
  storage: () => `/instances/${ids.instance}?tab=storage`,
  ports: () => `/instances/${ids.instance}?tab=ports`,
  'events of an instance': () => `/instances/${ids.instance}?tab=events`,
  'settings of an instance': () => `/instances/${ids.instance}?tab=settings`,
  volumes: () => '/volumes',
  volume: () => `/volumes/${ids.volume}`,
  images: () => '/images',
  billing: () => '/billing',
  access: () => '/access',
  activity: () => '/activity',
  settings: () => '/settings',
  welcome: () => '/welcome',
  fleet: () => '/operator/fleet',
  accounts: () => '/operator/accounts',
  account: () => `/operator/accounts/${ids.account}`,
  catalog: () => '/operator/catalog',
  health: () => '/operator/health',
  orphans: () => '/operator/orphans',
  audit: () => '/operator/audit',
  'no such page': () => '/instances/none/such',
};

const looks: Look[] = [360, 1280, 3840].flatMap((width) =>
  (['light', 'dark'] as const).flatMap((theme) =>
    (['en-US', 'zh-CN'] as const).map((language) => ({ width, theme, language })),
  ),
);

beforeAll(async () => {
  const { admin } = server;
  const { userId } = await admin.userInfo();
  const { regions } = await admin.listRegions();
  const region = regions[0]?.regionId ?? expect.fail('no region');
  const { volume } = await admin.createVolume({ name: 'data', sizeGB: 1, region, volumeType: 'filesystem' });
  const launched = await launchFirst(admin, { name: 'seen', initScript: '', nodePorts: [8000] });
  Object.assign(ids, { account: userId, volume: volume.id, instance: launched.instanceId });
});

/** At short, each page in one look, each look on some pages. */
const cases = Object.keys(pages).flatMap((name, at) =>
  looks.filter((_, nth) => isLong || nth === at % looks.length).map((look) => ({ name, ...look })),
);

/** Findings that axe calls serious or critical. */
const seriousFindings = `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
  violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => id + ': ' + nodes.map(({ target, failureSummary }) => target.join(' ') + ' ' + failureSummary).join(' | ').slice(0, 600)))`;

describe('a page of the console', () => {
  test.each(cases)('$name at $width px, $theme, $language is whole and accessible', async ({ name, ...look }) => {
    const { context, page, troubles } = await visit(server, 'admin', look);
    try {
      await page.goto(server.server.apiUrl + (pages[name]?.() ?? ''));
      await page.getByRole('heading').first().waitFor();
      await page.waitForFunction('document.querySelector("[aria-busy=true]") === null');
      expect(await page.getAttribute('html', 'lang')).toBe(look.language?.slice(0, 2));
      const wider = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      expect(wider, 'pixels beyond the window').toBeLessThanOrEqual(0);
      await page.evaluate(axe.source);
      expect(await page.evaluate(seriousFindings)).toEqual([]);
      expect(troubles).toEqual([]);
    } finally {
      await context.close();
    }
  });
});
