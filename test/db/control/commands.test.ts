/** Commands to their end, by a clock that the test moves: nothing of one that is over is held or killed. */
import { getEventListeners } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { makeCommands } from '../../../src/control/inside/commands.ts';
import { makeConcurrencyLimit } from '../../../src/control/base/concurrency-limit.ts';
import type { OpenExec } from '../../../src/engines/contract.ts';
import { openTempStore } from '../../fixtures/store.ts';
import { hasStatus, makeWorld } from '../../fixtures/control.ts';

/** What was begun by `after`, and is neither done nor called off. */
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

async function commandRoom() {
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
  });
  const gone = new AbortController();
  const request = { instanceId, command: ['x'], env: [], stdin: Buffer.of(), limitMs: 60_000, maxOutputBytes: 1_000 };
  const result = commands.run(world.caller, request, gone.signal);
  result.catch(() => {});
  await begun;
  return { clock, gone, exit, result, stdout, kills: () => kills };
}

test('of a command that ended nothing is left: no timer, no listener, and no kill at its limit', async () => {
  const { clock, gone, exit, result, kills } = await commandRoom();
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

test('at its limit it is killed, once, and what is waited for then is called off as well', async () => {
  const { clock, gone, exit, result, kills } = await commandRoom();
  clock.pass();
  await expect.poll(clock.pending).toEqual([15_000]);
  expect(kills()).toBe(1);
  exit(137);
  expect(await result).toMatchObject({ exitCode: 137, timedOut: true });
  expect(clock.pending()).toEqual([]);
  expect(getEventListeners(gone.signal, 'abort')).toHaveLength(0);
});

test('one that does not end when it is killed is answered as that', async () => {
  const { clock, result } = await commandRoom();
  clock.pass();
  await expect.poll(clock.pending).toEqual([15_000]);
  clock.pass();
  await expect(result).rejects.toMatchObject({ code: 'unavailable' });
});

test('what is dropped is read at 4 MiB a second, and what is kept as fast as it comes', async () => {
  const { clock, stdout, exit, result } = await commandRoom();
  stdout.write(Buffer.alloc(1_000, 'a'));
  await expect.poll(() => stdout.readableLength).toBe(0);
  expect(clock.pending()).toEqual([60_000]);
  for (let n = 0; n < 3; n++) stdout.write(Buffer.alloc(8 * 1024, 'b'));
  await expect.poll(clock.pending).toEqual([60_000, 2]);
  expect(stdout.readableLength).toBe(16 * 1024);
  stdout.resume();
  await expect.poll(() => stdout.readableLength).toBe(8 * 1024);
  exit(0);
  const { stdout: kept } = await result;
  expect(kept).toMatchObject({ cut: true, bytes: Buffer.alloc(1_000, 'a') });
});

test('a caller who leaves has it killed, and its time limit is called off', async () => {
  const { clock, gone, exit, result, kills } = await commandRoom();
  gone.abort(new Error('left'));
  await expect.poll(kills).toBe(1);
  exit(137);
  await expect(result).rejects.toThrow('left');
  expect(clock.pending()).toEqual([]);
});

test('a seat that is left twice makes room for one', () => {
  const limit = makeConcurrencyLimit({ perAccount: 2, total: 3, retryAfterS: 1, full: { mine: String, all: String } });
  const leave = limit.acquire('a');
  limit.acquire('a');
  leave();
  leave();
  expect(limit.count).toBe(1);
  limit.acquire('a');
  expect(() => limit.acquire('a')).toThrow('2');
});
