/** The program at a PostgreSQL that is not there yet, or can't be used. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { program } from '../../../scripts/lib/program.mjs';
import { eventually } from '../../fixtures/eventually.ts';
import { tcpServer } from './own-server.ts';

async function start(url: string) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-start-'));
  const child = spawn(process.execPath, program, {
    cwd: join(import.meta.dirname, '../../..'),
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      BERTH_DATA: folder,
      BERTH_DATABASE_URL: url,
      BERTH_ENGINE: 'simulated',
      BERTH_LISTEN: '127.0.0.1:0',
      BERTH_GATEWAY_LISTEN: '127.0.0.1:0',
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => void (output += bytes.toString()));
  const ended = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true, force: true });
  });
  return {
    ended,
    stop: () => child.kill('SIGTERM'),
    output: () => output,
    says: (text: string) =>
      eventually(
        () => output.includes(text),
        () => output,
      ),
  };
}

test('waits for PostgreSQL and says so, ends on a signal meanwhile, and starts once it is there', async () => {
  const server = await tcpServer();
  await server.halt();
  const [berth, stopped] = [await start(server.url), await start(server.url)];
  const waits = 'ECONNREFUSED';
  await Promise.all([berth.says(waits), stopped.says(waits)]);
  expect(berth.output()).toMatch(/BERTH_DATABASE_URL: 127.0.0.1:\d+ does not answer .* Berth waits for it/);
  stopped.stop();
  expect(await stopped.ended).toEqual([0, null]);
  await server.restart();
  await berth.says('Berth is ready.');
  expect(berth.output()).not.toContain('send the same request again');
});

test('ends with the name of the setting when the database refuses it', async () => {
  const server = await tcpServer();
  const berth = await start(server.url.replace('sesame', 'wrong'));
  expect(await berth.ended).toEqual([1, null]);
  expect(berth.output()).toMatch(/Berth could not start. BERTH_DATABASE_URL: .* correct user and password\n/);
  expect(berth.output()).not.toContain('sesame');
});
