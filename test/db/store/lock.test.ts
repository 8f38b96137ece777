/** A data folder has one process at a time, and is free after any exit. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { lockFolder } from '../../../src/store/db/folder-lock.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-lock-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const lockModule = new URL('../../../src/store/db/folder-lock.ts', import.meta.url).href;
const holdForever = `
  const { lockFolder } = await import(${JSON.stringify(lockModule)});
  const lock = lockFolder(process.argv[1]);
  console.log('held');
  process.on('SIGTERM', () => { lock.release(); process.exit(0); });
  setInterval(() => {}, 1000);`;

async function holder() {
  const child = spawn(process.execPath, ['--input-type=module', '-e', holdForever, folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  expect(line).toBe('held');
  const end = async (signal: NodeJS.Signals) => {
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  return { pid: child.pid, end };
}

test('refuses a second start, with the process and host of the first', async () => {
  const other = await holder();
  try {
    expect(() => lockFolder(folder)).toThrow(`in use by another Berth: process ${other.pid} on ${hostname()}`);
    expect(() => lockFolder(folder)).toThrow(/Stop the other Berth/);
  } finally {
    await other.end('SIGKILL');
  }
});

test('releases the lock with its process, even when killed', async () => {
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const other = await holder();
    expect(() => lockFolder(folder)).toThrow(/in use/);
    await other.end(signal);
    expect(() => lockFolder(folder).release()).not.toThrow();
  }
});

test('refuses a second lock in one process until it is released', () => {
  const lock = lockFolder(folder);
  expect(() => lockFolder(folder)).toThrow(`process ${process.pid} on`);
  lock.release();
  lock.release();
  lockFolder(folder).release();
});

test('a refused attempt leaves the lock with its holder', async () => {
  const lock = lockFolder(folder);
  expect(() => lockFolder(folder)).toThrow(/in use/);
  expect(() => lockFolder(folder)).toThrow(/in use/);
  lock.release();
});

test('reports a missing folder as missing, not as in use', () => {
  expect(() => lockFolder(join(folder, 'missing'))).toThrow(/unable to open/);
});

test('is acquired on a full disk, without the name of the holder', async () => {
  const holderFile = join(folder, 'berth.lock.holder');
  await symlink('/dev/full', holderFile);
  const lock = lockFolder(folder);
  await rm(holderFile);
  expect(() => lockFolder(folder)).toThrow(/in use by another Berth/);
  lock.release();
});
