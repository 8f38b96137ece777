/** Commands through the API on the simulated engine: run to the end, and streamed. */
import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { buffer, text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { channels } from '../../../src/contract/compute/exec.ts';
import { eventually } from '../../fixtures/control.ts';
import { execFixture, openExec, RefusedUpgrade, type Asking, type Refused } from './exec-fixture.ts';

const { stdin, stdout, stderr, exit, resize, signal } = channels;
const NOBODY = 'notebook-00000000-0000-4000-8000-000000000000';

test('runs a command to its end: exit code, separate streams, input and environment', async () => {
  const { admin } = await execFixture();
  const instanceId = await admin.launch();
  const done = { stdoutCut: false, stderrCut: false, timedOut: false };
  const script = 'echo out; echo err >&2; exit 3';
  expect(await admin.client.exec({ instanceId, command: ['sh', '-c', script] })).toEqual({
    exitCode: 3,
    stdout: 'out\n',
    stderr: 'err\n',
    ...done,
  });
  const given = await admin.client.exec({ instanceId, command: ['cat'], stdin: 'hello ⚓\n' });
  expect(given).toEqual({ exitCode: 0, stdout: 'hello ⚓\n', stderr: '', ...done });
  const env = ['A=1=2', 'EMPTY=', 'SEA=⚓'];
  const { stdout: printed } = await admin.client.exec({ instanceId, command: ['env'], env });
  for (const line of env) expect(printed.split('\n')).toContain(line);
  const missing = await admin.client.exec({ instanceId, command: ['no-such-command'] });
  expect(missing).toMatchObject({ exitCode: 127, stdout: '' });
});

test('carries binary data as base64, byte for byte; in text it becomes U+FFFD', async () => {
  const { admin } = await execFixture();
  const instanceId = await admin.launch();
  const bytes = randomBytes(10_000);
  const { stdout: came } = await admin.client.exec({
    instanceId,
    command: ['cat'],
    stdin: bytes.toString('base64'),
    encoding: 'base64',
  });
  expect(Buffer.from(came, 'base64').equals(bytes)).toBe(true);
  const zeros = await admin.client.exec({ instanceId, command: ['head', '-c', '3', '/dev/zero'] });
  expect(zeros.stdout).toBe('\0\0\0');
});

test('keeps 1 MiB of output per stream, and drains the rest', async () => {
  const { admin } = await execFixture();
  const instanceId = await admin.launch();
  const mebibyte = 1024 * 1024;
  const run = (bytes: number) => admin.client.exec({ instanceId, command: ['head', '-c', String(bytes), '/dev/zero'] });
  expect(await run(mebibyte)).toMatchObject({ exitCode: 0, stdoutCut: false });
  const more = await run(3 * mebibyte);
  expect(more).toMatchObject({ exitCode: 0, stdoutCut: true, stderrCut: false });
  expect(more.stdout.length).toBe(mebibyte);
});

test('kills a command at its time limit, and when its caller disconnects', async () => {
  const { admin, world } = await execFixture();
  const instanceId = await admin.launch();
  const late = await admin.client.exec({ instanceId, command: ['sleep', '1000'], timeoutSeconds: 1 });
  expect(late).toMatchObject({ exitCode: 137, timedOut: true });

  const opened = watchOpened(world);
  const leaving = new AbortController();
  const left = admin.client.exec({ instanceId, command: ['sleep', '1000'] }, { signal: leaving.signal });
  await eventually(() => opened.length === 1);
  leaving.abort();
  await expect(left).rejects.toThrow();
  expect(await opened[0]).toBe(137);
});

/** The exit of each command the engine starts from now on. */
function watchOpened({ engine }: Awaited<ReturnType<typeof execFixture>>['world']): Promise<number>[] {
  const exits: Promise<number>[] = [];
  const { openExec: open } = engine;
  engine.openExec = async (...asked) => {
    const running = await open(...asked);
    exits.push(running.exited);
    return running;
  };
  return exits;
}

test('streams: echoes input, ends at end of input, and sends the exit code last', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const line = await openExec(api.port, { instanceId, command: 'cat' }, admin);
  const sum = createHash('sha256');
  for (let n = 0; n < 40; n++) {
    const bytes = randomBytes(100_000);
    sum.update(bytes);
    line.send(stdin, bytes);
  }
  line.send(stdin);
  expect(await line.closed).toEqual({ code: 1000, why: 'the command ended' });
  expect(createHash('sha256').update(line.on(stdout)).digest('hex')).toBe(sum.digest('hex'));
  expect(JSON.parse(line.on(exit).toString())).toEqual({ exitCode: 0 });
});

