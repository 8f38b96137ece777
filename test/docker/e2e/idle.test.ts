/**
 * Idle detection on real parts: a Jupyter kernel, an ssh session, CPU and connections read from the
 * engine.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import type { IdleLimits } from '../../../src/domain/compute/idle.ts';
import { executeRequest } from '../../fixtures/jupyter.ts';
import { startInside, type ServerInside } from './in-process-server.ts';
import { login, until } from '../../fixtures/server-process.ts';
import { makeSshKey, type SshKey } from '../../fixtures/ssh.ts';

const IMAGE_DEADLINE_MS = 600_000;
const STOP_DEADLINE_MS = 90_000;
const AFTER_MS = 9_000;
const pager = { currentPage: 1, pageSize: 10 };

let inside: ServerInside;
let key: SshKey;
let headers: Record<string, string>;

beforeAll(async () => {
  key = await makeSshKey();
  const limits = { checkEveryMs: 2_000, staleMs: 20_000, recentMs: 2_500 } satisfies Partial<IdleLimits>;
  inside = await startInside({ nodePorts: '31700-31749', limits: {}, idle: { afterMs: AFTER_MS, limits } });
  headers = { authorization: `Bearer ${(await login(inside.server)).token}` };
  await inside.client.createSshKey({ name: 'e2e', publicKey: key.publicKey });
  await until(
    () => inside.client.listImages({ pager }),
    ({ images }) => images.some(({ state }) => state === 'Ready'),
    IMAGE_DEADLINE_MS,
  );
}, IMAGE_DEADLINE_MS);

afterAll(async () => {
  await key?.remove();
  await inside?.stop();
});

/** Waits until the activity route reports the state with the reason. */
const says = (instanceId: string, state: string, because: RegExp) =>
  until(
    () => inside.client.activity({ instanceId }),
    (reported) => reported.state === state && because.test(reported.because),
    30_000,
  );

/** Checks the state for longer than the idle limit. */
async function outlastsIdleness(instanceId: string): Promise<void> {
  const from = (await inside.client.activity({ instanceId })).lookedAtUnixMs ?? 0;
  await until(
    () => inside.client.activity({ instanceId }),
    ({ lookedAtUnixMs }) => (lookedAtUnixMs ?? 0) > from + AFTER_MS + 4_000,
  );
  await inside.sees(instanceId, { status: 'Running' });
}

/**
 * JupyterLab sends a kernel request of its own on connect. An answer to it that arrives after code
 * has begun to run makes the kernel look idle to Jupyter until the code ends.
 */
async function atRest(kernelUrl: string, socket: WebSocket): Promise<void> {
  let before = '';
  await until(
    async () => {
      // Jupyter misses states that a kernel reports before the subscription, and then knows none.
      if (before.includes('"starting"')) socket.send(executeRequest('').text);
      await sleep(500);
      return (await fetch(kernelUrl, { headers })).text();
    },
    (text) => {
      const isSame = text === before;
      before = text;
      return isSame && JSON.parse(text).execution_state === 'idle';
    },
  );
}

/** Opens a notebook and starts code in its kernel, without waiting for its end. */
async function runInNotebook(notebookUrl: string, path: string, code: string): Promise<void> {
  const body = JSON.stringify({ path, name: '', type: 'notebook', kernel: { name: 'python3' } });
  const made = await fetch(`${notebookUrl}api/sessions`, { method: 'POST', headers, body });
  expect(made.status).toBe(201);
  const { kernel } = (await made.json()) as { kernel: { id: string } };
  const socket = new WebSocket(`${notebookUrl.replace('http', 'ws')}api/kernels/${kernel.id}/channels`, { headers });
  await once(socket, 'open');
  await atRest(`${notebookUrl}api/kernels/${kernel.id}`, socket);
  const request = executeRequest(code);
  socket.send(request.text);
  const begun = new Promise<void>((resolve) =>
    socket.on('message', (bytes: Buffer) => {
      const { msg_type: type, parent_header: parent } = JSON.parse(bytes.toString());
      if (type === 'execute_input' && parent.msg_id === request.id) resolve();
    }),
  );
  await begun;
  socket.close();
}

test('a busy kernel and an open ssh session keep an instance up; afterwards it is warned and stopped', async () => {
  const { client } = inside;
  const instanceId = await inside.launch({});
  // Keeps the instance up during the set-up.
  await client.keepAlive({ instanceId, minutes: 30 });
  const running = await inside.sees(instanceId, { status: 'Running' }, 60_000);
  const notebookUrl = `${inside.server.gatewayUrl}${running.instanceRuntimeInfo.subUrl}`;
  await says(instanceId, 'active', /^a keep-alive call prevents the stop until /);
  await until(
    () => fetch(`${notebookUrl}api/status`, { headers }),
    ({ ok }) => ok,
  );
  await runInNotebook(
    notebookUrl,
    'train.ipynb',
    'import os, time\nwhile not os.path.exists("/tmp/go"): time.sleep(0.2)',
  );
  await client.keepAlive({ instanceId, minutes: 0 });
  await says(instanceId, 'active', /^a kernel is busy \(notebook train\.ipynb\)$/);
  await outlastsIdleness(instanceId);
  await says(instanceId, 'active', /^a kernel is busy \(notebook train\.ipynb\)$/);

  const port = running.instanceSpecInfo.nodePorts.find((one) => one.port === 22)?.nodePort ?? 0;
  let open = true;
  const session = key.ssh(port, 'touch /tmp/go; sleep 22').finally(() => {
    open = false;
  });
  await says(instanceId, 'active', /^an ssh session is open$/);
  await outlastsIdleness(instanceId);
  expect(open, 'the session is still open').toBe(true);
  await session;

  const reported = await says(instanceId, 'idle', /^nothing uses the instance$/);
  expect(reported.willStopAtUnixMs).toBeGreaterThanOrEqual((reported.idleSinceUnixMs ?? 0) + AFTER_MS);
  expect(reported.unless).toMatch(/instance\/keepalive/);
  expect(reported.signals.map(({ name, says: said }) => `${name} ${said}`)).toEqual(
    ['keepAlive', 'kernel', 'terminal', 'ssh', 'http', 'cpu'].map((name) => `${name} idle`),
  );
  await inside.sees(instanceId, { status: 'Stopped', diagnosisReason: 'IdleStop' }, STOP_DEADLINE_MS);
  const events = await inside.server.store.read
    .selectFrom('event')
    .select(['kind', 'data'])
    .where('subjectId', '=', instanceId)
    .where('kind', 'in', ['instance.idleWarning', 'instance.stopWished'])
    .orderBy('id')
    .execute();
  expect(events.at(-2)?.kind).toBe('instance.idleWarning');
  expect(JSON.parse(events.at(-1)?.data ?? '{}')).toMatchObject({
    cause: 'IdleStop',
    because: expect.stringMatching(/^nothing has used the instance for \d+ s; its idle stop is after 9 s$/),
  });
  await inside.removeAll(instanceId);
});
