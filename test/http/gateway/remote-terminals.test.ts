/**
 * Terminals in a separate process, over its socket: they survive an API restart and behave as local
 * ones.
 */
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { makeTerminalHost } from '../../../src/control/compute/inside/terminals/local-host.ts';
import type { TerminalHost, TerminalMessage } from '../../../src/control/compute/inside/terminals/terminal-host.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { makeTerminalClient } from '../../../src/edge/link/terminal-client.ts';
import type { LinkServer } from '../../../src/edge/link/link-server.ts';
import { serveTerminals } from '../../../src/edge/link/terminal-server.ts';
import type { SimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { execFixture, openTerminal, RefusedUpgrade, type ExecFixture } from '../api/exec-fixture.ts';
import { startEdge } from '../api/harness.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { idOf } from './harness.ts';

const ignore = (): void => {};
const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

interface Apart extends ExecFixture {
  path: string;
  /** The terminal process restarts. */
  holderAgain(): Promise<void>;
  holderDown(): Promise<void>;
}

async function apart(): Promise<Apart> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-terminals-'));
  const path = join(folder, 'terminals.sock');
  let served: LinkServer | null = null;
  let end = async (): Promise<void> => {};
  let up = async (): Promise<void> => {};
  const fixture = await execFixture({
    async terminals(engine: SimulatedEngine) {
      up = async () => {
        const terminals = makeTerminalHost({ engine, holder: 'a holder', time: realTime, log });
        const one = (served = await serveTerminals({ address: path, terminals, log }));
        end = async () => {
          if (served === one) served = null;
          await terminals.stop();
          await one.stop();
        };
      };
      await up();
      const asked = makeTerminalClient({ address: path });
      onTestFinished(async () => {
        if (served) await end();
        asked.stop();
        await rm(folder, { recursive: true });
      });
      return asked;
    },
  });
  return {
    ...fixture,
    path,
    holderDown: () => end(),
    async holderAgain() {
      if (served) await end();
      await up();
    },
  };
}

test('keeps a terminal during an API outage, and replays its output on reattach', async () => {
  const { admin, api, world } = await apart();
  const instanceId = await admin.launch();
  const before = await openTerminal(api.port, { instanceId, columns: 100, rows: 30 }, admin);
  await before.waitForText('# ');
  expect(before.messages[0]).toEqual({ type: 'attached', terminal: 'main', created: true, columns: 100, rows: 30 });
  before.type('echo before; sleep 0.3; echo meanwhile\r');
  await before.waitForText('\r\nbefore\r\n');
  await api.stop();
  expect((await before.closed).code).toBe(1001);
  await world.again();
  const next = await startEdge(world.running.control);
  onTestFinished(() => next.stop());
  const after = await openTerminal(next.port, { instanceId, columns: 100, rows: 30 }, admin);
  await after.waitForText('\r\nmeanwhile\r\n');
  expect(after.shown()).toContain('\r\nbefore\r\n');
  expect(after.messages[0]).toMatchObject({ created: false });
  after.type('exit 7\r');
  expect(await after.closed).toEqual({ code: 1000, why: 'the shell ended' });
  expect(after.messages.at(-1)).toEqual({ type: 'exit', exitCode: 7 });
});

test('supports viewers, sizes, lists, closes and the end of the run over the socket', async () => {
  const { admin, api, world } = await apart();
  const instanceId = await admin.launch();
  const one = await openTerminal(api.port, { instanceId, terminal: 'x', columns: 80, rows: 24 }, admin);
  await one.waitForText('# ');
  const two = await openTerminal(api.port, { instanceId, terminal: 'x', columns: 120, rows: 40 }, admin);
  await eventually(() => one.messages.some(({ type }) => type === 'size'));
  expect(one.messages.at(-1)).toEqual({ type: 'size', columns: 120, rows: 40 });
  two.resize(90, 20);
  await eventually(() => one.messages.at(-1)?.['rows'] === 20);
  one.type('stty size\r');
  for (const viewer of [one, two]) await viewer.waitForText('\r\n20 90\r\n');
  const { terminals } = await admin.client.listTerminals({ instanceId });
  expect(terminals).toMatchObject([{ terminal: 'x', columns: 90, rows: 20, viewers: 2, closesAtUnixMs: null }]);
  two.socket.close();
  await eventually(async () => (await admin.client.listTerminals({ instanceId })).terminals[0]?.viewers === 1);
  await admin.client.closeTerminal({ instanceId, terminal: 'x' });
  expect(await one.closed).toEqual({ code: 4410, why: 'the terminal was closed' });
  const none = await api.post('/instance/terminal/close', { instanceId, terminal: 'x' }, { token: admin.token });
  expect(none).toMatchObject({ status: 404, json: { message: 'the instance has no open terminal x' } });

  const last = await openTerminal(api.port, { instanceId }, admin);
  await last.waitForText('# ');
  await admin.client.stop({ instanceId });
  expect((await last.closed).code).toBe(4410);
  await world.until(instanceId, hasStatus('Stopped'));
});

