/** The browser that is installed here, under any of the names it goes by, as tests begin it. */
import { accessSync, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium, type Browser } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** What a browser asks of the world by itself finds nobody here. */
const ALONE = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export const launchBrowser = (...more: string[]): Promise<Browser> =>
  chromium.launch({ executablePath: browserPath(), args: [...ALONE, ...more] });

function browserPath(): string {
  const folders = (process.env['PATH'] ?? '').split(':');
  for (const path of NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      continue;
    }
  }
  throw new Error(`no browser: install one of ${NAMES.join(', ')}`);
}

const QUIET_MS = 3_000;
const LONGEST_MS = 30_000;

/**
 * Chromium gives up all that it loads when an address of this machine comes or goes (net::ERR_NETWORK_CHANGED), and each container that is
 * started brings some, the last of them after seconds. Waits until none has for a while; not for ever, as other work may start more.
 */
export async function networkSettled(): Promise<void> {
  const addresses = async (): Promise<string> =>
    JSON.stringify(networkInterfaces()) + (await readFile('/proc/net/if_inet6', 'utf8').catch(() => ''));
  const endMs = Date.now() + LONGEST_MS;
  let [last, sinceMs] = [await addresses(), Date.now()];
  while (Date.now() - sinceMs < QUIET_MS && Date.now() < endMs) {
    await sleep(100);
    const now = await addresses();
    if (now !== last) [last, sinceMs] = [now, Date.now()];
  }
}