test('streams: stderr is separate without a terminal and merged with one, and a resize arrives', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const script = ['sh', '-c', 'echo out; echo err >&2; exit 42'];
  const line = await openExec(api.port, { instanceId, command: script, env: ['A=1'] }, admin);
  await line.closed;
  expect([line.on(stdout), line.on(stderr)].map(String)).toEqual(['out\n', 'err\n']);
  expect(JSON.parse(line.on(exit).toString())).toEqual({ exitCode: 42 });

  const asked = { instanceId, command: 'sh', terminal: true, columns: 100, rows: 30 };
  const terminal = await openExec(api.port, asked, admin);
  terminal.send(stdin, 'stty size\r');
  await eventually(() => terminal.on(stdout).includes('30 100\r\n'));
  terminal.send(resize, JSON.stringify({ columns: 132, rows: 43 }));
  terminal.send(stdin, 'stty size\r');
  await eventually(() => terminal.on(stdout).includes('43 132\r\n'));
  terminal.send(stdin, '\x04');
  expect((await terminal.closed).code).toBe(1000);
  expect(terminal.on(stderr).length).toBe(0);
});

test('streams: a signal, the time limit and a disconnect each end the command', async () => {
  const { admin, api, world } = await execFixture();
  const instanceId = await admin.launch();
  const sleep = { instanceId, command: ['sleep', '1000'] };
  for (const [name, code] of [
    ['KILL', 137],
    ['TERM', 143],
  ] as const) {
    const line = await openExec(api.port, sleep, admin);
    line.send(signal, JSON.stringify({ signal: name }));
    expect((await line.closed).code).toBe(1000);
    expect(JSON.parse(line.on(exit).toString())).toEqual({ exitCode: code });
  }
  const late = await openExec(api.port, { ...sleep, timeoutSeconds: 1 }, admin);
  expect(await late.closed).toEqual({ code: 4408, why: 'the command was killed at its time limit' });

  const opened = watchOpened(world);
  const left = await openExec(api.port, sleep, admin);
  left.socket.terminate();
  expect(await opened[0]).toBe(137);
});

test('streams: a slow reader stops the command, with bounded buffering', async () => {
  const { admin, api, world } = await execFixture();
  const instanceId = await admin.launch();
  const opened = watchOpened(world);
  const total = 40 * 1024 * 1024;
  const line = await openExec(api.port, { instanceId, command: ['head', '-c', String(total), '/dev/zero'] }, admin);
  line.socket.pause();
  let over = false;
  void opened[0]?.then(() => (over = true));
  // Kernel buffers hold some megabytes; the rest waits in the command.
  let [before, sent] = [-1, 0];
  while (sent !== before) {
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 200));
    sent = line.on(stdout).length;
  }
  expect(over).toBe(false);
  line.socket.resume();
  await line.closed;
  expect(line.on(stdout).length).toBe(total);
  expect(JSON.parse(line.on(exit).toString())).toEqual({ exitCode: 0 });
});

test('streams: an invalid message closes with a code and names the valid ones', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const bad: [(line: Awaited<ReturnType<typeof openExec>>) => void, number, RegExp][] = [
    [({ socket }) => socket.send('text'), 4400, /^messages must be binary/],
    [({ socket }) => socket.send(Buffer.alloc(0)), 4400, /^the first byte of a message must be 0/],
    [(line) => line.send(stdout, 'x'), 4400, /^the first byte of a message must be 0/],
    [(line) => line.send(9, 'x'), 4400, /^the first byte of a message must be 0/],
    [(line) => line.send(resize, '{'), 4400, /columns/],
    [(line) => line.send(resize, '{"columns":0,"rows":1}'), 4400, /from 1 to 1000/],
    [(line) => line.send(signal, '{"signal":"STOP"}'), 4400, /docs\/reference\/terminal.md/],
    [(line) => line.send(stdin, Buffer.alloc(256 * 1024)), 1009, /./],
  ];
  for (const [send, code, why] of bad) {
    const line = await openExec(api.port, { instanceId, command: ['sleep', '1000'] }, admin);
    send(line);
    const closed = await line.closed;
    expect(closed.code).toBe(code);
    if (code !== 1009) expect(closed.why).toMatch(why);
  }
  expect(api.logged.filter(({ level }) => level === 'error')).toEqual([]);
});

