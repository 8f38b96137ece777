/** Commands to their end, on a clock moved by the test. */
import { getEventListeners } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { makeCommands } from '../../../src/control/compute/inside/commands.ts';
import { makeConcurrencyLimit } from '../../../src/control/kernel/concurrency-limit.ts';
import type { OpenExec } from '../../../src/engines/contract.ts';
import { openTempStore } from '../../fixtures/store.ts';
import { hasStatus, makeWorld } from '../../fixtures/control.ts';

/** Timers of `after` neither fired nor cancelled. */
function handClock() {
  const pending = new Map<symbol, { ms: number; fn: () => void }>();
  return {
    pending: () => [...pending.values()].map(({ ms }) => ms),
    pass() {
      const due = [...pending.values()];
      pending.clear();
      for (const { fn } of due) fn();
    },
    time: {
      deadline: () => new AbortController().signal,
      after(ms: number, fn: () => void) {
        const key = Symbol('timer');
        pending.set(key, { ms, fn });
        return () => void pending.delete(key);
      },
    },
  };
}

async function commandFixture() {
  const { store, remove } = await openTempStore();
  onTestFinished(remove);
  const world = await makeWorld(store);
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
  await world.until(instanceId, hasStatus('Running'));
  const clock = handClock();
  const { promise: exited, resolve } = Promise.withResolvers<number>();
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  let kills = 0;
  const exit = (code: number): void => {
    for (const stream of [stdout, stderr]) stream.destroy();
    resolve(code);
  };
  const { promise: begun, resolve: hasBegun } = Promise.withResolvers<void>();
  const running: OpenExec = {
    stdin: new PassThrough().on('finish', hasBegun),
    stdout,
    stderr,
    exited,
    resize: async () => {},
    async kill() {
      kills += 1;
    },
  };
  const commands = makeCommands({
    store,
    openExec: async () => running,
    beginTraffic: () => () => {},
    time: clock.time,
    variables: { environmentOf: async () => new Map() },
  });
  const gone = new AbortController();
  const request = { instanceId, command: ['x'], env: [], stdin: Buffer.of(), limitMs: 60_000, maxOutputBytes: 1_000 };
  const result = commands.run(world.caller, request, gone.signal);
  result.catch(() => {});
  await begun;
  return { clock, gone, exit, result, stdout, kills: () => kills };
}

test('leaves no timer, listener or kill after a command has ended', async () => {
  const { clock, gone, exit, result, kills } = await commandFixture();
  expect(clock.pending()).toEqual([60_000]);
  expect(getEventListeners(gone.signal, 'abort')).toHaveLength(1);
  exit(0);
  expect(await result).toMatchObject({ exitCode: 0, timedOut: false });
  expect(clock.pending()).toEqual([]);
  expect(getEventListeners(gone.signal, 'abort')).toHaveLength(0);
  clock.pass();
  gone.abort();
  await new Promise((resolve) => setImmediate(resolve));
  expect(kills()).toBe(0);
});

test('kills a command once at its limit, and cancels the wait for it', async () => {
  const { clock, gone, exit, result, kills } = await commandFixture();
  clock.pass();
  await expect.poll(clock.pending).toEqual([15_000]);
  expect(kills()).toBe(1);
  exit(137);
  expect(await result).toMatchObject({ exitCode: 137, timedOut: true });
  expect(clock.pending()).toEqual([]);
  expect(getEventListeners(gone.signal, 'abort')).toHaveLength(0);
});

test('reports a command that outlives its kill', async () => {
  const { clock, result } = await commandFixture();
  clock.pass();
  await expect.poll(clock.pending).toEqual([15_000]);
  clock.pass();
  await expect(result).rejects.toMatchObject({ code: 'unavailable' });
});

test('throttles discarded output to 4 MiB per second, and reads retained output at full speed', async () => {
  const { clock, stdout, exit, result } = await commandFixture();
  stdout.write(Buffer.alloc(1_000, 'a'));
  await expect.poll(() => stdout.readableLength).toBe(0);
  expect(clock.pending()).toEqual([60_000]);
  for (let n = 0; n < 3; n++) stdout.write(Buffer.alloc(8 * 1024, 'b'));
  await expect.poll(clock.pending).toEqual([60_000, 2]);
  expect(stdout.readableLength).toBe(16 * 1024);
  stdout.resume();
  await expect.poll(() => stdout.readableLength).toBe(8 * 1024);
  exit(0);
  const { stdout: output } = await result;
  expect(output).toMatchObject({ cut: true, bytes: Buffer.alloc(1_000, 'a') });
});

test('kills the command and cancels its time limit when the caller disconnects', async () => {
  const { clock, gone, exit, result, kills } = await commandFixture();
  gone.abort(new Error('left'));
  await expect.poll(kills).toBe(1);
  exit(137);
  await expect(result).rejects.toThrow('left');
  expect(clock.pending()).toEqual([]);
});

test('releasing a permit twice frees one', () => {
  const limit = makeConcurrencyLimit({ perAccount: 2, total: 3, retryAfterS: 1, full: { mine: String, all: String } });
  const leave = limit.acquire('a');
  limit.acquire('a');
  leave();
  leave();
  expect(limit.count).toBe(1);
  limit.acquire('a');
  expect(() => limit.acquire('a')).toThrow('2');
});
