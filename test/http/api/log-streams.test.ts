/**
 * Live logs and downloads: no line lost or doubled over breaks, stops and engine outages; bounded,
 * and only as long as the login.
 */
import { expect, test } from 'vitest';
import type { LogStreamItem } from '../../../src/contract/compute/log-client.ts';
import { makeClient } from '../../../src/contract/client.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { linesIn, logFixture, messagesIn, SAYS } from './log-fixture.ts';

const six = [0, 1, 2, 3, 4, 5].map((n) => `line ${n}`);
const saidIn = (texts: readonly string[]): string[] => texts.filter((text) => text.startsWith('line'));

test('each line arrives when printed, and a resumed stream continues exactly', async () => {
  const { launched, stream } = await logFixture();
  const instanceId = await launched(SAYS, 'Starting');
  const got: string[] = [];
  let after = '';
  for (let streams = 0; saidIn(got).length < 6; streams += 1) {
    expect(streams).toBeLessThan(20);
    const one = await stream({ instanceId, tail: '1000' }, after === '' ? {} : { 'last-event-id': after });
    expect(one).toMatchObject({
      status: 200,
      headers: {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      },
    });
    await eventually(() => linesIn(one).length > 0);
    one.close();
    for (const { event, id, data } of messagesIn(one)) {
      if (event === 'status') continue;
      expect(event).toBe('line');
      expect(id).toMatch(/^\d+\.\d+$/);
      got.push(String(data['text']));
      after = id ?? '';
    }
  }
  expect(got.filter((text) => !text.startsWith('line'))).toEqual([
    'berth: services ssh notebook',
    'berth: notebook ready',
    'berth: init started',
    'berth: init exit 0',
  ]);
  expect(saidIn(got)).toEqual(six);
});

test('a stream survives stop and start, reports them, and ends at terminate', async () => {
  const { world, launched, stream } = await logFixture();
  const instanceId = await launched(SAYS);
  const { instances } = world.running.control;
  const one = await stream({ instanceId, tail: '0' });
  await eventually(() => saidIn(linesIn(one)).includes('line 5'));
  await instances.stop(world.caller, { instanceId }, null);
  await eventually(() => messagesIn(one).some(({ event, data }) => event === 'status' && data['status'] === 'Stopped'));
  await instances.start(world.caller, { instanceId }, null);
  await eventually(() => saidIn(linesIn(one)).filter((text) => text === 'line 5').length === 2);
  // Lines from the second start on; lines of the first may come before.
  expect(saidIn(linesIn(one)).slice(-6)).toEqual(six);
  const [first, ...later] = messagesIn(one).flatMap(({ event, data }) => (event === 'status' ? [data['status']] : []));
  expect(first).toBe('Stopped');
  // The number of polls in between varies.
  for (const status of later) expect(['Starting', 'Running']).toContain(status);
  expect(later).not.toEqual([]);
  await instances.restart(world.caller, { instanceId }, null);
  await eventually(() => saidIn(linesIn(one)).filter((text) => text === 'line 5').length === 3);
  expect(saidIn(linesIn(one)).slice(-12)).toEqual([...six, ...six]);
  await instances.terminate(world.caller, { instanceId }, null);
  expect(await one.ended).toBe('end');
  expect(messagesIn(one).at(-1)).toMatchObject({
    event: 'end',
    data: { why: expect.stringContaining('is terminated') },
  });
});

test('a stream of an instance without a container waits for one', async () => {
  const { world, client, launched, stream } = await logFixture();
  world.engine.misbehave(({ verb }) => (verb === 'ensure' ? { mode: 'failBefore' } : undefined));
  const instanceId = await launched(SAYS, 'Initializing');
  expect(await client.logs({ instanceId })).toMatchObject({ lines: [], next: null, more: false });
  const one = await stream({ instanceId });
  await eventually(() => one.text().includes(': begun'));
  world.engine.misbehave(undefined);
  await eventually(() => saidIn(linesIn(one)).length === 6);
  expect(saidIn(linesIn(one))).toEqual(six);
});

