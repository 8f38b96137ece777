/** Emulation: time, scripts, services, images, and the persistent state file. */
import { once } from 'node:events';
import { appendFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { ImageProgress } from '../../../src/engines/contract.ts';
import { makeRandom } from '../../fixtures/seeded-random.ts';
import { makeVirtualClock } from '../../fixtures/virtual-clock.ts';
import { makeSimulatedEngine, type SimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import type { HostOptions } from '../../../src/engines/simulated/host.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { imageRef, noSignal, specOf, uuidOf } from './simulated-spec.ts';

const undos: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const undo of undos.splice(0).toReversed()) await undo();
});

function emulator(options: HostOptions = {}): { engine: SimulatedEngine; clock: ReturnType<typeof makeVirtualClock> } {
  const clock = makeVirtualClock(1_000_000);
  const engine = makeSimulatedEngine({
    installation: uuidOf('installation'),
    clock,
    random: makeRandom('1'),
    ...options,
  });
  engine.host.addImage(imageRef);
  undos.push(() => engine.stop());
  return { engine, clock };
}

async function observe(engine: SimulatedEngine, id: InstanceId) {
  return (await engine.observe([id], noSignal())).get(id);
}

const up = ['berth: services ssh notebook', 'berth: notebook ready'];

describe('time', () => {
  it('stands still until the clock is advanced', async () => {
    const { engine, clock } = emulator({ times: { create: 1_000, start: 500 } });
    const spec = specOf('one');
    let done = false;
    const call = engine.ensure(spec, noSignal()).then(() => (done = true));
    await clock.advance(999);
    expect(await observe(engine, spec.id)).toEqual({ kind: 'absent' });
    await clock.advance(1);
    expect(await observe(engine, spec.id)).toMatchObject({ kind: 'present', running: false, startedAtMs: 0 });
    await clock.advance(499);
    expect(done).toBe(false);
    await clock.advance(1);
    await call;
    expect(await observe(engine, spec.id)).toMatchObject({ running: true, startedAtMs: 1_001_500 });
  });

  it('lets an instance answer exactly from its readiness', async () => {
    const { engine, clock } = emulator({ times: { ready: 30_000 } });
    const spec = specOf('one');
    await clock.run(engine.ensure(spec, noSignal()));
    await clock.advance(29_999);
    await expect(engine.dial(spec.id, 22, noSignal())).rejects.toMatchObject({ kind: 'busy', retry: true });
    await clock.advance(1);
    const stream = await engine.dial(spec.id, 22, noSignal());
    expect(String((await once(stream, 'data'))[0])).toBe('SSH-2.0-BerthSimulation\r\n');
  });

  it('passes during a pull with bytes of progress, and not during a second one', async () => {
    const { engine, clock } = emulator({ times: { pull: 8_000 }, images: () => ({ kind: 'found', bytes: 800 }) });
    const reported: ImageProgress[] = [];
    const beganMs = clock.now();
    await clock.run(engine.ensureImage('registry.example/big:1', (progress) => reported.push(progress), noSignal()));
    expect(clock.now() - beganMs).toBe(8_000);
    expect(reported.map(({ done }) => done)).toEqual([0, 100, 200, 300, 400, 500, 600, 700, 800]);
    expect(new Set(reported.map(({ total }) => total))).toEqual(new Set([800]));
    reported.length = 0;
    await engine.ensureImage('registry.example/big:1', (progress) => reported.push(progress), noSignal());
    expect(reported).toEqual([]);
  });

  it('ensure refuses an image that was not pulled; three registries fail in three ways', async () => {
    const { engine, clock } = emulator();
    const pull = (ref: string): Promise<void> => clock.run(engine.ensureImage(ref, () => {}, noSignal()));
    const ensured = clock.run(engine.ensure(specOf('one', { imageRef: 'registry.example/other:1' }), noSignal()));
    await expect(ensured).rejects.toMatchObject({ kind: 'not_found' });
    await expect(pull('missing.invalid/x:1')).rejects.toMatchObject({ kind: 'not_found', retry: false });
    await expect(pull('denied.invalid/x:1')).rejects.toMatchObject({ kind: 'denied', retry: false });
    await expect(pull('unreachable.invalid/x:1')).rejects.toMatchObject({ kind: 'unreachable', retry: true });
  });

  it('draws spans from the given random numbers', async () => {
    const lasted = async (seed: string): Promise<number> => {
      const { engine, clock } = emulator({ random: makeRandom(seed), times: { create: [0, 1_000_000], start: 0 } });
      await clock.run(engine.ensure(specOf('one'), noSignal()));
      return clock.now();
    };
    expect(await lasted('a')).toBe(await lasted('a'));
    expect(await lasted('a')).not.toBe(await lasted('b'));
  });
});

