/**
 * `npm run sheets [-- PLACE …]`: pictures of the console for people who change it. One sheet a
 * place in `docs/console/`, with its looks and states beside each other; the picture of README.md.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page, Route } from 'playwright-core';
import { ensureConsole } from '../../scripts/lib/console.mjs';
import { launchBrowser } from '../fixtures/browser.ts';
import { login, PASSWORD, startServerProcess, type ServerProcess } from '../fixtures/server-process.ts';
import { leave, type Look, settled, visit } from './console-server.ts';
import { furnish, places, type PlaceIds } from './places.ts';

const FOLDER = join(import.meta.dirname, '../../docs/console');
const README_PLACE = 'launch';
const README_FILE = `${FOLDER}.webp`;
const SHEET_PX = 2_400;
const TILE_PX = { 360: 230, 1280: 560, 3840: 1_140 } as const;
const QUALITY = 55;
const HEIGHT_PX = 900;
const MANY = 10_000;
/** For charts and pictures that settle after the page does. */
const SETTLE_MS = 700;
/** In which the console tries a failed question again. */
const RETRIES_MS = 5_000;

interface Tile {
  name: string;
  look: Look & { width: keyof typeof TILE_PX };
  as?: 'admin' | 'newcomer';
  answer?: (route: Route) => Promise<void>;
}

const LISTS = '**/api/instance/list';

/** The same instance again and again, as many as the page asks for. */
async function many(route: Route): Promise<void> {
  const { pageSize } = route.request().postDataJSON().pager;
  const response = await route.fetch();
  const answer = await response.json();
  const row = answer.instances[0];
  if (row === undefined) return route.fulfill({ response });
  const instances = Array.from({ length: Math.min(pageSize, MANY) }, (_, nth) => ({
    ...row,
    instanceMetadata: { ...row.instanceMetadata, instanceId: `${row.instanceMetadata.instanceId}-${nth}` },
    instanceSpecInfo: { ...row.instanceSpecInfo, name: `experiment-${nth}` },
  }));
  await route.fulfill({ response, json: { ...answer, instances, pager: { ...answer.pager, totalEntries: MANY } } });
}

const isOfPage = (route: Route): boolean => !/\/api\/(user\/info|events)/.test(route.request().url());
const failing = (route: Route): Promise<void> =>
  isOfPage(route)
    ? route.fulfill({
        status: 503,
        json: { message: 'the database does not answer; try again in a minute' },
      })
    : route.continue();
/** Never answered: the page stays as it is while it loads. */
const loading = (route: Route): Promise<void> => (isOfPage(route) ? new Promise(() => {}) : route.continue());

const tiles: readonly Tile[] = [
  { name: 'light', look: { width: 1280, theme: 'light', language: 'en-US' } },
  { name: 'dark', look: { width: 1280, theme: 'dark', language: 'en-US' } },
  { name: 'Chinese', look: { width: 1280, theme: 'light', language: 'zh-CN' } },
  { name: 'empty', look: { width: 1280, theme: 'light', language: 'en-US' }, as: 'newcomer' },
  { name: 'loading', look: { width: 1280, theme: 'light', language: 'en-US' }, answer: loading },
  { name: 'failing', look: { width: 1280, theme: 'light', language: 'en-US' }, answer: failing },
  { name: '10,000 instances', look: { width: 1280, theme: 'light', language: 'en-US' }, answer: many },
  { name: 'phone, light', look: { width: 360, theme: 'light', language: 'en-US' } },
  { name: 'phone, dark, Chinese', look: { width: 360, theme: 'dark', language: 'zh-CN' } },
  { name: '4K', look: { width: 3840, theme: 'light', language: 'en-US' } },
];

const isShownFor = ({ name }: Tile, place: string): boolean =>
  name === '10,000 instances'
    ? place === 'instances'
    : name !== 'empty' ||
      !/instance|overview|terminal|logs|figures|storage|ports|^volume$|^account$/.test(place) ||
      place === 'instances';

