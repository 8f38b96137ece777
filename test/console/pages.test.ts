/**
 * Every page in both themes, both languages and three widths: whole, accessible, and without
 * errors.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isLong, sampled } from '../fixtures/level.ts';
import { leave, type Look, seriousFindings, settled, useConsoleServer, type Visit, visit } from './console-server.ts';
import { furnish, places, type PlaceIds } from './places.ts';

const server = useConsoleServer('32440-32459');

let ids: PlaceIds;
beforeAll(async () => {
  ids = await furnish(server.admin);
});

const looks: Look[] = [360, 1280, 3840].flatMap((width) =>
  (['light', 'dark'] as const).flatMap((theme) =>
    (['en-US', 'zh-CN'] as const).map((language) => ({ width, theme, language })),
  ),
);

/** At short, some pages in two looks, which differ in all. */
const cases = (isLong ? looks : looks.filter((_, nth) => nth === 3 || nth === 4)).flatMap((look, nth) =>
  sampled(Object.keys(places), { oneIn: 14, from: 7 * nth }).map((name) => ({ name, look, ...look })),
);

/** One browser window for the cases of a look, which follow each other: they share files. */
let window: { look: Look; visited: Visit } | undefined;
async function visitIn(look: Look): Promise<Visit> {
  if (window?.look !== look) {
    if (window) await leave(window.visited.context);
    window = { look, visited: await visit(server, 'admin', look) };
  }
  return window.visited;
}
afterAll(() => window && leave(window.visited.context));

describe('a page of the console', () => {
  test.each(cases)('$name at $width px, $theme, $language is whole and accessible', async ({ name, look }) => {
    const { page, troubles } = await visitIn(look);
    troubles.length = 0;
    await page.goto(server.server.apiUrl + (places[name]?.(ids) ?? ''));
    await settled(page);
    expect(await page.getAttribute('html', 'lang')).toBe(look.language?.slice(0, 2));
    const wider = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    expect(wider, 'pixels beyond the window').toBeLessThanOrEqual(0);
    expect(await seriousFindings(page)).toEqual([]);
    expect(troubles).toEqual([]);
  });
});