/** The response of a refused upgrade. */
async function refusal(port: number, query: Parameters<typeof openExec>[1], asking: Asking): Promise<Refused> {
  try {
    await openExec(port, query, asking);
  } catch (error) {
    if (error instanceof RefusedUpgrade) return error.refused;
    throw error;
  }
  throw new Error('the socket was opened');
}

test('refuses unauthorized callers and invalid requests before the upgrade, the same by both routes', async () => {
  const { admin, api, another, world } = await execFixture();
  const instanceId = await admin.launch();
  const stopped = await admin.launch();
  await admin.client.stop({ instanceId: stopped });
  await world.until(stopped, ({ instanceRuntimeInfo: { status } }) => status === 'Stopped');
  const mallory = await another('mallory');
  const command = ['true'];
  const cases: [string, Record<string, unknown>, Asking, number, RegExp][] = [
    ['a stranger', { instanceId, command }, { headers: {} }, 401, /not logged in/],
    ['a bad token', { instanceId, command }, { token: 'x' }, 401, /log in/],
    ["another's instance", { instanceId, command }, mallory, 404, /ent: instance not found/],
    ['an unknown instance', { instanceId: NOBODY, command }, admin, 404, /ent: instance not found/],
    [
      'a stopped one',
      { instanceId: stopped, command },
      admin,
      409,
      /is Stopped, and commands run only in a Running instance/,
    ],
    ['no instance', { command }, admin, 400, /field \\"instanceId\\" is not set/],
    ['no command', { instanceId }, admin, 400, /field \\"command\\" is not set/],
    ['no program', { instanceId, command: [''] }, admin, 400, /must begin with the name of a program/],
    ['NUL', { instanceId, command: ['a\0'] }, admin, 400, /without NUL/],
    ['bad env', { instanceId, command, env: ['A'] }, admin, 400, /must be NAME=value/],
    ['env without a name', { instanceId, command, env: ['=A'] }, admin, 400, /must be NAME=value/],
    ['a limit of 0', { instanceId, command, timeoutSeconds: 0 }, admin, 400, /must be a whole number from 1/],
  ];
  for (const [name, asked, asking, status, words] of cases) {
    const query: Parameters<typeof openExec>[1] = JSON.parse(JSON.stringify(asked));
    const bySocket = await refusal(api.port, query, asking);
    expect(bySocket, name).toMatchObject({ status, text: expect.stringMatching(words) });
    const posted = await api.post('/instance/exec', asked, {
      headers: {},
      ...('token' in asking ? { token: asking.token ?? '' } : {}),
    });
    expect({ status: posted.status, code: posted.headers['x-error-code'] }, name).toEqual({
      status,
      code: bySocket.code,
    });
    expect(posted.text, name).toMatch(words);
  }
  const plain = await api.send(`/api/instance/exec?instanceId=${instanceId}&command=true`, { token: admin.token });
  expect(plain).toMatchObject({ status: 400, text: expect.stringMatching(/this is a WebSocket/) });
  const other = await refusal(api.port, { instanceId, command }, { token: admin.token, protocol: 'other' });
  expect(other).toMatchObject({ status: 400, text: expect.stringMatching(/Sec-WebSocket-Protocol: berth.exec.v1/) });
  const put = await api.send('/api/instance/exec', { method: 'PUT', token: admin.token });
  expect(put).toMatchObject({ status: 405, headers: { allow: 'GET, POST' } });
});