async function pictureOf(
  world: { server: ServerProcess; browser: Browser; ids: PlaceIds },
  place: string,
  tile: Tile,
): Promise<Buffer> {
  const { context, page } = await visit(world, tile.as ?? 'admin', tile.look);
  try {
    if (tile.answer) await page.route(tile.name === '10,000 instances' ? LISTS : '**/api/**', tile.answer);
    await page.goto(world.server.apiUrl + (places[place]?.(world.ids) ?? ''));
    if (tile.answer) await page.locator('main').waitFor();
    else await settled(page);
    await page.waitForTimeout(tile.answer === failing ? RETRIES_MS : SETTLE_MS);
    return await page.screenshot();
  } finally {
    await leave(context);
  }
}

/** A page with all pictures, as one compressed picture. */
async function sheetOf(page: Page, place: string, pictures: readonly { tile: Tile; bytes: Buffer }[]): Promise<Buffer> {
  const figures = pictures.map(({ tile, bytes }) => {
    const width = TILE_PX[tile.look.width];
    return `<figure style="width:${width}px"><figcaption>${tile.name}</figcaption><img width="${width}" src="${urlOf(bytes)}"></figure>`;
  });
  await page.setContent(`<style>
    body { margin: 24px; width: ${SHEET_PX}px; font: 20px system-ui; background: #777; color: #fff }
    main { display: flex; flex-wrap: wrap; gap: 20px; align-items: flex-start }
    figure { margin: 0 } figcaption { font-size: 15px; padding-bottom: 4px } img { display: block }
    </style><h1>${place}</h1><main>${figures.join('')}</main>`);
  const { height } = await page.evaluate<{ height: number }>('({ height: document.documentElement.scrollHeight })');
  return webpOf(page, { width: SHEET_PX + 48, height, scale: 0.75 });
}

async function webpOf(page: Page, size: { width: number; height: number; scale: number }): Promise<Buffer> {
  const session = await page.context().newCDPSession(page);
  const clip = { x: 0, y: 0, ...size };
  const options = { format: 'webp', quality: QUALITY, clip, captureBeyondViewport: true } as const;
  const { data } = await session.send('Page.captureScreenshot', options);
  return Buffer.from(data, 'base64');
}

/** The picture alone, compressed. */
async function single(page: Page, bytes: Buffer): Promise<Buffer> {
  await page.setContent(`<body style="margin:0"><img style="display:block" src="${urlOf(bytes)}">`);
  return webpOf(page, { width: 1280, height: HEIGHT_PX, scale: 1 });
}

const urlOf = (png: Buffer): string => `data:image/png;base64,${png.toString('base64')}`;

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => places[name] === undefined);
if (unknown.length > 0) throw new Error(`no place ${unknown.join(', ')}; there are ${Object.keys(places).join(', ')}`);

await ensureConsole(process.execPath);
const server = await startServerProcess({ nodePorts: '32600-32619', settings: { BERTH_ENGINE: 'simulated' } });
const browser = await launchBrowser();
try {
  const { client } = await login(server);
  const ids = await furnish(client);
  await client.createUser({ username: 'newcomer', password: PASSWORD });
  await mkdir(FOLDER, { recursive: true });
  const sheet = await browser.newPage({ viewport: { width: SHEET_PX + 48, height: HEIGHT_PX } });
  for (const place of Object.keys(places).filter((name) => wanted.length === 0 || wanted.includes(name))) {
    const pictures: { tile: Tile; bytes: Buffer }[] = [];
    for (const tile of tiles.filter((one) => isShownFor(one, place)))
      pictures.push({ tile, bytes: await pictureOf({ server, browser, ids }, place, tile) });
    await writeFile(join(FOLDER, `${place.replaceAll(' ', '-')}.webp`), await sheetOf(sheet, place, pictures));
    const [first] = pictures;
    if (place === README_PLACE && first) await writeFile(README_FILE, await single(sheet, first.bytes));
    process.stdout.write(`${place}: ${pictures.length} pictures\n`);
  }
} finally {
  await browser.close();
  await server.stop();
}
