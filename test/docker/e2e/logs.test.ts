/**
 * Logs on a real engine: live and by range, over restarts of instance and server, and with
 * unbounded output.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LogStreamItem } from '../../../src/contract/compute/log-client.ts';
import { IMAGE_DEADLINE_MS, launchFirst, running } from '../../fixtures/first-launch.ts';
import { shell } from './container-shell.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';

const MB = 1_000_000;

let server: ServerProcess;
let client: Client;
beforeAll(async () => {
  server = await startServerProcess({ nodePorts: '32280-32299' });
  ({ client } = await login(server));
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await server?.stop();
});

const launched = async (initScript: string): Promise<string> =>
  (await launchFirst(client, { name: 'talks', initScript })).instanceId;

/** Follows the log during the test; `text` is the output so far. */
function following(instanceId: string, source: 'console' | 'init' = 'console') {
  const reported: (LogStreamItem & { heardMs: number })[] = [];
  const leave = new AbortController();
  const over = (async () => {
    for await (const one of client.followLogs(instanceId, { source, signal: leave.signal }))
      reported.push({ ...one, heardMs: Date.now() });
  })();
  over.catch(() => {});
  const lines = () => reported.filter((one) => one.type === 'line');
  return { reported, lines, texts: () => lines().map(({ text }) => text), over, leave: () => leave.abort() };
}

const counted = (texts: readonly string[]): number[] =>
  texts.filter((text) => text.startsWith('tick ')).map((text) => Number(text.slice(5)));
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

test('follows a printing init script live to its end, and reads it by page', async () => {
  const id = await launched('for n in $(seq 0 19); do echo "tick $n"; sleep 0.25; done; printf "last words"; exit 3');
  const log = following(id, 'init');
  await until(
    async () => counted(log.texts()).length,
    (count) => count > 3,
  );
  expect(counted(log.texts()).length).toBeLessThan(20);
  expect((await client.logs({ instanceId: id, source: 'init', tail: 1 })).lines[0]?.text).toMatch(/^tick \d+$/);
  await log.over;
  expect(counted(log.texts())).toEqual(upTo(20));
  expect(log.texts().at(-1)).toBe('last words');
  expect(log.reported.at(-1)?.type).toBe('end');
  const page = await client.logs({ instanceId: id, source: 'init', limit: 5, after: '10' });
  expect(page).toMatchObject({ next: '15', more: true });
  expect(counted(page.lines.map(({ text }) => text))).toEqual([10, 11, 12, 13, 14]);
  await client.terminate({ instanceId: id });
});

/** Prints a line every 0.1 s on the console, numbered from 1 at each start. */
const TICKS = `cat >/usr/local/bin/ticks <<'END'
n=0; while :; do echo "tick $n"; n=$((n + 1)); sleep 0.1; done
END
setsid sh /usr/local/bin/ticks >/proc/1/fd/1 2>&1 </dev/null &`;

