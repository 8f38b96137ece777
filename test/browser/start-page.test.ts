/** The page out of an image, shown while the notebook of a launch starts, in a real browser. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { ALICE, idOf, jwtOf, serve, start } from '../http/gateway/harness.ts';
import { launchBrowser } from '../fixtures/browser.ts';

const A = idOf('a');
const IMAGE = 'berth.local/notebook:1';
const BUILD = 'b'.repeat(32);
const ZEROS = 'notebook-00000000-0000-0000-0000-000000000000';
const SCRIPT = "fetch('api/hello').then((answer) => answer.text()).then((text) => (document.title += ` and ${text}`));";

const pageWith = (id: string, extensions: string[], count: number): string =>
  `<!doctype html><html><head><title>page ${count}</title><script id="jupyter-config-data" type="application/json">${JSON.stringify(
    { baseUrl: `/notebook/${id}/`, extensions, store_id: count },
  )}</script><script defer src="/.berth/lab/${BUILD}/main.js"></script></head><body></body></html>`;

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser?.close());

async function opened(extensions: string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-page-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const version = join(folder, 'versions/1');
  await mkdir(join(version, 'lab', BUILD), { recursive: true });
  await writeFile(join(version, 'lab', BUILD, 'main.js'), SCRIPT);
  await writeFile(join(version, 'image'), IMAGE);
  await writeFile(join(version, 'page.html'), pageWith(ZEROS, ['one', 'two'], 0));
  const harness = await start({ toolsFolder: folder, limits: { notebookPatienceMs: 100 } });
  const instance = harness.add(A, { route: { running: false, status: 'Starting', startingImage: IMAGE } });
  const asked: string[] = [];
  const notebook = await serve((req, res) => {
    const path = (req.url ?? '').slice(`/notebook/${A}/`.length);
    asked.push(path);
    if (path === '') return void res.writeHead(302, { location: `/notebook/${A}/lab` }).end();
    res.setHeader('content-type', 'text/html').end(path === 'lab' ? pageWith(A, extensions, 1) : 'hello');
  });
  const page = await browser.newPage({ extraHTTPHeaders: { authorization: `Bearer ${jwtOf(ALICE)}` } });
  onTestFinished(() => page.close());
  await page.goto(`${harness.origin}/notebook/${A}/`);
  expect(await page.title()).toBe('page 0');
  const run = (): void => {
    instance.ports.set(8888, notebook.port);
    Object.assign(instance.route, { running: true, status: 'Running' });
  };
  return { page, asked, instance, run };
}

test("the page stays where the server's is the same, and asks for nothing before it knows", async () => {
  const { page, asked, run } = await opened(['two', 'one']);
  expect(new URL(page.url()).pathname).toBe(`/notebook/${A}/lab`);
  run();
  await expect.poll(() => page.title()).toBe('page 0 and hello');
  expect(asked).toEqual(['', 'lab', 'api/hello']);
});

test("the server's page replaces one that differs", async () => {
  const { page, asked, run } = await opened(['one', 'two', 'three']);
  run();
  await expect.poll(() => page.title()).toBe('page 1 and hello');
  expect(asked).toEqual(['', 'lab', 'lab', 'api/hello']);
});

test('a start that fails replaces the page by the reason', async () => {
  const { page, instance } = await opened(['one', 'two']);
  Object.assign(instance.route, { status: 'StartingFailed', startingImage: undefined });
  await page.getByText('The instance could not be started').waitFor();
  expect(await page.title()).toContain('Berth');
});

test('a notebook server that does not start replaces the page by the last line of its log', async () => {
  const { page, instance } = await opened(['one', 'two']);
  const notebook = { state: 'failed', text: 'No module named tornado' };
  Object.assign(instance.route, { running: true, status: 'Running', startingImage: undefined, notebook });
  await page.getByText('No module named tornado').waitFor();
  expect(await page.title()).toContain('The notebook server does not start');
});
