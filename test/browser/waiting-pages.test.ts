/**
 * Pages shown in a real browser when there is nothing to show yet: each names the next step, and
 * polls where that can help.
 */
import type { Browser, Page, Response } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { API_ORIGIN, idOf, serve, start, type FakeInstance, type Harness } from '../http/gateway/harness.ts';
import { launchBrowser } from '../fixtures/browser.ts';

const A = idOf('a');
const PORT = 7000;

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser?.close());

async function visiting(
  route: Partial<FakeInstance['route']>,
): Promise<{ harness: Harness; instance: FakeInstance; page: Page; answer: Response | null }> {
  const harness = await start();
  const instance = harness.add(A, { publicPorts: [PORT], route });
  const page = await browser.newPage();
  onTestFinished(() => page.close());
  const answer = await page.goto(`${harness.origin}/forward/${A}/${PORT}/`);
  return { harness, instance, page, answer };
}

/** Counts the page's automatic reloads and redirects. */
const lookingAgain = (page: Page): Promise<number> =>
  page.locator('meta[http-equiv="refresh"], script, iframe').count();
const textOf = (page: Page): Promise<string> => page.locator('body').innerText();

test('without a listener the page names the address to listen on, and shows the program once it listens', async () => {
  const { instance, page } = await visiting({});
  expect(await lookingAgain(page)).toBe(1);
  const text = await textOf(page);
  expect(text).toContain(`The instance is running, but nothing listens on port ${PORT}.`);
  expect(text).toContain('Let the program listen on 0.0.0.0: a program that listens only on 127.0.0.1 is reached by');
  expect(text).toContain('This page reloads automatically.');
  const inside = await serve((_req, res) => void res.setHeader('content-type', 'text/html').end('<h1>it works</h1>'));
  instance.ports.set(PORT, inside.port);
  await page.getByText('it works').waitFor({ timeout: 15_000 });
});

test('during a start the page waits and opens the program once it runs', async () => {
  const { instance, page } = await visiting({ running: false, status: 'PullingImage' });
  expect(await textOf(page)).toContain('The instance is PullingImage.');
  const inside = await serve((_req, res) => void res.setHeader('content-type', 'text/html').end('<h1>it works</h1>'));
  instance.ports.set(PORT, inside.port);
  instance.route = { ...instance.route, running: true, status: 'Running' };
  await page.getByText('it works').waitFor({ timeout: 15_000 });
});

for (const [status, title] of [
  ['Stopped', 'The instance is not running'],
  ['StartingFailed', 'The instance could not be started'],
] as const)
  test(`the page names the next step at ${status}, links the console and stops polling`, async () => {
    const { harness, page, answer } = await visiting({ running: false, status });
    expect(await page.title()).toBe(`${title} · Berth`);
    expect(await textOf(page)).toMatch(/owner/);
    expect(await page.getByRole('link').getAttribute('href')).toBe(`${API_ORIGIN}/`);
    expect(await lookingAgain(page)).toBe(0);
    expect(answer?.headers()).not.toHaveProperty('refresh');
    expect(harness.dials).toBe(0);
  });