describe('scripts', () => {
  const linesOf = async (engine: SimulatedEngine, id: InstanceId): Promise<string[]> =>
    Array.fromAsync(await engine.logs(id, 'console', { tail: 100 }, noSignal()), ({ text }) => text);

  it('without ssh leave the port free, and report no ssh', async () => {
    const { engine, clock } = emulator();
    const [without, having] = [specOf('one', { start: '# berth-sim: no ssh\n' }), specOf('other')];
    for (const spec of [without, having]) await clock.run(engine.ensure(spec, noSignal()));
    await clock.advance(60_000);
    expect((await linesOf(engine, without.id))[0]).toBe('berth: services notebook');
    await expect(engine.dial(without.id, 22, noSignal())).rejects.toMatchObject({ kind: 'busy' });
    const taken = await engine.joinNetwork(having.id, noSignal());
    await expect(taken.listen({ host: '', port: 22 }, () => {}, noSignal())).rejects.toMatchObject({ kind: 'busy' });
    const network = await engine.joinNetwork(without.id, noSignal());
    await network.listen({ host: '', port: 22 }, (connection) => connection.end('ours'), noSignal());
    expect(await text(await engine.dial(without.id, 22, noSignal()))).toBe('ours');
  });

  it('play the init script’s comment once per root disk', async () => {
    const { engine, clock } = emulator();
    const spec = specOf('one', { initScript: '#!/bin/sh\n# berth-sim: exit 3 after 200ms\napt install everything\n' });
    const hints: InstanceId[] = [];
    engine.watch((id) => hints.push(id), noSignal());
    await clock.run(engine.ensure(spec, noSignal()));
    expect(await linesOf(engine, spec.id)).toEqual([...up, 'berth: init started']);
    await clock.advance(199);
    expect(await linesOf(engine, spec.id)).toHaveLength(3);
    hints.length = 0;
    await clock.advance(1);
    expect((await linesOf(engine, spec.id)).at(-1)).toBe('berth: init exit 3');
    expect(hints).toEqual([spec.id]);
    await clock.run(engine.halt(spec.id, 1_000, noSignal()));
    await clock.run(engine.ensure(spec, noSignal()));
    expect((await linesOf(engine, spec.id)).slice(4)).toEqual([...up, 'berth: init exit 3']);
  });

  it('drop an interrupted init script, and end one without instructions with 0', async () => {
    const { engine, clock } = emulator({ times: { init: 60_000 } });
    const spec = specOf('one', { initScript: 'make world\n' });
    await clock.run(engine.ensure(spec, noSignal()));
    await clock.run(engine.halt(spec.id, 1_000, noSignal()));
    await clock.run(engine.ensure(spec, noSignal()));
    expect((await linesOf(engine, spec.id)).at(-1)).toBe('berth: init lost');
    const other = specOf('other', { initScript: 'make world\n' });
    await clock.run(engine.ensure(other, noSignal()));
    await clock.advance(60_000);
    expect((await linesOf(engine, other.id)).at(-1)).toBe('berth: init exit 0');
  });

  it('crash the instance at the scripted time, with a hint and no later output', async () => {
    const { engine, clock } = emulator();
    const initScript = '# berth-sim: crash after 2s exit 9\n# berth-sim: exit 0 after 3s\n';
    const spec = specOf('one', { initScript });
    await clock.run(engine.ensure(spec, noSignal()));
    const hints: InstanceId[] = [];
    engine.watch((id) => hints.push(id), noSignal());
    await clock.advance(1_999);
    expect(await observe(engine, spec.id)).toMatchObject({ running: true });
    expect(hints).toEqual([]);
    await clock.advance(1);
    expect(hints).toContain(spec.id);
    expect(await observe(engine, spec.id)).toMatchObject({ running: false, exitCode: 9, outOfMemory: false });
    await clock.advance(60_000);
    expect(await linesOf(engine, spec.id)).toEqual([...up, 'berth: init started']);
  });

  it('support `crash once`, `out of memory` and `never ready`', async () => {
    const { engine, clock } = emulator();
    const spec = specOf('one', { start: '# berth-sim: crash once after 1s out of memory\n# berth-sim: never ready\n' });
    await clock.run(engine.ensure(spec, noSignal()));
    await clock.advance(1_000);
    expect(await observe(engine, spec.id)).toMatchObject({ running: false, exitCode: 137, outOfMemory: true });
    await clock.run(engine.ensure(spec, noSignal()));
    await clock.advance(365 * 86_400_000);
    expect(await observe(engine, spec.id)).toMatchObject({ running: true });
    await expect(engine.dial(spec.id, 22, noSignal())).rejects.toMatchObject({ kind: 'busy' });
  });

  it('report an unknown line on the console', async () => {
    const { engine, clock } = emulator();
    const spec = specOf('one', { start: '# berth-sim: explode gently\n' });
    await clock.run(engine.ensure(spec, noSignal()));
    expect((await linesOf(engine, spec.id))[0]).toBe('berth-sim: unknown instruction: "explode gently"');
  });

  it('explain an unsupported command', async () => {
    const { engine, clock } = emulator();
    const spec = specOf('one');
    await clock.run(engine.ensure(spec, noSignal()));
    const { exitCode, stderr } = await engine.exec(spec.id, ['python3', '-c', 'print(1)'], noSignal());
    expect(exitCode).toBe(127);
    expect(stderr).toContain('simulated and runs no commands');
  });
});

