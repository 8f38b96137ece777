/**
 * The gateway as a process of its own: open connections survive a kill of the API, and new ones are
 * accepted meanwhile.
 */
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import { IMAGE_DEADLINE_MS, launchFirst } from '../../fixtures/first-launch.ts';
import { executeRequest } from '../../fixtures/jupyter.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';

const LINES = 80;

let server: ServerProcess;
let client: Client;
let token: string;
let headers: Record<string, string>;
beforeAll(async () => {
  server = await startServerProcess({ nodePorts: '32100-32149', gatewayApart: true });
  ({ client, token } = await login(server));
  headers = { authorization: `Bearer ${token}` };
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await server?.stop();
});

async function launched(): Promise<{ instanceId: string; notebookUrl: string; portUrl: string }> {
  const initScript = 'cd /root/dataDisk && echo mine > file && exec python3 -m http.server 8000';
  const { instanceId, instanceRuntimeInfo } = await launchFirst(client, {
    name: 'apart',
    initScript,
    nodePorts: [8000],
  });
  const notebookUrl = `${server.gatewayUrl}${instanceRuntimeInfo.subUrl}`;
  await until(
    () => fetch(`${notebookUrl}api/status`, { headers }),
    ({ ok }) => ok,
  );
  return { instanceId, notebookUrl, portUrl: `${server.gatewayUrl}/forward/${instanceId}/8000/file` };
}

/** A kernel that prints ten numbered lines a second; returns the output so far. */
async function counting(notebookUrl: string): Promise<{ printed: () => string; socket: WebSocket }> {
  const made = await fetch(`${notebookUrl}api/kernels`, { method: 'POST', headers, body: '{"name":"python3"}' });
  const { id }: { id: string } = JSON.parse(await made.text());
  const socket = new WebSocket(`${notebookUrl.replace('http', 'ws')}api/kernels/${id}/channels`, { headers });
  let printed = '';
  socket.on('message', (bytes: Buffer) => {
    const { msg_type: type, content } = JSON.parse(bytes.toString());
    if (type === 'stream') printed += content.text;
  });
  await once(socket, 'open');
  const code = `import time\nfor n in range(${LINES}):\n  print(n, flush=True)\n  time.sleep(0.1)`;
  socket.send(executeRequest(code).text);
  return { printed: () => printed, socket };
}

test('a kernel keeps printing while the API is down; cached logins and public ports connect meanwhile', async () => {
  const { instanceId, notebookUrl, portUrl } = await launched();
  const { printed, socket } = await counting(notebookUrl);
  let closed = false;
  socket.on('close', () => (closed = true));
  await until(
    async () => printed(),
    (text) => text.includes('5\n'),
  );

  await server.kill('SIGKILL');
  expect((await fetch(`${notebookUrl}api/status`, { headers })).status).toBe(200);
  expect(await (await fetch(portUrl)).text()).toBe('mine\n');
  const unauthenticated = await fetch(`${notebookUrl}api/status`, { headers: { 'x-api-key': 'berth_unknown' } });
  expect(unauthenticated.status).toBe(503);
  expect(await unauthenticated.json()).toMatchObject({
    message: expect.stringMatching(/the API is away for a moment/),
  });

  await server.start();
  await until(
    async () => printed(),
    (text) => text.includes(`${LINES - 1}\n`),
  );
  expect(printed()).toBe(Array.from({ length: LINES }, (_, n) => `${n}\n`).join(''));
  expect(closed).toBe(false);
  expect((await fetch(`${notebookUrl}api/status`, { headers: { 'x-api-key': 'berth_unknown' } })).status).toBe(401);

  const page = await fetch(`${notebookUrl}lab?x=1`, { headers: { accept: 'text/html' } });
  const back = encodeURIComponent(`${new URL(notebookUrl).pathname}lab?x=1`);
  expect(await page.text()).toContain(`href="${server.apiUrl}/login?to=${back}"`);

  // The gateway follows changes of the restarted API: access ends with the instance.
  await client.terminate({ instanceId });
  await until(async () => closed, Boolean);
  expect((await fetch(portUrl)).status).toBe(401);
});