test('the console is live within a second, by range, across a killed server and a restarted instance', async () => {
  const id = await launched(TICKS);
  const log = following(id);
  await until(
    async () => counted(log.texts()).length,
    (count) => count > 15,
  );
  const late = log
    .lines()
    .slice(-5)
    .map(({ heardMs, atUnixMs }) => heardMs - (atUnixMs ?? 0));
  expect(Math.max(...late)).toBeLessThan(1_000);
  expect(log.texts()[0]).toBe('berth: services ssh notebook');

  const [from, to] = [log.lines().at(-8)?.atUnixMs ?? 0, log.lines().at(-3)?.atUnixMs ?? 0];
  const ranged = await client.logs({ instanceId: id, sinceUnixMs: from, untilUnixMs: to });
  const wanted = log.lines().filter(({ atUnixMs }) => (atUnixMs ?? 0) >= from && (atUnixMs ?? 0) < to);
  expect(ranged.lines.map(({ text }) => text)).toEqual(wanted.map(({ text }) => text));

  await server.kill('SIGKILL');
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await server.start();
  await until(
    async () => counted(log.texts()).at(-1) ?? 0,
    (last) => last > 60,
  );
  expect(counted(log.texts())).toEqual(upTo(counted(log.texts()).length));

  const before = log.lines().length;
  await client.restart({ instanceId: id });
  await until(
    async () => log.texts().slice(before),
    (texts) => texts.includes('berth: services ssh notebook'),
  );
  await running(client, id);
  await shell(id, 'setsid sh /usr/local/bin/ticks >/proc/1/fd/1 2>&1 </dev/null &');
  await until(
    async () => log.texts(),
    (texts) => counted(texts.slice(texts.lastIndexOf('berth: services ssh notebook'))).length > 5,
  );
  const second = log.texts().slice(log.texts().lastIndexOf('berth: services ssh notebook'));
  expect(counted(second)).toEqual(upTo(counted(second).length));

  await client.stop({ instanceId: id });
  await until(
    () => client.getInstance({ instanceId: id }),
    ({ instance }) => instance.instanceRuntimeInfo.status === 'Stopped',
  );
  const page = await client.logs({ instanceId: id, tail: 3 });
  expect(counted(page.lines.map(({ text }) => text))).toEqual(counted(log.texts()).slice(-3));
  await client.terminate({ instanceId: id });
  await log.over;
  expect(log.reported.at(-1)?.type).toBe('end');
  expect(log.reported.some(({ type }) => type === 'gap')).toBe(false);
});

async function serverMemoryMB(): Promise<number> {
  const holder = await readFile(join(server.folder, 'berth.lock.holder'), 'utf8');
  const status = await readFile(`/proc/${/\d+/.exec(holder)?.[0]}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1_000;
}

test('200 MB of output stay bounded on the engine and in the server’s memory, with and without readers', async () => {
  const id = await launched('true');
  const token = (await shell(id, 'cat /etc/berth/notebook-token')).trim();
  expect(token.length).toBeGreaterThan(20);
  await shell(id, `echo "the token is ${token}." >/proc/1/fd/1`);
  expect((await client.logs({ instanceId: id })).lines.at(-1)?.text).toBe("the token is [the notebook's secret].");

  const lazy = await client.downloadLog(id);
  const log = following(id);
  const beforeMB = await serverMemoryMB();
  let mostMB = 0;
  const watching = setInterval(() => void serverMemoryMB().then((nowMB) => (mostMB = Math.max(mostMB, nowMB))), 200);
  const printed = shell(
    id,
    'yes "$(head -c 99 /dev/zero | tr "\\0" x)" | head -c 200000000 >/proc/1/fd/1; echo done >/proc/1/fd/1',
  );
  await printed;
  await until(
    async () => log.texts().at(-1),
    (text) => text === 'done',
    120_000,
  );
  const whole = await client.downloadLog(id, { times: false });
  const text = await whole.text();
  clearInterval(watching);
  // Output was faster than the reader: the gap is reported.
  const printedLines = Math.ceil((200 * MB) / 100);
  if (log.lines().length < printedLines) expect(log.reported.map(({ type }) => type)).toContain('gap');
  expect(text.endsWith('done\n')).toBe(true);
  expect(text.length).toBeLessThan(10.5 * MB);
  expect(text.length).toBeGreaterThan(2 * MB);
  expect(mostMB - beforeMB).toBeLessThan(150);
  await lazy.body?.cancel();

  const pages: string[] = [];
  for (let after: string | null = null, more = true; more;) {
    const page = await client.logs({ instanceId: id, limit: 5_000, ...(after === null ? {} : { after }) });
    expect(page.gap).toBe(false);
    pages.push(...page.lines.map((line) => line.text));
    ({ next: after, more } = page);
  }
  expect(pages.join('\n')).toBe(text.slice(0, -1));
  log.leave();
  await client.terminate({ instanceId: id });
});