describe('services', () => {
  async function runningOne(options: HostOptions = {}): Promise<{ engine: SimulatedEngine; id: InstanceId }> {
    const { engine, clock } = emulator(options);
    const spec = specOf('one');
    await clock.run(engine.ensure(spec, noSignal()));
    await clock.advance(1_000);
    return { engine, id: spec.id };
  }

  it('HTTP on 8888 echoes requests, twice on one connection', async () => {
    const { engine, id } = await runningOne();
    const stream = await engine.dial(id, 8888, noSignal());
    undos.push(async () => stream.destroy());
    const ask = async (method: 'GET' | 'POST', path: string, body: string): Promise<unknown> => {
      stream.write(
        `${method} ${path} HTTP/1.1\r\nHost: notebook\r\nX-Mine: yes\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      let got = '';
      while (!got.endsWith('\r\n0\r\n\r\n')) got += String((await once(stream, 'data'))[0]);
      expect(got).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      return JSON.parse(/\{.*\}/s.exec(got)?.[0] ?? '');
    };
    expect(await ask('POST', '/notebook/a?b=c', 'hello')).toMatchObject({
      simulated: true,
      instanceId: id,
      port: 8888,
      method: 'POST',
      path: '/notebook/a?b=c',
      headers: { 'x-mine': 'yes', host: 'notebook' },
      bodyBytes: 5,
      body: 'hello',
    });
    expect(await ask('GET', '/second', '')).toMatchObject({ method: 'GET', path: '/second', bodyBytes: 0 });
  });

  it('WebSockets on 8888 echo', async () => {
    const { engine, id } = await runningOne();
    const stream = await engine.dial(id, 8888, noSignal());
    const socket = new WebSocket('ws://notebook/socket', { createConnection: () => stream });
    undos.push(async () => socket.terminate());
    await once(socket, 'open');
    socket.send('over and back');
    expect(String((await once(socket, 'message'))[0])).toBe('over and back');
    socket.close(1000);
    expect((await once(socket, 'close'))[0]).toBe(1000);
  });

  it('ssh explains in a protocol packet why there is no shell', async () => {
    const { engine, id } = await runningOne();
    const stream = await engine.dial(id, 22, noSignal());
    stream.write('SSH-2.0-client\r\n');
    const received = await buffer(stream);
    stream.end();
    const packet = received.subarray(received.indexOf('\r\n') + 2);
    expect(packet.length % 8).toBe(0);
    expect(packet.readUInt32BE(0)).toBe(packet.length - 4);
    expect(packet.readUInt8(4)).toBeGreaterThanOrEqual(4);
    expect(packet.readUInt8(5)).toBe(1);
    expect(packet.toString('latin1')).toContain('has no shell');
  });

  it('other ports are busy unless a service is configured', async () => {
    const { engine, id } = await runningOne({ services: { 9000: (stream) => stream.end('told') } });
    expect(await text(await engine.dial(id, 9000, noSignal()))).toBe('told');
    await expect(engine.dial(id, 9001, noSignal())).rejects.toMatchObject({ kind: 'busy' });
  });

  it('a stop ends the connections', async () => {
    const { engine, id } = await runningOne();
    const stream = await engine.dial(id, 8888, noSignal());
    stream.resume();
    const ended = once(stream, 'end');
    await engine.host.crash(id);
    await ended;
    expect(stream.readableEnded).toBe(true);
  });

  it('GPUs are counted while instances run', async () => {
    const { engine, clock } = emulator({ capacity: { cpuMilli: 1_000, memoryMiB: 1_000, gpus: { L4: 3 } } });
    const [two, other] = [specOf('two', { gpus: 2 }), specOf('other', { gpus: 2 })];
    await clock.run(engine.ensure(two, noSignal()));
    await expect(clock.run(engine.ensure(other, noSignal()))).rejects.toMatchObject({
      kind: 'no_capacity',
      retry: true,
    });
    await clock.run(engine.halt(two.id, 1_000, noSignal()));
    expect(await clock.run(engine.ensure(other, noSignal()))).toMatchObject({ running: true });
  });
});

describe('the state file', () => {
  async function stateFile(): Promise<string> {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-simulated-'));
    undos.push(() => rm(folder, { recursive: true }));
    return path.join(folder, 'state', 'engine.jsonl');
  }

  it('restores every acknowledged change, even without a clean stop', async () => {
    const file = await stateFile();
    const { engine, clock } = emulator({ stateFile: file });
    const start = `# berth-sim: listen 7000 echo\n${'# the same for all\n'.repeat(500)}`;
    const [running, halted, gone] = ['running', 'halted', 'gone'].map((word) => specOf(word, { start }));
    if (!running || !halted || !gone) throw new Error('three were made');
    for (const spec of [running, halted, gone]) await clock.run(engine.ensure(spec, noSignal()));
    await engine.exec(halted.id, ['touch', '/root/kept'], noSignal());
    await clock.run(engine.halt(halted.id, 1_000, noSignal()));
    await clock.run(engine.destroy(gone.id, noSignal()));
    const seen = await engine.observe([running.id, halted.id, gone.id], noSignal());
    const owned = await engine.listOwned(noSignal());
    // Each of the three has the long script, which is written once.
    expect((await stat(file)).size).toBeLessThan(2 * start.length);

    const { engine: next, clock: later } = emulator({ stateFile: file });
    await later.advance(60_000);
    expect(await next.observe([running.id, halted.id, gone.id], noSignal())).toEqual(seen);
    expect(await next.listOwned(noSignal())).toEqual(owned);
    const stream = await next.dial(running.id, 7000, noSignal());
    stream.end('still here');
    expect(await text(stream)).toBe('still here');
    await later.run(next.ensure(halted, noSignal()));
    expect(await next.exec(halted.id, ['ls', '/root/kept'], noSignal())).toMatchObject({ exitCode: 0 });
    expect(await next.exec(running.id, ['cat', '/etc/berth/start'], noSignal())).toMatchObject({ stdout: start });
  });

  it('restores saved and pushed images with their sizes', async () => {
    const file = await stateFile();
    const { engine, clock } = emulator({ stateFile: file });
    const spec = specOf('one');
    const ref = 'private.invalid/mine:1';
    const credentials = { username: 'berth', secret: 'harbour' };
    await clock.run(engine.ensure(spec, noSignal()));
    await engine.exec(spec.id, ['touch', '/root/kept'], noSignal());
    const { sizeBytes } = await clock.run(engine.saveImage(spec.id, ref, noSignal()));
    await clock.run(engine.pushImage(ref, () => {}, noSignal(), credentials));
    const owned = await engine.listOwned(noSignal());
    expect(owned.map(({ kind, engineName }) => [kind, engineName])).toContainEqual(['image', ref]);

    const { engine: next, clock: later } = emulator({ stateFile: file });
    expect(await next.listOwned(noSignal())).toEqual(owned);
    await next.removeImage(ref, noSignal());
    const reported: number[] = [];
    await later.run(next.ensureImage(ref, ({ done }) => reported.push(done), noSignal(), credentials));
    expect(reported.at(-1)).toBe(sizeBytes);
    const copy = specOf('two', { imageRef: ref });
    await later.run(next.ensure(copy, noSignal()));
    expect(await next.exec(copy.id, ['ls', '/root/kept'], noSignal())).toMatchObject({ exitCode: 0 });
  });

  it('applies a crash that was due between two processes', async () => {
    const file = await stateFile();
    const { engine, clock } = emulator({ stateFile: file });
    const spec = specOf('one', { start: '# berth-sim: crash after 10s exit 4\n' });
    await clock.run(engine.ensure(spec, noSignal()));
    const next = makeSimulatedEngine({
      installation: uuidOf('installation'),
      clock: makeVirtualClock(9e12),
      stateFile: file,
    });
    undos.push(() => next.stop());
    expect(await observe(next, spec.id)).toMatchObject({ running: false, exitCode: 4 });
  });

  it('ignores a truncated last line; refuses and keeps a foreign file', async () => {
    const file = await stateFile();
    const { engine, clock } = emulator({ stateFile: file });
    const spec = specOf('one');
    await clock.run(engine.ensure(spec, noSignal()));
    await appendFile(file, '{"container":{"installation":"');
    expect(await observe(emulator({ stateFile: file }).engine, spec.id)).toMatchObject({ running: true });
    await appendFile(file, 'dear diary\n');
    const before = await readFile(file, 'utf8');
    expect(() => emulator({ stateFile: file })).toThrow(/line \d+, is not valid; remove the file/);
    expect(await readFile(file, 'utf8')).toBe(before);
  });

  it('reopens node ports of running instances', async () => {
    const options = { installation: uuidOf('installation'), stateFile: await stateFile(), publishPorts: true };
    const engine = makeSimulatedEngine(options);
    engine.host.addImage(imageRef);
    const nodePort = await freePort();
    const start = '# berth-sim: listen 7000 echo\n# berth-sim: ready after 0ms\n';
    const spec = specOf('one', { start, nodePorts: [{ port: 7000, nodePort }] });
    const seen = await engine.ensure(spec, noSignal());
    const asked = async (): Promise<string> => {
      const socket = net.connect(nodePort, '127.0.0.1');
      socket.end('anybody there?');
      return text(socket);
    };
    expect(await asked()).toBe('anybody there?');
    await engine.stop();
    await expect(asked()).rejects.toThrow(/ECONNREFUSED/);
    const next = makeSimulatedEngine(options);
    undos.push(() => next.stop());
    expect(await observe(next, spec.id)).toEqual(seen);
    expect(await asked()).toBe('anybody there?');
  });

  it('has a bounded size', async () => {
    const file = await stateFile();
    const { engine } = emulator({ stateFile: file, times: { create: 0, start: 0, halt: 0 } });
    const spec = specOf('one');
    for (let round = 0; round < 8_000; round++) {
      await engine.ensure({ ...spec, generation: round }, noSignal());
    }
    const lineBytes = Buffer.byteLength((await readFile(file, 'utf8')).split('\n').at(-2) ?? '');
    await engine.halt(spec.id, 0, noSignal());
    for (let round = 0; round < 8_000; round++) await engine.exec(spec.id, ['true'], noSignal()).catch(() => {});
    for (let round = 0; round < 8_000; round++) await engine.ensure({ ...spec, generation: round }, noSignal());
    expect((await stat(file)).size).toBeLessThan(11_000 * (lineBytes + 100));
    expect(await observe(emulator({ stateFile: file }).engine, spec.id)).toMatchObject({ generation: 7_999 });
  });
});

describe('scale', () => {
  it('has 20,000 instances without a timer for any', async () => {
    const { engine, clock } = emulator({ times: { create: 0, start: 0 } });
    const specs = Array.from({ length: 20_000 }, (_, index) => specOf(`instance ${index}`));
    for (const spec of specs) await engine.ensure(spec, noSignal());
    expect(clock.sleepers()).toBe(0);
    expect((await engine.listOwned(noSignal())).length).toBe(20_001);
    const seen = await engine.observe(
      specs.map(({ id }) => id),
      noSignal(),
    );
    expect([...seen.values()].every((one) => one.kind === 'present' && one.running)).toBe(true);
  });
});
