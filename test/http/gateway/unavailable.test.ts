import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import type { GatewayRoute } from '../../../src/control/index.ts';
import { ALICE, API_ORIGIN, ask, jwtOf, sendRaw, idOf, onCleanup, serve, start, until } from './harness.ts';

const A = idOf('a');

describe('the gateway explains why an instance cannot answer', () => {
  const browser = { headers: { accept: 'text/html,application/xhtml+xml' } };

  test('no listener on the port', async () => {
    const harness = await start();
    harness.add(A, { publicPorts: [80] });
    const forProgram = await ask(harness, `/forward/${A}/80/`);
    expect(forProgram).toMatchObject({
      status: 503,
      headers: { 'retry-after': '3', 'content-type': 'application/json; charset=utf-8' },
    });
    expect(JSON.parse(forProgram.body)).toEqual({
      message: expect.stringMatching(/nothing listens on port 80: .*let the program listen on 0\.0\.0\.0/),
    });
    const forPerson = await ask(harness, `/forward/${A}/80/`, browser);
    expect(forPerson.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(forPerson.body).toContain('http-equiv="refresh"');
  });

  const notebooks: [route: GatewayRoute['notebook'], title: string, says: RegExp, reloads: boolean][] = [
    [null, 'The notebook does not answer yet', /wait a moment/i, true],
    [{ state: 'starting', text: '' }, 'The notebook does not answer yet', /source &quot;notebook&quot;/, true],
    [{ state: 'failed', text: 'Bad <dir>' }, 'The notebook server does not start', /log: Bad &lt;dir&gt;\./, true],
    [{ state: 'none', text: '' }, 'This image has no Jupyter', /install JupyterLab in the instance/, false],
  ];
  test.each(notebooks)('a notebook that is %j', async (notebook, title, says, reloads) => {
    const isAwaited = notebook === null || notebook.state === 'starting';
    const harness = await start({ limits: { notebookPatienceMs: isAwaited ? 100 : Infinity } });
    harness.add(A, { route: { notebook } });
    const headers = { accept: 'text/html', authorization: `Bearer ${jwtOf(ALICE)}` };
    const page = await ask(harness, `/notebook/${A}/lab`, { headers });
    expect(page).toMatchObject({ status: 503, body: expect.stringContaining(`<h1>${title}</h1>`) });
    expect(page.body).toMatch(says);
    expect(page.body.includes('http-equiv="refresh"')).toBe(reloads);
  });

  test('an instance that runs the command of its image has no notebook page, whatever listens there', async () => {
    const harness = await start();
    const inside = await serve((_req, res) => res.writeHead(302, { location: '/notebook' }).end());
    harness.add(A, { ports: { 8888: inside.port }, route: { notebook: { state: 'command', text: '' } } });
    const headers = { accept: 'text/html', authorization: `Bearer ${jwtOf(ALICE)}` };
    const page = await ask(harness, `/notebook/${A}/`, { headers });
    expect(page).toMatchObject({ status: 404, body: expect.stringContaining('<h1>There is no notebook page</h1>') });
    expect(page.body).toContain(`href="${API_ORIGIN}/instances/${A}?tab=ports"`);
  });

  test('answers an upload to a port without a listener, and keeps the connection', async () => {
    const harness = await start();
    harness.add(A, { publicPorts: [80] });
    const upload = `POST /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(3_000_000)}`;
    const last = `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`;
    const answer = await sendRaw(harness, upload + upload + last);
    expect(answer.match(/^HTTP\/1\.1 503 /gm)).toHaveLength(3);
  });

  test('an aborted upload ends only itself', async () => {
    const harness = await start();
    harness.add(A, { publicPorts: [80] });
    for (let count = 0; count < 20; count += 1) {
      const client = connect(harness.port, '127.0.0.1').on('error', () => {});
      client.write(
        `POST /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n${'x'.repeat(100_000)}`,
      );
      await new Promise((resolve) => client.once('data', resolve));
      client.resetAndDestroy();
    }
    expect(await ask(harness, `/forward/${A}/80/`)).toMatchObject({ status: 503 });
  });

  const pages: [status: string, title: string, says: RegExp, refreshes: boolean][] = [
    [
      'Initializing',
      'The instance is starting',
      /The instance is Initializing\..*The instance answers here when it runs/s,
      true,
    ],
    ['PullingImage', 'The instance is starting', /The instance is PullingImage\./, true],
    ['Starting', 'The instance is starting', /The instance is Starting\./, true],
    ['Restarting', 'The instance is starting', /The instance is Restarting\./, true],
    [
      'Stopped',
      'The instance is not running',
      /The instance is Stopped\..*The owner can start the instance from the console/s,
      false,
    ],
    [
      'Archived',
      'The instance is not running',
      /The instance is Archived\..*The owner can start the instance from the console/s,
      false,
    ],
    [
      'StartingFailed',
      'The instance could not be started',
      /finds the cause in the console.*start the instance again/s,
      false,
    ],
    [
      'InitializationFailed',
      'The instance could not be started',
      /diagnosisMessage of POST \/api\/instance\/get/,
      false,
    ],
  ];
  for (const [status, title, says, refreshes] of pages)
    test(`shows a page with the next step for ${status}`, async () => {
      const harness = await start();
      harness.add(A, { publicPorts: [80], route: { running: false, status } });
      const page = await ask(harness, `/forward/${A}/80/`, browser);
      expect(page).toMatchObject({
        status: 503,
        headers: { 'cache-control': 'no-store', 'x-error-code': 'unavailable' },
      });
      expect(page.body).toContain(`<h1>${title}</h1>`);
      expect(page.body).toMatch(says);
      expect(page.body.includes('http-equiv="refresh"')).toBe(refreshes);
      expect(page.body.includes('reloads automatically')).toBe(refreshes);
      expect(page.headers['retry-after']).toBe(refreshes ? '3' : undefined);
      expect(page.body.includes(`href="${API_ORIGIN}/"`)).toBe(!refreshes);
      const program = await ask(harness, `/forward/${A}/80/`);
      expect(JSON.parse(program.body)).toEqual({ message: expect.stringContaining(`the instance is ${status}: `) });
    });

  test('reports an instance that stops during a request as restarting', async () => {
    const harness = await start();
    const instance = harness.add(A, { publicPorts: [80] });
    instance.streams.set(80, () => {
      throw new EngineFault('not_found', 'it does not run', { retry: false });
    });
    const page = await ask(harness, `/forward/${A}/80/`, browser);
    expect(page).toMatchObject({ status: 503, headers: { 'retry-after': '3' } });
    expect(page.body).toContain('The instance has just stopped, or is restarting.');
    expect(page.body).toContain('http-equiv="refresh"');
  });

  test('links to the logs of a notebook that does not listen', async () => {
    const harness = await start({ limits: { notebookPatienceMs: 0 } });
    harness.add(A, {});
    harness.sessions.set('s', 'account-alice');
    const headers = { ...browser.headers, cookie: 'berth_gateway=s', 'sec-fetch-site': 'none' };
    const page = await ask(harness, `/notebook/${A}/lab`, { headers });
    expect(page.body).toContain('/var/log/berth/notebook.log');
    expect(page.body).toContain('An image without Jupyter has no notebook');
  });

  test('offers a link at an unknown address', async () => {
    const harness = await start();
    const answered = await ask(harness, '/', browser);
    expect(answered.status).toBe(404);
    expect(answered.body).toContain(`href="${API_ORIGIN}/"`);
  });

  test('waits for a starting notebook', async () => {
    const inside = await serve((_req, res) => res.end('the notebook'));
    const harness = await start();
    const instance = harness.add(A, {});
    harness.sessions.set('s', 'account-alice');
    const asked = ask(harness, `/notebook/${A}/lab`, { headers: { cookie: 'berth_gateway=s' } });
    await until('the gateway has dialed twice', () => harness.dials >= 2);
    instance.ports.set(8888, inside.port);
    expect(await asked).toMatchObject({ status: 200, body: 'the notebook' });
  });

  test('waits once for a notebook that never listens', async () => {
    const harness = await start({ limits: { notebookPatienceMs: 300 } });
    harness.add(A, {});
    harness.sessions.set('s', 'account-alice');
    const headers = { cookie: 'berth_gateway=s' };
    expect(await ask(harness, `/notebook/${A}/lab`, { headers })).toMatchObject({ status: 503 });
    expect(harness.dials).toBeGreaterThan(1);
    const dialsBefore = harness.dials;
    expect(await ask(harness, `/notebook/${A}/lab`, { headers })).toMatchObject({ status: 503 });
    expect(harness.dials).toBe(dialsBefore + 1);
  });

  test('refuses excess requests, and releases permits', async () => {
    const waiting: (() => void)[] = [];
    const inside = await serve((_req, res) => void waiting.push(() => res.end('ok')));
    const harness = await start({ limits: { perPort: 2 } });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const first = [ask(harness, `/forward/${A}/80/`), ask(harness, `/forward/${A}/80/`)];
    await until('the instance has two requests', () => waiting.length === 2);
    expect(await ask(harness, `/forward/${A}/80/`)).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    for (const end of waiting.splice(0)) end();
    expect((await Promise.all(first)).map(({ body }) => body)).toEqual(['ok', 'ok']);
    const next = ask(harness, `/forward/${A}/80/`);
    await until('the instance has the next request', () => waiting.length === 1);
    waiting[0]?.();
    expect(await next).toMatchObject({ status: 200 });
  });
});

describe('shutdown and idle connections', () => {
  test('closes idle upstream connections after a timeout and when the instance stops', async () => {
    const inside = await serve((_req, res) => res.end('ok'));
    const harness = await start({ limits: { idlePoolMs: 100, idleConnectionMs: 60_000 } });
    const instance = harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    await ask(harness, `/forward/${A}/80/`);
    await until('the idle connection is closed', () => harness.dialled.size === 0);

    const patient = await start({ limits: { idleConnectionMs: 60_000 } });
    patient.instances.set(A, instance);
    await ask(patient, `/forward/${A}/80/`);
    expect(patient.dialled.size).toBe(1);
    instance.route = { ...instance.route, running: false, status: 'Stopped' };
    await ask(patient, `/forward/${A}/80/`);
    await until('the connection to the stopped instance is closed', () => patient.dialled.size === 0);
  });

  test('stop finishes running requests and accepts no new ones', async () => {
    const finish: (() => void)[] = [];
    const inside = await serve((_req, res) => {
      res.write('first half, ');
      finish.push(() => res.end('second half'));
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const asked = ask(harness, `/forward/${A}/80/`);
    await until('the request is running', () => finish.length === 1);
    const stopped = harness.gateway.stop();
    await expect(ask(harness, `/forward/${A}/80/`)).rejects.toThrow(/ECONNREFUSED/);
    finish[0]?.();
    expect(await asked).toMatchObject({ status: 200, body: 'first half, second half' });
    await stopped;
  });

  test('stop cuts requests after the grace period', async () => {
    const inside = await serve((_req, res) => res.write('for ever'));
    const harness = await start({ limits: { stopGraceMs: 50 } });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const asked = ask(harness, `/forward/${A}/80/`).catch((error: Error) => error.message);
    await until('the request is running', () => harness.dialled.size === 1);
    await harness.gateway.stop();
    expect(await asked).toMatch(/aborted|hang up|ECONNRESET/);
    await until('nothing is connected inside', () => harness.dialled.size === 0);
  });

  test('many resets leak nothing', async () => {
    const inside = await serve((req, res) => {
      if (req.url === '/slow') res.write('x');
      else req.pipe(res);
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const faults: unknown[] = [];
    const onFault = (error: unknown): void => void faults.push(error);
    process.on('unhandledRejection', onFault);
    onCleanup(async () => void process.off('unhandledRejection', onFault));
    const texts = [
      `GET /forward/${A}/80/slow HTTP/1.1\r\nHost: h\r\n\r\n`,
      `POST /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nsome`,
      `GET /forward/${A}/80/ HT`,
      '',
    ];
    let open = 0;
    for (let count = 0; count < 2_000; count += 1) {
      open += 1;
      const socket = connect(harness.port, '127.0.0.1');
      socket.on('error', () => {}).once('close', () => (open -= 1));
      socket.once('connect', () => {
        socket.write(texts[count % texts.length] ?? '');
        setTimeout(() => socket.resetAndDestroy(), count % 7);
      });
      if (count % 100 === 99) await until('most clients are closed', () => open < 20);
    }
    await until('no connection inside is left', () => harness.dialled.size <= 1);
    expect(await ask(harness, `/forward/${A}/80/`, { method: 'POST', body: 'alive' })).toMatchObject({ body: 'alive' });
    expect(faults).toEqual([]);
  });
});
