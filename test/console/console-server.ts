/** The real server on the simulated engine, with the built console, and browsers at it. */
import axe from 'axe-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import type { Client } from '../../src/contract/client.ts';
import { launchBrowser } from '../fixtures/browser.ts';
import { login, PASSWORD, startServerProcess, until, type ServerProcess } from '../fixtures/server-process.ts';

export interface ConsoleServer {
  server: ServerProcess;
  browser: Browser;
  /** Client of the administrator. */
  admin: Client;
  /** An account with a login of its own. */
  newAccount(): Promise<{ username: string; client: Client }>;
  clientOf(username: string): Promise<Client>;
}

/** Started before the tests of a file, and stopped after them. */
export function useConsoleServer(nodePorts: string, settings: Record<string, string> = {}): ConsoleServer {
  const held: { server?: ServerProcess; browser?: Browser; admin?: Client } = {};
  let accounts = 0;
  const clientOf = async (username: string): Promise<Client> => (await login(take('server'), username)).client;
  const take = <Name extends keyof typeof held>(name: Name): NonNullable<(typeof held)[Name]> =>
    held[name] ?? expect.fail(`the ${name} has not started`);
  beforeAll(async () => {
    held.server = await startServerProcess({ nodePorts, settings: { BERTH_ENGINE: 'simulated', ...settings } });
    held.browser = await launchBrowser();
    held.admin = await clientOf('admin');
  });
  afterAll(async () => {
    await held.browser?.close();
    await held.server?.stop();
  });
  return {
    get server() {
      return take('server');
    },
    get browser() {
      return take('browser');
    },
    get admin() {
      return take('admin');
    },
    clientOf,
    async newAccount() {
      accounts += 1;
      const username = `person-${accounts}`;
      await take('admin').createUser({ username, password: PASSWORD });
      return { username, client: await clientOf(username) };
    },
  };
}

export interface Visit {
  context: BrowserContext;
  page: Page;
  /** What the browser refused, threw or was answered with an error. */
  troubles: string[];
}

export interface Look {
  width?: number;
  theme?: 'light' | 'dark';
  language?: 'en-US' | 'zh-CN';
}

/** A logged-in browser of an account. */
export async function visit(
  { server, browser }: Pick<ConsoleServer, 'server' | 'browser'>,
  username: string,
  { width = 1280, theme = 'light', language = 'en-US' }: Look = {},
): Promise<Visit> {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: theme,
    locale: language,
    reducedMotion: 'reduce',
  });
  const answer = await context.request.post(`${server.apiUrl}/api/user/login`, {
    data: { username, password: PASSWORD },
  });
  expect(answer.status()).toBe(200);
  const page = await context.newPage();
  const troubles: string[] = [];
  page.on('console', (line) => line.type() === 'error' && troubles.push(line.text()));
  page.on('pageerror', (error) => troubles.push(String(error)));
  page.on('request', (request) => {
    const { origin } = new URL(request.url());
    if (origin !== server.apiUrl && origin !== server.gatewayUrl) troubles.push(`a request to ${origin}`);
  });
  return { context, page, troubles };
}

/** Closes the pages of a visit: of answers that a test was about to change, none is missed. */
export async function leave(context: BrowserContext): Promise<void> {
  for (const page of context.pages()) await page.unrouteAll({ behavior: 'ignoreErrors' });
  await context.close();
}

/** Waits until the page has a heading and loads nothing that it has announced. */
export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading').first().waitFor();
  await until(
    () => page.locator('[aria-busy=true]').count(),
    (count) => count === 0,
  );
}

/** Findings that axe calls serious or critical. */
const askFindings = `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
  violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => id + ': ' + nodes.map(({ target, failureSummary }) => target.join(' ') + ' ' + failureSummary).join(' | ').slice(0, 600)))`;

export async function seriousFindings(page: Page): Promise<unknown> {
  await page.evaluate(axe.source);
  return page.evaluate(askFindings);
}