test('an engine outage ends no stream and loses no line', async () => {
  const { world, launched, stream } = await logFixture();
  const instanceId = await launched(SAYS);
  let followed = 0;
  world.engine.misbehave(({ verb }) =>
    verb === 'followLogs' && ++followed === 1 ? { mode: 'failBefore' } : undefined,
  );
  const one = await stream({ instanceId });
  await eventually(() => saidIn(linesIn(one)).length === 6);
  expect(followed).toBe(2);
  expect(saidIn(linesIn(one))).toEqual(six);
});

test("follows an init script's log to its end; a reconnect to an ended log gets a 204", async () => {
  const { client, launched, stream } = await logFixture();
  const script = [1, 2, 3].map((n) => `# berth-sim: init says after ${n * 150}ms line ${n}\n`).join('');
  const instanceId = await launched(`${script}# berth-sim: exit 3 after 600ms\n`);
  const one = await stream({ instanceId, source: 'init' });
  expect(await one.ended).toBe('end');
  expect(messagesIn(one).map(({ event, id, data }) => [event, id, data['text']])).toEqual([
    ['line', '1', 'line 1'],
    ['line', '2', 'line 2'],
    ['line', '3', 'line 3'],
    ['end', null, undefined],
  ]);
  await eventually(async () =>
    (await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.message.includes('code 3'),
  );
  expect((await stream({ instanceId, source: 'init' }, { 'last-event-id': '3' })).status).toBe(204);
  const rest = await stream({ instanceId, source: 'init' }, { 'last-event-id': '1' });
  expect(await rest.ended).toBe('end');
  expect(linesIn(rest)).toEqual(['line 2', 'line 3']);
  const none = await stream({ instanceId: await launched(''), source: 'init' });
  expect(await none.ended).toBe('end');
  expect(linesIn(none)).toEqual([]);
});

test('follows events of the instance only', async () => {
  const { world, launched, stream } = await logFixture();
  const [mine, other] = [await launched(''), await launched('')];
  const one = await stream({ instanceId: mine, source: 'events', tail: '0' });
  await eventually(() => one.text().includes(': begun'));
  const { instances } = world.running.control;
  await instances.stop(world.caller, { instanceId: other }, null);
  await instances.stop(world.caller, { instanceId: mine }, null);
  await eventually(() => linesIn(one).some((text) => text.includes('"status":"Stopped"')));
  expect(linesIn(one)[0]).toMatch(/^instance\.stopWished/);
  expect(linesIn(one).filter((text) => text.startsWith('instance.stopWished'))).toHaveLength(1);
  for (const { id } of messagesIn(one)) expect(id).toMatch(/^\d+$/);
});

test('an account has eight log streams; the ninth is refused with a reason, and closing one frees a slot', async () => {
  const { launched, stream } = await logFixture();
  const instanceId = await launched('');
  const open = [];
  for (let n = 0; n < 8; n += 1) open.push(await stream({ instanceId }));
  expect(open.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
  const ninth = await stream({ instanceId });
  await ninth.ended;
  expect(ninth).toMatchObject({ status: 429, headers: { 'retry-after': '10', 'x-error-code': 'too_many_requests' } });
  expect(JSON.parse(ninth.text())).toMatchObject({
    message: 'this account has 8 open log streams, and the limit is 8; close one',
  });
  open[3]?.close();
  await eventually(async () => (await stream({ instanceId })).status === 200);
});

test('a silent stream ends at the next beat after its login is revoked in another process', async () => {
  const { world, api, launched, stream } = await logFixture({ eventBeatMs: 50 });
  const instanceId = await launched('');
  const { access } = world.startAnother({});
  const again = await access.login({ username: 'admin', password: 'correct horse' }, '127.0.0.1');
  const idle = await stream({ instanceId }, { authorization: `Bearer ${again.accessToken}` });
  await eventually(() => idle.text().includes(': beat'));
  await access.logout(await access.authenticate({ kind: 'token', token: again.accessToken }));
  expect(await idle.ended).toBe('end');
  expect(idle.text()).toContain(': the login or key has ended');
  expect(api.logged.filter(({ level }) => level === 'error')).toEqual([]);
});

test('a busy stream ends with its login, before the next beat', async () => {
  const { world, launched, stream } = await logFixture();
  const instanceId = await launched('');
  const { access } = world.running.control;
  const { accessToken } = await access.login({ username: 'admin', password: 'correct horse' }, '127.0.0.1');
  world.engine.followLogs = async (_id, _source, _range, signal) => endless(signal);
  const busy = await stream({ instanceId }, { authorization: `Bearer ${accessToken}` });
  await eventually(() => linesIn(busy).length > 1);
  await access.logout(await access.authenticate({ kind: 'token', token: accessToken }));
  await eventually(() => busy.text().includes(': the login or key has ended'));
  expect(await busy.ended).toBe('end');
});

async function* endless(signal: AbortSignal, text = 'x') {
  for (let n = 0; !signal.aborted; n += 1) {
    if (n % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    yield { atMs: 1_000_000 + n, text: `${n} ${text}`, cut: false };
  }
}

test('a stalled reader costs a bounded number of lines, is cut off, and misses nothing when it resumes', async () => {
  const { world, launched, stream } = await logFixture({ eventBeatMs: 60 });
  const instanceId = await launched('');
  let said = 0;
  world.engine.followLogs = async function (_id, _source, { sinceMs = 0 }, signal) {
    return (async function* () {
      for (let n = Math.max(0, sinceMs - 1_000_000); n < 4_000 && !signal.aborted; n += 1) {
        said += 1;
        yield { atMs: 1_000_000 + n, text: `${n} ${'x'.repeat(8_000)}`, cut: false };
      }
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    })();
  };
  const slow = await stream({ instanceId });
  slow.pause();
  let before = -1;
  await eventually(async () => {
    const still = said > 0 && said === before;
    before = said;
    await new Promise((resolve) => setTimeout(resolve, 150));
    return still;
  });
  expect(said).toBeLessThan(2_000);
  slow.resume();
  expect(await slow.ended).toBe('cut');
  const messages = messagesIn(slow);
  const last = messages.at(-1);
  const rest = await stream({ instanceId }, { 'last-event-id': last?.id ?? '' });
  await eventually(() => rest.text().includes('"text":"3999 '));
  const numbers = [...messages, ...messagesIn(rest)].map(({ data }) => Number.parseInt(String(data['text']), 10));
  expect(numbers).toEqual(Array.from({ length: 4_000 }, (_, n) => n));
});

test('reports lines that the engine has dropped as a gap', async () => {
  const { world, launched, stream } = await logFixture();
  const instanceId = await launched('');
  const storedLines = [{ atMs: 9_000_000, text: 'late', cut: false }];
  world.engine.followLogs = async (_id, _source, { sinceMs = 0 }) =>
    ReadableStream.from(storedLines.filter(({ atMs }) => atMs >= sinceMs));
  const one = await stream({ instanceId }, { 'last-event-id': '5000000.2' });
  await eventually(() => messagesIn(one).length >= 2);
  expect(messagesIn(one).slice(0, 2)).toMatchObject([
    { event: 'gap', id: null, data: { why: 'lines before the next line may be missing: they are no longer stored' } },
    { event: 'line', id: '9000000.1', data: { text: 'late' } },
  ]);
});

test('a download is text, with or without times, complete or the tail; an interrupted one does not look complete', async () => {
  const { world, api, client, launched } = await logFixture();
  const instanceId = await launched(SAYS);
  await eventually(async () => (await client.logs({ instanceId, tail: 1 })).lines[0]?.text === 'line 5');
  const whole = await client.downloadLog(instanceId);
  expect(Object.fromEntries(whole.headers)).toMatchObject({
    'content-type': 'text/plain; charset=utf-8',
    'content-disposition': `attachment; filename="${instanceId}-console.log"`,
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  });
  const texts = (await whole.text()).split('\n');
  expect(texts.at(-1)).toBe('');
  expect(texts.at(-2)).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z line 5$/);
  expect(texts).toHaveLength((await client.logs({ instanceId })).lines.length + 1);
  expect(await (await client.downloadLog(instanceId, { tail: 2, times: false })).text()).toBe('line 4\nline 5\n');
  const events = await (await client.downloadLog(instanceId, { source: 'events', times: false })).text();
  expect(events).toMatch(/^instance\.launched/);

  world.engine.logs = async () =>
    (async function* () {
      for (let n = 0; n < 20_000; n += 1) yield { atMs: n, text: `${n}`, cut: n === 0 };
      throw new Error('the connection was lost');
    })();
  const broken = await client.downloadLog(instanceId);
  await expect(broken.text()).rejects.toThrow();
  expect(api.logged).toContainEqual(
    expect.objectContaining({ level: 'warn', text: 'a download of a log was aborted' }),
  );
});

test('refuses an invalid query before the stream starts', async () => {
  const { api, token, launched } = await logFixture();
  const instanceId = await launched('');
  const bad: [string, RegExp][] = [
    ['', /^field "instanceId" is not set$/],
    [
      `instanceId=${instanceId}&source=stderr`,
      /^field "source" is "stderr": it must be one of "console", "init", "start", "notebook", "events"$/,
    ],
    [`instanceId=${instanceId}&tail=-1`, /^type mismatch for field "tail"$/],
    [`instanceId=${instanceId}&tail=5001`, /^field "tail" is 5001: it must be a whole number from 0 to 5000$/],
    [`instanceId=${instanceId}&tail=1&tail=2`, /^type mismatch for field "tail"$/],
    [`instanceId=${instanceId}&after=3`, /^field "after" is "3": it must be what "next" said for the source "console"/],
    [`instanceId=${instanceId}&source=init&sinceUnixMs=5`, /keep no times/],
    [`instanceId=${instanceId}&untilUnixMs=5`, /must not be set for a stream, which goes on/],
    [`instanceId=${instanceId}&download=yes`, /^field "download" is "yes": it must be one of "true", "false"$/],
  ];
  for (const [query, words] of bad) {
    const reply = await api.send(`/api/instance/logs?${query}`, { token });
    expect(reply, query).toMatchObject({ status: 400, json: { message: expect.stringMatching(words) } });
  }
  const header = await api.send(`/api/instance/logs?instanceId=${instanceId}`, {
    token,
    headers: { 'last-event-id': 'x' },
  });
  expect(header.json).toMatchObject({ status: 400, message: expect.stringContaining('"after"') });
  for (const method of ['PUT', 'DELETE', 'HEAD'])
    expect(await api.send('/api/instance/logs', { token, method })).toMatchObject({
      status: 405,
      headers: { allow: 'GET, POST' },
    });
  const cookie = `AccessToken=${token}`;
  const path = `/api/instance/logs?instanceId=${instanceId}&download=true`;
  expect((await api.send(path, { headers: { cookie, origin: api.origin } })).status).toBe(200);
  expect((await api.send(path, { headers: { cookie, origin: 'http://evil.example' } })).status).toBe(403);
});

test("the client's loop yields each line once over broken connections, and ends at the end", async () => {
  const { world, api, token, launched } = await logFixture();
  const instanceId = await launched(SAYS, 'Starting');
  let opened = 0;
  const client = makeClient({
    baseUrl: api.baseUrl,
    credential: { kind: 'token', token },
    async fetch(url, init) {
      const response = await globalThis.fetch(url, init);
      opened += 1;
      let left = opened > 4 ? Infinity : 300;
      const cut = new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          controller.enqueue(piece.subarray(0, Math.max(0, left)));
          left -= piece.length;
          if (left <= 0) controller.terminate();
        },
      });
      return new Response(response.body?.pipeThrough(cut) ?? null, response);
    },
  });
  const reported: LogStreamItem[] = [];
  for await (const one of client.followLogs(instanceId)) {
    reported.push(one);
    if (one.type === 'line' && one.text === 'line 5')
      await world.running.control.instances.terminate(world.caller, { instanceId }, null);
  }
  expect(opened).toBeGreaterThan(2);
  expect(saidIn(reported.flatMap((one) => (one.type === 'line' ? [one.text] : [])))).toEqual(six);
  expect(reported.at(-1)).toMatchObject({ type: 'end' });
  await world.until(instanceId, hasStatus('Released'));
});