test('an invalid upgrade leaves no command behind', async () => {
  const { admin, api, world } = await execFixture();
  const instanceId = await admin.launch();
  const opened = watchOpened(world);
  const good: Record<string, string> = {
    authorization: `Bearer ${admin.token}`,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    'sec-websocket-protocol': 'berth.exec.v1',
  };
  const statusOf = (headers: Record<string, string>): Promise<number> =>
    new Promise((resolve, reject) => {
      const path = `/api/instance/exec?instanceId=${instanceId}&command=sleep&command=1000`;
      const asked = request({ host: '127.0.0.1', port: api.port, path, headers, agent: false });
      asked.on('upgrade', (reply, socket) => {
        socket.destroy();
        resolve(reply.statusCode ?? 0);
      });
      asked.on('response', (reply) => {
        reply.resume();
        resolve(reply.statusCode ?? 0);
      });
      asked.on('error', reject);
      asked.end();
    });
  for (const [header, value] of [
    ['sec-websocket-version', '12'],
    ['sec-websocket-key', 'short'],
    ['sec-websocket-protocol', 'berth.exec.v1,,x'],
    ['sec-websocket-protocol', 'berth.exec.v1, berth.exec.v1'],
    ['sec-websocket-protocol', 'berth.exec.v1, a b'],
    ['upgrade', 'h2c'],
    ['upgrade', 'websocket, h2c'],
    ['content-length', '0'],
  ])
    expect(await statusOf({ ...good, [header ?? '']: value ?? '' }), `${header}: ${value}`).toBe(400);
  expect(opened).toHaveLength(0);
  expect(await statusOf(good)).toBe(101);
  expect(await opened[0]).toBe(137);
});

test('accepts a browser’s cookie from the API’s own Origin only, and an API key like a token', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const query = { instanceId, command: ['true'] };
  const cookie = `AccessToken=${admin.token}`;
  const own = await openExec(api.port, query, { headers: { cookie, origin: api.origin } });
  expect((await own.closed).code).toBe(1000);
  for (const origin of ['http://127.0.0.1:1', 'https://evil.example', 'null'])
    expect(await refusal(api.port, query, { headers: { cookie, origin } })).toMatchObject({
      status: 403,
      code: 'forbidden',
    });
  const { key } = await admin.client.createApiKey({ name: 'mine' });
  const byKey = await openExec(api.port, query, { headers: { 'x-api-key': key.fullKey } });
  expect((await byKey.closed).code).toBe(1000);
});

test('a login revoked in another process ends socket and command at the next beat', async () => {
  const { admin, api, world } = await execFixture({}, { socketBeatMs: 50 });
  const instanceId = await admin.launch();
  const opened = watchOpened(world);
  const line = await openExec(api.port, { instanceId, command: ['sleep', '1000'] }, admin);
  const { access } = world.startAnother({});
  await access.logout(await access.authenticate({ kind: 'token', token: admin.token }));
  expect(await line.closed).toEqual({ code: 4401, why: 'the login or key has ended: log in again' });
  expect(await opened[0]).toBe(137);
});

test('pings detect a dead peer and end its command; a live one stays', async () => {
  const { admin, api, world } = await execFixture({}, { socketBeatMs: 50 });
  const instanceId = await admin.launch();
  const opened = watchOpened(world);
  const sleep = { instanceId, command: ['sleep', '1000'] };
  const alive = await openExec(api.port, sleep, admin);
  const dead = await openExec(api.port, sleep, admin);
  Reflect.set(dead.socket, 'pong', () => {});
  dead.socket.pause();
  expect(await opened[1]).toBe(137);
  expect(alive.socket.readyState).toBe(alive.socket.OPEN);
});

test('a live peer that reads nothing is cut off, later than a dead one', async () => {
  const { admin, api, world } = await execFixture({}, { socketBeatMs: 100 });
  const instanceId = await admin.launch();
  const opened = watchOpened(world);
  const line = await openExec(
    api.port,
    { instanceId, command: ['head', '-c', '1000000000000000', '/dev/zero'] },
    admin,
  );
  line.socket.pause();
  let over = false;
  void opened[0]?.then(() => (over = true));
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(over).toBe(false);
  expect(await opened[0]).toBe(137);
});

test('an account has sixteen commands at once, and a free slot when one ends', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const sleep = { instanceId, command: ['sleep', '1000'] };
  const lines = await Promise.all(Array.from({ length: 16 }, () => openExec(api.port, sleep, admin)));
  expect(await refusal(api.port, sleep, admin)).toMatchObject({
    status: 429,
    text: expect.stringMatching(/16 of your commands are running/),
  });
  lines[0]?.socket.close();
  await eventually(async () => {
    const again = await api.post('/instance/exec', { instanceId, command: ['true'] }, { token: admin.token });
    return again.status === 200;
  });
});

