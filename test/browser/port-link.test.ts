/**
 * A real browser follows a link to a port: cookies stored, requests sent, and data visible to the
 * page.
 */
import type { RequestListener } from 'node:http';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ALICE, idOf, serve, start, type Harness } from '../http/gateway/harness.ts';
import { launchBrowser } from '../fixtures/browser.ts';

const A = idOf('a');
const TOKEN = 'the-token-of-a-link';
/** Browsers resolve names below localhost to this machine and treat them as secure. */
const DOMAIN = 'gpu.localhost';

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

/** A page whose script file calls its API. */
async function app(): Promise<{ harness: Harness; upstreamRequests: string[] }> {
  const upstreamRequests: string[] = [];
  const listener: RequestListener = (req, res) => {
    upstreamRequests.push(`${req.url} ${JSON.stringify(req.headers)}`);
    if (req.url === '/app.js')
      return res
        .setHeader('content-type', 'text/javascript')
        .end('fetch("api").then(async (r) => (document.title = await r.text()), () => (document.title = "no api"))');
    if (req.url === '/api') return res.end('api answers');
    if (req.url === '/next') return res.setHeader('content-type', 'text/html').end('<h1>next page</h1>');
    return res
      .setHeader('content-type', 'text/html')
      .end(
        '<a href="next">next</a><pre></pre><script>document.querySelector("pre").textContent = location.href + document.referrer</script><script src="app.js" onerror="document.title = \'no script\'"></script>',
      );
  };
  const inside = await serve(listener);
  const harness = await start({ portDomain: (port) => `${DOMAIN}:${port}` });
  harness.add(A, { owner: ALICE, ports: { 80: inside.port, 81: inside.port } });
  harness.shares.set(TOKEN, { instanceId: A, port: 80, expiresAtMs: Date.now() + 3_600_000 });
  return { harness, upstreamRequests };
}

test('the whole app works on the port’s host until the link is revoked, and never receives the token', async () => {
  const { harness, upstreamRequests } = await app();
  const context = await browser.newContext();
  const page = await context.newPage();
  const origin = `http://80-${A}.${DOMAIN}:${harness.port}`;
  await page.goto(`${origin}/?berth_share=${TOKEN}`);
  await expect.poll(() => page.title(), { timeout: 10_000 }).toBe('api answers');
  expect(page.url()).toBe(`${origin}/`);
  expect(await page.textContent('pre')).not.toContain(TOKEN);
  expect(await page.evaluate('document.cookie')).toBe('');
  await page.click('a');
  expect(await page.textContent('h1')).toBe('next page');
  expect(upstreamRequests.map((seen) => seen.split(' ')[0])).toEqual(
    expect.arrayContaining(['/', '/app.js', '/api', '/next']),
  );
  expect(upstreamRequests.join('\n')).not.toMatch(new RegExp(`${TOKEN}|berth`));
  // The link covers one port; another port of the instance is refused.
  expect((await page.goto(`http://81-${A}.${DOMAIN}:${harness.port}/`))?.status()).toBe(401);
  harness.shares.delete(TOKEN);
  expect((await page.goto(`${origin}/`))?.status()).toBe(401);
  await context.close();
});

test('the page and its links load in a sandbox on a path; subresources are requested without the cookie', async () => {
  const { harness, upstreamRequests } = await app();
  const context = await browser.newContext();
  const page = await context.newPage();
  const address = `http://${DOMAIN}:${harness.port}/forward/${A}/80/`;
  await page.goto(`${address}?berth_share=${TOKEN}`);
  expect(page.url()).toBe(address);
  expect(await page.textContent('pre')).toBe(address);
  expect(await page.evaluate('self.origin')).toBe('null');
  await expect.poll(() => page.title(), { timeout: 10_000 }).toBe('no script');
  await page.click('a');
  expect(await page.textContent('h1')).toBe('next page');
  expect((await page.goto(`http://${DOMAIN}:${harness.port}/forward/${A}/81/`))?.status()).toBe(401);
  expect(upstreamRequests.join('\n')).not.toMatch(new RegExp(`${TOKEN}|berth`));
  await context.close();
});
