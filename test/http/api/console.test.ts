/** The files of the web console: their policies. */
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fakeControl } from './fake-control.ts';
import { startEdge, type BareApi } from './harness.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'berth-console-'));
let api: BareApi;
beforeAll(async () => {
  mkdirSync(path.join(folder, 'console-assets'));
  writeFileSync(path.join(folder, 'index.html'), '<meta name="style-nonce" content="%STYLE_NONCE%">');
  writeFileSync(path.join(folder, 'console-assets', 'event-worker-1.js'), 'self.onconnect = () => {};');
  api = await startEdge(fakeControl({}), { consoleFolder: folder });
});
afterAll(async () => {
  await api.stop();
  rmSync(folder, { recursive: true });
});

test('lets the worker of a page follow the events of the API, and nothing else', async () => {
  const { headers } = await fetch(`${api.origin}/console-assets/event-worker-1.js`);
  expect(headers.get('content-security-policy')?.split('; ')).toEqual(
    expect.arrayContaining(["default-src 'none'", "connect-src 'self'"]),
  );
});

test('gives each page a nonce of its own for the styles that scripts add', async () => {
  const pages = await Promise.all(
    ['/', '/instances/notebook-1'].map(async (place) => {
      const answer = await fetch(api.origin + place);
      const [, nonce] = /content="(.+)"/.exec(await answer.text()) ?? [];
      expect(answer.headers.get('content-security-policy')).toContain(`style-src 'self' 'nonce-${nonce}'`);
      return nonce;
    }),
  );
  expect(new Set(pages).size).toBe(pages.length);
});