test('reports refusals of the engine before the upgrade', async () => {
  const { admin, api, world } = await apart();
  const instanceId = await admin.launch();
  world.engine.openExec = async () => {
    const { EngineFault } = await import('../../../src/domain/regions/engine-fault.ts');
    throw new EngineFault('no_capacity', 'the instance has reached its limit of processes', { retry: true });
  };
  const refused = await openTerminal(api.port, { instanceId }, admin).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(RefusedUpgrade);
  expect(refused).toMatchObject({
    refused: { status: 409, code: 'no_capacity', text: expect.stringMatching(/limit of processes/) },
  });
});

test('reports an absent terminal process, loses its terminals, and opens new ones after its restart', async () => {
  const { admin, api, holderAgain, holderDown } = await apart();
  const instanceId = await admin.launch();
  const before = await openTerminal(api.port, { instanceId }, admin);
  await before.waitForText('# ');
  await holderDown();
  expect([4410, 4503]).toContain((await before.closed).code);
  const refused = await openTerminal(api.port, { instanceId }, admin).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    refused: { status: 503, text: expect.stringMatching(/away for a moment: try again soon/) },
  });
  const listed = await api.post('/instance/terminal/list', { instanceId }, { token: admin.token });
  expect(listed).toMatchObject({ status: 503, headers: { 'retry-after': '2' } });
  await holderAgain();
  const after = await openTerminal(api.port, { instanceId }, admin);
  await after.waitForText('# ');
  expect(after.messages[0]).toMatchObject({ created: true });
});

test('applies back-pressure of a slow viewer without loss', async () => {
  const { admin, api } = await apart();
  const instanceId = await admin.launch();
  const viewer = await openTerminal(api.port, { instanceId }, admin);
  await viewer.waitForText('# ');
  let bytes = 0;
  viewer.socket.on('message', (data: Buffer) => (bytes += data.length));
  viewer.type('head -c 30000000 /dev/zero; echo done\r');
  viewer.socket.pause();
  await new Promise((resolve) => setTimeout(resolve, 300));
  viewer.socket.resume();
  await eventually(() => viewer.shown().slice(-200).includes('done\r\n'));
  expect(bytes).toBeGreaterThan(30_000_000);
  expect(viewer.messages.some(({ type }) => type === 'reset')).toBe(false);
});

async function* untilAborted(signal: AbortSignal): AsyncGenerator<TerminalMessage, void> {
  if (!signal.aborted) await once(signal, 'abort');
  yield { kind: 'ended', exitCode: null, why: 'the viewer disconnected' };
}

test('coalesces rapid resizes and delivers the last', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-terminals-'));
  const path = join(folder, 'terminals.sock');
  const size = { columns: 80, rows: 24 };
  const sized: number[] = [];
  const over = new AbortController();
  const terminals: TerminalHost = {
    list: async () => [],
    close: async () => {},
    attach: async () => ({
      created: true,
      size,
      messages: untilAborted(over.signal),
      type: async () => {},
      resize: ({ columns }) => void sized.push(columns),
      leave: () => over.abort(),
    }),
  };
  const served = await serveTerminals({ address: path, terminals, log });
  const asked = makeTerminalClient({ address: path });
  onTestFinished(async () => {
    asked.stop();
    await served.stop();
    await rm(folder, { recursive: true });
  });
  const attachRequest = { instanceId: idOf('a'), name: 'main', ownerId: 'somebody', maxOfOwner: 64, size };
  const there = await asked.attach(attachRequest, new AbortController().signal);
  for (let n = 1; n <= 1_000; n++) there.resize({ columns: n, rows: 24 });
  await eventually(() => sized.at(-1) === 1_000);
  expect(sized).toEqual([1, 1_000]);
});

test('restricts the socket to Berth’s user, and survives garbage', async () => {
  const { admin, api, path } = await apart();
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const statusOf = (asked: {
    method?: string;
    path: string;
    headers?: Record<string, string>;
    body?: string;
  }): Promise<number> =>
    new Promise((resolve) => {
      const { body, ...rest } = asked;
      const made = request({ socketPath: path, ...rest }, (reply) => {
        reply.resume();
        resolve(reply.statusCode ?? 0);
      });
      made.on('upgrade', (reply) => resolve(reply.statusCode ?? 0));
      made.on('error', () => resolve(-1));
      made.end(body);
    });
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' };
  for (const asked of [
    { path: '/' },
    { path: '/list', method: 'POST', body: '{' },
    { path: '/list', method: 'POST', body: '{"instanceId":"../x"}' },
    { path: '/attach', headers: upgrade },
    { path: '/attach?request={}', headers: upgrade },
    { path: '/other', headers: upgrade },
  ])
    expect(await statusOf(asked), asked.path).toBe(409);
  const instanceId = await admin.launch();
  await (await openTerminal(api.port, { instanceId }, admin)).waitForText('# ');
});
