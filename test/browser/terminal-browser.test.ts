/**
 * A terminal in a real browser: the API's own origin opens it by cookie, other origins such as
 * pages of instances can't.
 */
import { createServer } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { execFixture } from '../http/api/exec-fixture.ts';
import { launchBrowser, openPageOf } from '../fixtures/browser.ts';

/** Runs in the page: returns the terminal's output after one typed line, or the refusal. */
const IN_PAGE = `async ({ url, line }) => new Promise((resolve) => {
  const socket = new WebSocket(url, 'berth.terminal.v1');
  socket.binaryType = 'arraybuffer';
  let shown = '';
  const decoder = new TextDecoder();
  socket.onopen = () => socket.send(new TextEncoder().encode(line));
  socket.onmessage = ({ data }) => {
    if (typeof data !== 'string') shown += decoder.decode(data, { stream: true });
    if (shown.includes('\\r\\nfrom a page\\r\\n')) resolve({ protocol: socket.protocol, shown });
  };
  socket.onclose = ({ code }) => resolve({ code });
})`;

test('opens a terminal by cookie from the API’s origin, and refuses another port of the same host', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const foreign = createServer((_request, response) => response.end('<p>elsewhere</p>'));
  await new Promise<void>((resolve) => foreign.listen(0, '127.0.0.1', resolve));
  const address = foreign.address();
  const browser = await launchBrowser();
  onTestFinished(async () => {
    await browser.close();
    foreign.close();
  });
  const context = await browser.newContext();
  await context.addCookies([
    { name: 'AccessToken', value: admin.token, url: api.origin, httpOnly: true, sameSite: 'Lax' },
  ]);
  const url = `${api.origin.replace('http', 'ws')}/api/instance/terminal?instanceId=${instanceId}`;
  const tried = async (origin: string): Promise<unknown> => {
    const page = await context.newPage();
    await openPageOf(page, origin);
    return page.evaluate(`(${IN_PAGE})(${JSON.stringify({ url, line: 'echo from a page\r' })})`);
  };
  expect(await tried(api.origin)).toEqual({
    protocol: 'berth.terminal.v1',
    shown: expect.stringContaining('\r\nfrom a page\r\n'),
  });
  if (address === null || typeof address === 'string') throw new Error('no port');
  expect(await tried(`http://127.0.0.1:${address.port}`)).toEqual({ code: 1006 });
  const { terminals } = await admin.client.listTerminals({ instanceId });
  expect(terminals).toHaveLength(1);
});
