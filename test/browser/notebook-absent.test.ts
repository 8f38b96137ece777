/** A cell that prints while no page is open: memory of the notebook server, and the way back. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Browser } from 'playwright-core';
import { launchBrowser } from '../fixtures/browser.ts';
import { IMAGE_DEADLINE_MS, launchFirst } from '../fixtures/first-launch.ts';
import { atLevel } from '../fixtures/level.ts';
import {
  isIdle,
  openNewNotebook,
  openPatientPage,
  outputOf,
  PAGE_MS,
  printing,
  run,
  save,
} from '../fixtures/notebook-page.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../fixtures/server-process.ts';

const MEGABYTES = atLevel({ short: 5, long: 1_000 });
const LAST = `${MEGABYTES * 1_000 - 1} xxx`;
const SERVER_MB = 400;

let server: ServerProcess;
let client: Client;
let token: string;
let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
  server = await startServerProcess({ nodePorts: '32760-32767' });
  ({ client, token } = await login(server));
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

test(
  'output without a page costs the server little, and is kept until a page has saved it',
  async () => {
    const { instanceId } = await launchFirst(client, { name: 'absent' });
    const inside = async (command: string): Promise<string> =>
      (await client.exec({ instanceId, command: ['sh', '-c', command] })).stdout;
    const jupyter = async (path: string): Promise<Response> =>
      fetch(`${server.gatewayUrl}/notebook/${instanceId}/${path}`, { headers: { authorization: `Bearer ${token}` } });
    const page = await openPatientPage(browser);
    await openNewNotebook(page, (await client.open({ instanceId })).url);
    expect(await save(page, true)).toBe(200);
    await run(page, 0, printing(MEGABYTES * 1_000));
    await outputOf(page, 0).getByText('begun').waitFor({ timeout: PAGE_MS });
    expect(await save(page)).toBe(200);
    await page.close();
    await inside('touch /tmp/go');
    const files = (): Promise<string> => inside('ls /tmp');
    await until(files, (names) => names.includes('ended'), 15 * 60_000);
    const peak = await inside('grep VmHWM /proc/$(cat /dev/shm/berth/notebook.pid)/status | tr -dc 0-9');
    const peakMB = Number(peak) / 1_000;
    expect(peakMB).toBeGreaterThan(50);
    expect(peakMB).toBeLessThan(SERVER_MB);

    const opened = async (): Promise<{ again: typeof page; shownMs: number }> => {
      const again = await openPatientPage(browser);
      await again.addInitScript('performance.setResourceTimingBufferSize(2000)');
      // Its page opens the notebook, too, and is left at once.
      await again.goto((await client.open({ instanceId })).url);
      await again.goto(`${server.gatewayUrl}/notebook/${instanceId}/lab/tree/Untitled.ipynb`);
      await outputOf(again, 0).getByText(LAST).last().waitFor({ timeout: PAGE_MS });
      const sinceAsked =
        "performance.now() - performance.getEntriesByType('resource').find(({ name }) => name.includes('/berth/kept/')).startTime";
      return { again, shownMs: await again.evaluate<number>(sinceAsked) };
    };
    // Left before it has saved what it shows.
    const first = await opened();
    await first.again.close();
    const { again, shownMs } = await opened();
    console.log(
      `server at most ${Math.round(peakMB)} MB; end shown ${[first.shownMs, shownMs].map(Math.round)} ms after its page asked`,
    );
    const text = (await outputOf(again, 0).allTextContents()).join('');
    expect(text.startsWith('begun\n0 xxx')).toBe(true);
    expect(text).toContain('more than is kept');
    await isIdle(again);

    const saved = (): Promise<string> => inside('tail -c 20000 /root/Untitled.ipynb');
    await expect.poll(saved, { timeout: PAGE_MS }).toContain(LAST);
    const [kernel] = (await (await jupyter('api/kernels')).json()) as { id: string }[];
    const kept = async (): Promise<unknown> => (await jupyter(`berth/kept/${kernel?.id}?session=other`)).json();
    await expect.poll(kept, { timeout: PAGE_MS }).toEqual({ runs: [] });
    await client.terminate({ instanceId });
  },
  30 * 60_000,
);
