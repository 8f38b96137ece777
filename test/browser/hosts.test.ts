/**
 * A port with a host of its own is an origin of its own: its pages reach nothing else of their
 * visitor. In a real browser.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContext } from 'playwright-core';
import { generate } from 'selfsigned';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openTlsFiles } from '../../src/edge/tls-files.ts';
import { ALICE, idOf, MALLORY, onCleanup, serve, start, type Harness } from '../http/gateway/harness.ts';
import { launchBrowser } from '../fixtures/browser.ts';

const [MINE, THEIRS] = [idOf('a'), idOf('b')];
const log = { info: () => {}, error: () => {} };

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser('--ignore-certificate-errors', '--host-resolver-rules=MAP *.gpu.test 127.0.0.1');
});
afterAll(() => browser?.close());

let context: BrowserContext;
beforeEach(async () => {
  context = await browser.newContext();
});
afterEach(() => context.close());

/**
 * Pages of two accounts behind one gateway, and the requests that reached the private page, with
 * their fetch metadata.
 */
async function behindGateway(): Promise<{
  harness: Harness;
  at: (port: number, id: string) => string;
  reached: string[];
}> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-hosts-'));
  const { cert, private: key } = await generate([{ name: 'commonName', value: '*.gpu.test' }], { keyType: 'ec' });
  await writeFile(join(folder, 'cert'), cert);
  await writeFile(join(folder, 'key'), key);
  const tls = await openTlsFiles({ cert: join(folder, 'cert'), key: join(folder, 'key') }, log);
  onCleanup(async () => {
    tls.stop();
    await rm(folder, { recursive: true });
  });
  const harness = await start({ tls, portDomain: (port) => `gpu.test:${port}` });
  const reached: string[] = [];
  const mine: RequestListener = (req, res) => {
    if (req.url !== '/favicon.ico') reached.push(`${req.method} ${req.url}`);
    const isScript = req.url === '/worker.js';
    res.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
    res.end(isScript ? 'onfetch = () => {}' : '<title>mine</title>');
  };
  const theirs: RequestListener = (_req, res) => {
    res.setHeader('content-type', 'text/html');
    res.setHeader('set-cookie', `__Host-berth_gateway=planted; Path=/; Secure`);
    res.end('<title>theirs</title>');
  };
  const [inside, other] = [await serve(mine), await serve(theirs)];
  harness.add(MINE, { owner: ALICE, ports: { 81: inside.port } });
  harness.add(THEIRS, { owner: MALLORY, publicPorts: [80], ports: { 80: other.port } });
  harness.handovers.set('key', { accountId: ALICE, instanceId: MINE });
  return { harness, at: (port, id) => `https://${port}-${id}.gpu.test:${harness.port}`, reached };
}

test('a page opened by an API link has its own storage, service worker and paths', async () => {
  const { at } = await behindGateway();
  const page = await context.newPage();
  await page.goto(`${at(81, MINE)}/.berth/open?key=key`);
  expect(page.url()).toBe(`${at(81, MINE)}/`);
  expect(await page.title()).toBe('mine');
  const reported = await page.evaluate(`(async () => {
    localStorage.setItem('kept', 'yes');
    await navigator.serviceWorker.register('/worker.js');
    await navigator.serviceWorker.ready;
    return { origin: location.origin, kept: localStorage.getItem('kept'), deep: (await fetch('/a/b')).status };
  })()`);
  expect(reported).toEqual({ origin: at(81, MINE), kept: 'yes', deep: 200 });
});

test('a foreign page neither reads nor sets the session cookie, nor reads the visitor’s other ports', async () => {
  const { at, reached } = await behindGateway();
  const page = await context.newPage();
  await page.goto(`${at(81, MINE)}/.berth/open?key=key`);
  await page.goto(`${at(80, THEIRS)}/`);
  expect(await page.title()).toBe('theirs');
  reached.length = 0;
  const tried = await page.evaluate(`(async () => {
    const mine = ${JSON.stringify(at(81, MINE))};
    for (const name of ['berth_gateway', '__Host-berth_gateway'])
      for (const more of ['', '; Domain=gpu.test']) document.cookie = name + '=planted; Path=/; Secure' + more;
    const answers = [];
    for (const mode of ['cors', 'no-cors'])
      for (const method of ['GET', 'POST'])
        answers.push(await fetch(mine + '/secret', { mode, method, credentials: 'include' }).then(({ type }) => type, () => 'failed'));
    const frame = document.createElement('iframe');
    frame.src = mine + '/framed';
    document.body.append(frame);
    await new Promise((resolve) => (frame.onload = resolve));
    return { answers, seen: document.cookie };
  })()`);
  expect(tried).toEqual({
    answers: ['failed', 'failed', 'failed', 'failed'],
    seen: expect.not.stringContaining('session-of'),
  });
  expect(reached).toEqual([]);

  // The visitor's own access still works.
  await page.goto(`${at(81, MINE)}/after`);
  expect(await page.title()).toBe('mine');
  expect(reached).toEqual(['GET /after']);
});
