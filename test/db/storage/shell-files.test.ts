/** Files of a disk by shell commands, run by this host's shell and by BusyBox instead of a Pod. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { discardUploads, largestShellEntries, shellFiles, type OpenShell } from '../../../src/storage/files.ts';
import { UPLOAD_PREFIX } from '../../../src/storage/files/shell-scripts.ts';
import { findProgram } from '../../../scripts/lib/run.mjs';
import { longDescribe } from '../../fixtures/long-test.ts';
import { needsProgram } from '../../fixtures/programs.ts';
import { describeDiskFiles } from '../../conformance/disk-files.ts';

const shellIn =
  (root: string, path = process.env['PATH']): OpenShell =>
  async (script, args) => {
    // Node would look for the shell in the path of this process.
    const shell =
      (path ?? '')
        .split(':')
        .map((folder) => join(folder, 'sh'))
        .find((file) => existsSync(file)) ?? 'sh';
    const child = spawn(shell, ['-c', script, 'sh', root, ...args], {
      stdio: 'pipe',
      env: { ...process.env, PATH: path },
    });
    const exited = once(child, 'close').then(([code]: unknown[]) => Number(code ?? -1));
    const { stdin, stdout, stderr } = child;
    return { stdin, stdout, stderr, exited, close: () => void child.kill() };
  };

/** Some programs run for each operation. */
const SWAP_PAUSE_MS = 60;

const uploadsLeft = async (root: string): Promise<string[]> =>
  readdirSync(root).filter((name) => name.startsWith(UPLOAD_PREFIX));

longDescribe("by this host's shell", () => {
  describeDiskFiles({ open: (root) => shellFiles(shellIn(root)), uploadsLeft, swapPauseMs: SWAP_PAUSE_MS });
});

let hasBusybox = false;
needsProgram('busybox', { skip: (isMissing) => void (hasBusybox = !isMissing) });

// skipped on hosts without BusyBox, which images for access to files may have instead of GNU.
describe.skipIf(!hasBusybox)('by BusyBox', () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-busybox-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const busybox = findProgram('busybox') ?? '';
  const applets = hasBusybox ? execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n') : [];
  for (const applet of applets) symlinkSync(busybox, join(folder, applet));
  describeDiskFiles({ open: (root) => shellFiles(shellIn(root, folder)), uploadsLeft, swapPauseMs: SWAP_PAUSE_MS });
});

test('removes the uploads of a command that has ended, and nothing else', async () => {
  const root = mkdtempSync(join(tmpdir(), 'berth-files-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, 'folder'));
  for (const name of [`${UPLOAD_PREFIX}one`, `${UPLOAD_PREFIX}two`, 'mine', `folder/${UPLOAD_PREFIX}three`])
    await writeFile(join(root, name), 'half');
  await discardUploads(shellIn(root), AbortSignal.timeout(10_000));
  expect(readdirSync(root).toSorted()).toEqual(['folder', 'mine']);
  expect(readdirSync(join(root, 'folder'))).toEqual([`${UPLOAD_PREFIX}three`]);
});

test('finds the largest entries two levels deep, and says why it cannot', async () => {
  const root = mkdtempSync(join(tmpdir(), 'berth-files-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, 'runs/one/deep'), { recursive: true });
  await writeFile(join(root, 'runs/one/deep/file'), Buffer.alloc(400_000, 1));
  await writeFile(join(root, '1\tb\n2\tc'), Buffer.alloc(200_000, 1), { flush: true });
  const signal = AbortSignal.timeout(10_000);
  const found = await largestShellEntries(shellIn(root), signal);
  expect(found.map(({ path }) => path)).toEqual(['runs/one', '1?b?2?c']);
  await expect(largestShellEntries(shellIn(join(root, 'none')), signal)).rejects.toThrow(/ended with .*none/s);
});