test('the instance is in use exactly while a command runs', async () => {
  const { admin, api } = await execFixture({ idleLimits: { checkEveryMs: 20 } });
  const instanceId = await admin.launch();
  await admin.client.ends({ instanceId, idleStop: { afterMinutes: 60 } });
  const http = async () =>
    (await admin.client.activity({ instanceId })).signals.find(({ name }) => name === 'http')?.text ?? '';
  const line = await openExec(api.port, { instanceId, command: ['sleep', '1000'] }, admin);
  await eventually(async () => (await http()).startsWith('1 request'));
  expect(await http()).toBe('1 request or WebSocket is open through the gateway');
  line.socket.close();
  await line.closed;
  await eventually(async () => (await http()).startsWith('the last data came through the gateway'));
});

test('a stopped instance closes the socket with an unknown exit code', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const line = await openExec(api.port, { instanceId, command: ['sleep', '1000'] }, admin);
  await admin.client.stop({ instanceId });
  expect(await line.closed).toMatchObject({ code: 4410, why: `${instanceId} has ended` });
  expect(line.on(exit).length).toBe(0);
});

test('stopping the server closes the sockets and ends their commands', async () => {
  const { admin, api, world } = await execFixture();
  const instanceId = await admin.launch();
  const opened = watchOpened(world);
  const line = await openExec(api.port, { instanceId, command: ['sleep', '1000'] }, admin);
  await api.stop();
  expect(await line.closed).toEqual({ code: 1001, why: 'the server is stopping' });
  expect(await opened[0]).toBe(137);
});

test('stopping the server during the start of a command leaves none behind and does not wait', async () => {
  const { admin, api, world } = await execFixture();
  const instanceId = await admin.launch();
  const opened = watchOpened(world);
  const { openExec: open } = world.engine;
  const { promise: blocked, resolve: letGo } = Promise.withResolvers<void>();
  let asked = false;
  world.engine.openExec = async (...execRequest) => {
    asked = true;
    await blocked;
    return open(...execRequest);
  };
  const opening = refusal(api.port, { instanceId, command: ['sleep', '1000'] }, admin).catch(() => null);
  await eventually(() => asked);
  const stopped = api.stop();
  await new Promise((resolve) => setTimeout(resolve, 50));
  letGo();
  await stopped;
  expect((await opening)?.status ?? 503).toBe(503);
  expect(await opened[0]).toBe(137);
});

test('the client: streams a command and a terminal by Node’s own WebSocket, with the refusals of other calls', async () => {
  const { admin, another } = await execFixture();
  const instanceId = await admin.launch();
  const line = await admin.client.openExec({ instanceId, command: ['cat'] });
  const bytes = new Uint8Array(randomBytes(500_000));
  const reading = buffer(line.stdout);
  await line.write(bytes);
  line.end();
  expect((await reading).equals(bytes)).toBe(true);
  expect(await line.exited).toBe(0);
  expect(await text(line.stderr)).toBe('');

  const sleeping = await admin.client.openExec({ instanceId, command: ['sleep', '1000'] });
  sleeping.signal('TERM');
  expect(await sleeping.exited).toBe(143);
  const late = await admin.client.openExec({ instanceId, command: ['sleep', '1000'], timeoutSeconds: 1 });
  await expect(late.exited).resolves.toBe(137);

  const sizes: object[] = [];
  const viewer = await admin.client.openTerminal({ instanceId, terminal: 'x' }, { onSize: (size) => sizes.push(size) });
  expect(viewer).toMatchObject({ terminal: 'x', created: true, columns: 80, rows: 24 });
  viewer.resize({ columns: 100, rows: 30 });
  await eventually(() => sizes.length === 1);
  expect(sizes).toEqual([{ columns: 100, rows: 30 }]);
  await viewer.write(new TextEncoder().encode('stty size\rexit 5\r'));
  expect(await viewer.ended).toBe(5);
  expect(await text(viewer.shown)).toContain('\r\n30 100\r\n');
  const leaving = await admin.client.openTerminal({ instanceId });
  leaving.leave();
  await expect(leaving.ended).rejects.toMatchObject({ name: 'SocketClosed', code: 1000 });

  const { client: mallory } = await another('mallory');
  await expect(mallory.openExec({ instanceId, command: ['true'] })).rejects.toMatchObject({
    status: 404,
    code: 'not_found',
  });
  await expect(admin.client.openTerminal({ instanceId, terminal: '/' })).rejects.toMatchObject({ code: 'field_value' });
});
