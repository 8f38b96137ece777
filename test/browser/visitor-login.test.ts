/**
 * Requests that a page of an instance can make with its visitor's login at the API, by each kind of
 * access. In a real browser.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchBrowser, networkSettled, openPageOf } from '../fixtures/browser.ts';
import { IMAGE_DEADLINE_MS, launchFirst, nodePortOf } from '../fixtures/first-launch.ts';
import { freePort } from '../fixtures/free-port.ts';
import {
  login,
  PASSWORD,
  startServerProcess,
  until,
  type Client,
  type ServerProcess,
} from '../fixtures/server-process.ts';

/**
 * Reports the cookies of each request on /seen; sets cookies with Berth's names when the path asks
 * for them.
 */
const SERVER = `
import http.server
seen = []
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/seen":
            seen.append(self.headers.get("cookie", "no cookie"))
        text = "\\n".join(seen) if self.path == "/seen" else "onfetch = () => {}" if self.path == "/worker.js" else "<title>theirs</title>"
        self.send_response(200)
        self.send_header("content-type", "text/javascript" if self.path == "/worker.js" else "text/html")
        planted = self.path.partition("?plant=")[2]
        for name in ("AccessToken", "berth_gateway") if planted else ():
            self.send_header("set-cookie", name + "=" + planted + "; Path=/")
            self.send_header("set-cookie", name + "=" + planted + "; Path=/api")
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Page).serve_forever()`;

let server: ServerProcess;
let admin: Client;
let browser: Browser;
let instanceId: string;
let gatewayPort: number;
let nodePort: { address: string; nodePort: number };

