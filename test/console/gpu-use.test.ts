/** The bill says how busy the GPUs of the account were. */
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { HOUR_MS } from '../../src/domain/kernel/durations.ts';
import { launchFirst } from '../fixtures/first-launch.ts';
import { leave, type Look, settled, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('32760-32767');

/** An account with an instance, and with these hours of GPUs in the hour of now. */
async function accountWith(hours: { held: number; measured: number; busy: number } | null): Promise<string> {
  const { username, client } = await server.newAccount();
  await launchFirst(client, { name: 'seen' });
  if (hours === null) return username;
  const { userId } = await client.userInfo();
  const database = new DatabaseSync(join(server.server.folder, 'berth.db'));
  database.exec('pragma busy_timeout = 60000');
  const values = [hours.held, hours.measured, hours.busy].map((count) => count * HOUR_MS);
  const atMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  database.prepare('insert into "gpuUse" values (?, ?, ?, ?, ?)').run(userId, atMs, ...values);
  database.close();
  return username;
}

interface Shown extends Look {
  search?: string;
}

/** Opens the bill, and expects these lines about GPUs. */
async function expectGpuLines(username: string, lines: string[], { search = '', ...look }: Shown = {}): Promise<void> {
  const { context, page, troubles } = await visit(server, username, look);
  try {
    const answered = page.waitForResponse(/\/api\/billing\/gpu\/use$/);
    await page.goto(`${server.server.apiUrl}/billing${search}`);
    await (await answered).finished();
    await settled(page);
    await expect.poll(() => page.getByText(/GPU/).allTextContents()).toEqual(lines);
    expect(troubles).toEqual([]);
  } finally {
    await leave(context);
  }
}

test('the month says the hours that GPUs were held and busy, in the language of the page', async () => {
  const username = await accountWith({ held: 120, measured: 120, busy: 31.2 });
  await expectGpuLines(username, ['Your GPUs: 120 hr held, 31 hr busy (26%)']);
  await expectGpuLines(username, ['您的 GPU：占用 120小时，忙碌 31小时（26%）'], { language: 'zh-CN' });
  const { timeZone } = await server.admin.forecast();
  const today = Number(new Intl.DateTimeFormat('en', { day: 'numeric', timeZone }).format(Date.now()));
  await expectGpuLines(username, [], { search: `?day=${today === 1 ? 2 : 1}` });
});

test('the month says what was not measured, and nothing without GPUs', async () => {
  const [partly, never, none] = [
    await accountWith({ held: 10, measured: 4, busy: 1 }),
    await accountWith({ held: 1.5, measured: 0, busy: 0 }),
    await accountWith(null),
  ];
  await expectGpuLines(partly, ['Your GPUs: 10 hr held, 1 hr busy (25%), 4 hr of it measured']);
  await expectGpuLines(never, ['Your GPUs: 1.5 hr held, use not measured']);
  await expectGpuLines(none, []);
});
