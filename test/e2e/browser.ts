/** The browser that is installed here, under any of the names it goes by. */
import { accessSync, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

export function browserPath(): string {
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