beforeAll(async () => {
  gatewayPort = await freePort();
  server = await startServerProcess({
    nodePorts: '30900-30949',
    settings: {
      BERTH_GATEWAY_LISTEN: `127.0.0.1:${gatewayPort}`,
      BERTH_DOMAIN: `*.gpu.localhost:${gatewayPort}`,
      BERTH_NODE_PORT_ADDRESS: '', // the default
      BERTH_API_HOSTS: 'one.test',
    },
  });
  ({ client: admin } = await login(server));
  ({ instanceId, nodePort } = await launchedByMallory());
  await networkSettled();
  browser = await launchBrowser(
    // An operator's machine with one host name for everything.
    `--host-resolver-rules=MAP one.test:${nodePort.nodePort} ${nodePort.address}:${nodePort.nodePort},MAP one.test 127.0.0.1`,
  );
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

async function launchedByMallory(): Promise<{ instanceId: string; nodePort: { address: string; nodePort: number } }> {
  const account = { username: 'mallory', email: 'mallory@example.org', password: PASSWORD, balance: 100 };
  await admin.createUser(account);
  const { client } = await login(server, 'mallory');
  const initScript = `exec python3 - <<'PY'${SERVER}\nPY`;
  const made = await launchFirst(client, { name: 'theirs', initScript, nodePorts: [8000] });
  const at = nodePortOf(made, 8000);
  await until(
    () =>
      fetch(`http://${at.address}:${at.nodePort}/seen`).then(
        ({ ok }) => ok,
        () => false,
      ),
    Boolean,
  );
  return { instanceId: made.instanceId, nodePort: at };
}

/** Cookies sent to the instance since the last call. */
async function cookiesSeen(): Promise<string> {
  return (await fetch(`http://${nodePort.address}:${nodePort.nodePort}/seen`)).text();
}

interface AttackSite {
  /** Origin of the API with the login, and of the page. */
  api: string;
  theirs: string;
  /** Outcome of registering a service worker; `document.cookie` in the page, if readable. */
  worker: 'refused' | 'its own';
  cookies: 'none' | 'its own';
}
const attackSites: Record<string, () => AttackSite> = {
  'on a path, with the API on the same host': () => ({
    api: server.apiUrl,
    theirs: `http://127.0.0.1:${gatewayPort}/forward/${instanceId}/8000/`,
    worker: 'refused',
    cookies: 'none',
  }),
  'on a host of its own': () => ({
    api: server.apiUrl,
    theirs: `http://8000-${instanceId}.gpu.localhost:${gatewayPort}/`,
    worker: 'its own',
    cookies: 'its own',
  }),
  'on a node port, where the defaults have it': () => ({
    api: server.apiUrl,
    theirs: `http://${nodePort.address}:${nodePort.nodePort}/`,
    worker: 'its own',
    cookies: 'its own',
  }),
};

/** A visitor logged in at the API in the browser, as a console logs in. */
async function visitor(context: BrowserContext, api: string): Promise<Page> {
  const page = await context.newPage();
  await openPageOf(page, api);
  const body = JSON.stringify({ username: 'admin', password: PASSWORD });
  const status = await page.evaluate(
    `fetch('/api/user/login', { method: 'POST', headers: { 'content-type': 'application/json' }, body: ${JSON.stringify(body)} }).then(({ status }) => status)`,
  );
  expect(status).toBe(200);
  expect(await whoAmI(page)).toBe('admin');
  return page;
}
const whoAmI = (page: Page): Promise<unknown> =>
  page.evaluate(
    `fetch('/api/user/info', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }).then((r) => r.json()).then(({ username }) => username)`,
  );

async function tokenAt(context: BrowserContext, api: string): Promise<string> {
  const token = (await context.cookies(api)).find(({ name }) => name === 'AccessToken')?.value ?? '';
  expect(token).toMatch(/^eyJ/);
  return token;
}

/** Tries every request against the API at `api`, and returns the answers readable by the page. */
const attack = (api: string, plants: boolean): string => `(async () => {
  const api = ${JSON.stringify(api)};
  const outcome = (deed) => { try { return String(deed()); } catch (error) { return error.name; } };
  const cookiesBefore = outcome(() => document.cookie);
  for (const path of ${plants ? "['/', '/api', location.pathname]" : '[]'})
    outcome(() => (document.cookie = 'AccessToken=planted; path=' + path));
  const fetched = [];
  const body = JSON.stringify({ name: 'stolen' });
  for (const mode of ['cors', 'no-cors'])
    for (const [path, init] of [
      ['/api/events', {}],
      ['/api/user/key/create', { method: 'POST', body, headers: { 'content-type': 'text/plain' } }],
      ['/api/user/key/create', { method: 'POST', body, headers: { 'content-type': 'application/json' } }],
      ['/api/user/login', { method: 'POST', body: '{"username":"mallory","password":${JSON.stringify(PASSWORD)}}', headers: { 'content-type': 'text/plain' } }],
    ])
      fetched.push(await fetch(api + path, { ...init, mode, credentials: 'include' }).then(({ type }) => type, () => 'failed'));
  const loaded = (element, wait = 2000) => new Promise((resolve) => {
    element.onload = () => resolve('loaded');
    element.onerror = () => resolve('failed');
    setTimeout(resolve, wait, 'nothing');
    document.body.append(element);
  });
  const image = await loaded(Object.assign(new Image(), { src: api + '/api/events' }));
  const frame = Object.assign(document.createElement('iframe'), { src: api + '/', name: 'framed' });
  await loaded(frame);
  const inFrame = [outcome(() => frame.contentWindow.document), outcome(() => frame.contentWindow.fetch)];
  const form = document.createElement('form');
  Object.assign(form, { action: api + '/api/user/key/create', method: 'POST', enctype: 'text/plain', target: 'framed' });
  form.append(Object.assign(document.createElement('input'), { name: '{"name":"', value: 'stolen"}' }));
  document.body.append(form);
  const posted = new Promise((resolve) => { frame.onload = () => resolve(outcome(() => frame.contentWindow.document)); setTimeout(resolve, 2000, 'nothing'); });
  form.submit();
  const afterPost = await posted;
  const socket = await new Promise((resolve) => {
    const one = new WebSocket(api.replace('http', 'ws') + '/api/events');
    one.onopen = () => resolve('open');
    one.onerror = () => resolve('failed');
  });
  const stream = await new Promise((resolve) => {
    const one = new EventSource(api + '/api/events', { withCredentials: true });
    one.onopen = () => resolve('open');
    one.onerror = () => { one.close(); resolve('failed'); };
  });
  const worker = await Promise.resolve().then(() => navigator.serviceWorker.register('worker.js')).then(({ scope }) => scope, () => 'refused');
  const opener = window.opener === null ? 'none' : [outcome(() => window.opener.document), outcome(() => window.opener.fetch)].join();
  return { cookiesBefore, fetched, image, inFrame, afterPost, socket, stream, worker, opener };
})()`;

/**
 * Adds method and status of each answer of the API to `answered`. The browser's network log has
 * also the answers that it withholds from the page, which are no responses of a page.
 */
async function reportAnswers(page: Page, api: string, answered: string[]): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const methods = new Map<string, string>();
  const statuses = new Map<string, number[]>();
  // Both come in any order, and a request that is preflighted has two of each.
  const report = (id: string): void => {
    const method = methods.get(id);
    if (method === undefined) return;
    for (const status of statuses.get(id) ?? []) answered.push(`${method} ${status}`);
    statuses.delete(id);
  };
  session.on('Network.requestWillBeSent', ({ requestId, request }) => {
    if (request.url.startsWith(`${api}/api/`)) methods.set(requestId, request.method);
    report(requestId);
  });
  session.on('Network.responseReceivedExtraInfo', ({ requestId, statusCode }) => {
    statuses.set(requestId, [...(statuses.get(requestId) ?? []), statusCode]);
    report(requestId);
  });
  await session.send('Network.enable');
}

/** Opens the page from a page of the API, and returns the API's answers to its requests. */
async function attacked({ api, theirs }: Pick<AttackSite, 'api' | 'theirs'>, context: BrowserContext) {
  const mine = await visitor(context, api);
  const answered: string[] = [];
  const [page] = await Promise.all([context.waitForEvent('page'), mine.evaluate(`void window.open('${theirs}')`)]);
  await page.waitForLoadState();
  expect(await page.title()).toBe('theirs');
  await reportAnswers(page, api, answered);
  const reported: unknown = await page.evaluate(attack(api, theirs.includes('?plant=')));
  return { mine, page, reported, answered };
}

/** The page could read nothing of the visitor's. */
const nothing = {
  fetched: Array.from({ length: 8 }, () => 'failed'),
  image: 'failed',
  inFrame: ['SecurityError', 'SecurityError'],
  afterPost: 'SecurityError',
  socket: 'failed',
  stream: 'failed',
  opener: 'SecurityError,SecurityError',
};

describe('a foreign page', () => {
  test.each(Object.keys(attackSites))(
    '%s neither reads nor sets the login cookie, nor acts with the login',
    async (name) => {
      const site = attackSites[name]?.();
      if (!site) throw new Error(name);
      const context = await browser.newContext();
      const { mine, reported, answered } = await attacked({ ...site, theirs: `${site.theirs}?plant=planted` }, context);
      expect(reported).toMatchObject({
        ...nothing,
        cookiesBefore: site.cookies === 'none' ? 'SecurityError' : expect.not.stringMatching(/eyJ/),
        worker: site.worker === 'refused' ? 'refused' : site.theirs,
      });
      await expect.poll(() => answered, { timeout: 10_000 }).not.toEqual([]);
      expect(answered.filter((one) => !/ 4\d\d$/.test(one))).toEqual([]);
      expect((await admin.listApiKeys({})).keys).toEqual([]);
      // The visitor's login is unchanged, and its cookie never reached the instance.
      expect(await whoAmI(mine)).toBe('admin');
      expect(await cookiesSeen()).not.toContain(await tokenAt(context, site.api));
      await context.close();
    },
  );

  // docs/security.md documents this risk and its remedy.
  test('can receive and replace the cookie on a node port of the API’s host, but neither read it nor act with it', async () => {
    const api = server.apiUrl.replace('127.0.0.1', 'one.test');
    const context = await browser.newContext();
    const theirs = `http://one.test:${nodePort.nodePort}/`;
    const { mine, page, reported, answered } = await attacked({ api, theirs }, context);
    expect(reported).toMatchObject({ ...nothing, cookiesBefore: '', worker: 'refused' });
    // Reads are answered, and withheld from the page.
    const posts = (): Set<string> => new Set(answered.filter((one) => one.startsWith('POST')));
    await expect.poll(posts, { timeout: 10_000 }).toEqual(new Set(['POST 403']));
    expect((await admin.listApiKeys({})).keys).toEqual([]);
    expect(await cookiesSeen()).toContain(`AccessToken=${await tokenAt(context, api)}`);
    expect(await whoAmI(mine)).toBe('admin');

    const { token } = await login(server, 'mallory');
    await page.goto(`${theirs}?plant=${token}`);
    expect(await whoAmI(mine)).toBe('mallory');
    await context.close();
  });
});
