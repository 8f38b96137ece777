/** Connections within an instance's network, and at a path in the instance. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { beforeEach, describe, expect, it, type TestContext } from 'vitest';
import type { InstanceId } from '../../src/domain/kernel/ids.ts';
import type { EngineSpec, InsideSocket, InstanceNetwork } from '../../src/engines/contract.ts';
import {
  deadline,
  echoPort,
  expectFault,
  loopbackPort,
  newInstanceId,
  skipWithout,
  type Subject,
  type SpecOptions,
} from './subject.ts';

const freePort = 7100;
const loopback = '127.0.0.1';

export function describeJoining(current: () => Subject): void {
  async function joined(
    context: TestContext,
    options?: SpecOptions,
  ): Promise<{ subject: Subject; spec: EngineSpec; network: InstanceNetwork }> {
    const subject = current();
    skipWithout('joinNetwork', subject, context);
    const spec = subject.spec(options);
    await subject.ensure(spec);
    const network = await subject.fixture.engine.joinNetwork(spec.id, deadline());
    subject.after(async () => network.close());
    (await subject.dial(spec.id, echoPort)).destroy();
    return { subject, spec, network };
  }

  describe('joinNetwork', () => {
    it('reaches what listens on all addresses and what listens on loopback alone, which dial does not', async (context) => {
      const { subject, spec, network } = await joined(context);
      for (const host of [loopback, 'localhost', spec.hostname]) {
        const stream = await network.connect({ host, port: echoPort }, deadline());
        const sent = randomBytes(3_000_000);
        const received = buffer(stream);
        stream.end(sent);
        expect((await received).equals(sent), host).toBe(true);
      }
      await subject.until('its web server answers', async () => (await httpOf(network)).startsWith('HTTP/1.'));
      await expectFault(subject.fixture.engine.dial(spec.id, loopbackPort, deadline()), 'busy');
    });

    it('is refused like a program inside', async (context) => {
      const { network } = await joined(context);
      const fault = await expectFault(network.connect({ host: loopback, port: 7999 }, deadline()), 'busy');
      expect(fault.retry).toBe(true);
      await expectFault(network.connect({ host: 'no-such-name.invalid', port: 80 }, deadline()), 'not_found');
    });

    it('a listener is reachable by dial and node port; on loopback only from within', async (context) => {
      const nodePort = await current().fixture.releaseNodePort();
      const { subject, spec, network } = await joined(context, { nodePorts: [{ port: freePort, nodePort }] });
      const { engine } = subject.fixture;
      await expectFault(engine.dial(spec.id, freePort, deadline()), 'busy');
      const listening = await network.listen({ host: '', port: freePort }, greet, deadline());
      expect(listening.port).toBe(freePort);
      expect(await greeted(await engine.dial(spec.id, freePort, deadline()))).toBe('hello, you');
      expect(await greeted(await network.connect({ host: loopback, port: freePort }, deadline()))).toBe('hello, you');
      if (subject.fixture.lacks.publishedPorts === undefined) {
        await subject.until('the node port greets', async () => (await greetingAt(subject, nodePort)) === 'hello, you');
      }
      listening.close();
      await subject.until('the port is closed', () => isRefused(engine.dial(spec.id, freePort, deadline())));
      const near = await network.listen({ host: 'localhost', port: 0 }, greet, deadline());
      expect(near.port).toBeGreaterThan(1024);
      expect(await greeted(await network.connect({ host: loopback, port: near.port }, deadline()))).toBe('hello, you');
      await expectFault(engine.dial(spec.id, near.port, deadline()), 'busy');
    });

    it('a used port is busy, a foreign address is rejected, and port 0 is a free one', async (context) => {
      const { network } = await joined(context);
      await expectFault(network.listen({ host: '', port: echoPort }, greet, deadline()), 'busy');
      await expectFault(network.listen({ host: '192.0.2.1', port: freePort }, greet, deadline()), 'rejected');
      await expectFault(network.listen({ host: 'example.invalid', port: freePort }, greet, deadline()), 'rejected');
      const any = await Promise.all([0, 0].map((port) => network.listen({ host: '', port }, greet, deadline())));
      expect(new Set(any.map(({ port }) => port)).size).toBe(2);
      for (const { port } of any) await expectFault(network.listen({ host: '', port }, greet, deadline()), 'busy');
      any[0]?.close();
      const again = { host: '', port: any[0]?.port ?? 0 };
      await current().until('its port is free', () =>
        network.listen(again, greet, deadline()).then(
          () => true,
          () => false,
        ),
      );
    });

    it('a command inside reaches a listener', async (context) => {
      const { subject, spec, network } = await joined(context);
      skipWithout('shell', subject, context);
      await network.listen({ host: '', port: freePort }, greet, deadline());
      const { stdout } = await subject.exec(spec.id, 'sh', '-c', `echo me | nc 127.0.0.1 ${freePort}`);
      expect(stdout).toBe('hello, me\n');
    });

    it('ends with a halt, with everything opened; the next run is joined again', async (context) => {
      const { subject, spec, network } = await joined(context);
      const { engine } = subject.fixture;
      const stream = (await network.connect({ host: loopback, port: echoPort }, deadline())).resume();
      const listening = await network.listen({ host: '', port: freePort }, greet, deadline());
      const greeting = await engine.dial(spec.id, freePort, deadline());
      const closed = [stream, greeting.on('error', () => {}).resume()].map((one) => once(one, 'close'));
      greeting.end();
      await engine.halt(spec.id, 5_000, deadline());
      await network.ended;
      await Promise.all(closed);
      await expectFault(network.connect({ host: loopback, port: echoPort }, deadline()), 'unreachable');
      await expectFault(network.listen({ host: '', port: freePort }, greet, deadline()), 'unreachable');
      listening.close();
      network.close();
      await expectFault(engine.joinNetwork(spec.id, deadline()), 'not_found');
      await subject.ensure(spec);
      const next = await engine.joinNetwork(spec.id, deadline());
      subject.after(async () => next.close());
      await expectFault(engine.dial(spec.id, freePort, deadline()), 'busy');
      await next.listen({ host: '', port: freePort }, greet, deadline());
      expect(await greeted(await subject.dial(spec.id, freePort))).toBe('hello, you');
    });

    it.for(['ends by itself', 'is destroyed', 'starts again at once'] as const)(
      'ends when the instance %s',
      async (how, context) => {
        const { subject, spec, network } = await joined(context);
        const { engine } = subject.fixture;
        if (how === 'is destroyed') await engine.destroy(spec.id, deadline());
        else await subject.fixture.stopOutside(spec.id);
        if (how === 'starts again at once') await subject.ensure(spec);
        await network.ended;
        await expectFault(network.connect({ host: loopback, port: echoPort }, deadline()), 'unreachable');
      },
    );

    it('close ends only its own join', async (context) => {
      const { subject, spec, network } = await joined(context);
      const other = await subject.fixture.engine.joinNetwork(spec.id, deadline());
      subject.after(async () => other.close());
      const [mine, theirs] = await Promise.all(
        [network, other].map((one) => one.connect({ host: loopback, port: echoPort }, deadline())),
      );
      const closed = once(mine ?? expect.fail(), 'close');
      network.close();
      await network.ended;
      await closed;
      theirs?.end('still here');
      expect(await text(theirs ?? expect.fail())).toBe('still here');
      await expectFault(network.connect({ host: loopback, port: echoPort }, deadline()), 'unreachable');
      network.close();
    });

    it('the signal ends the opening only', async (context) => {
      const { subject, spec, network } = await joined(context);
      const given = AbortSignal.abort();
      await expectFault(network.connect({ host: loopback, port: echoPort }, given), 'unreachable');
      await expectFault(network.listen({ host: '', port: freePort }, greet, given), 'unreachable');
      const opening = new AbortController();
      const joinedSince = await subject.fixture.engine.joinNetwork(spec.id, opening.signal);
      subject.after(async () => joinedSince.close());
      const stream = await joinedSince.connect({ host: loopback, port: echoPort }, opening.signal);
      await joinedSince.listen({ host: '', port: freePort }, greet, opening.signal);
      opening.abort();
      stream.end('still here');
      expect(await text(stream)).toBe('still here');
      expect(await greeted(await network.connect({ host: loopback, port: freePort }, deadline()))).toBe('hello, you');
    });

    it('is not_found for a stopped or absent instance', async (context) => {
      const { subject, spec } = await joined(context);
      const { engine } = subject.fixture;
      await engine.halt(spec.id, 5_000, deadline());
      await expectFault(engine.joinNetwork(spec.id, deadline()), 'not_found');
      await expectFault(engine.joinNetwork(newInstanceId(), deadline()), 'not_found');
    });
  });

  describe('listenUnix', () => {
    beforeEach((context) => skipWithout('listenUnix', current(), context));

    async function listened(): Promise<InsideSocket & { subject: Subject; spec: EngineSpec; id: InstanceId }> {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      const socket = await subject.fixture.engine.listenUnix(spec.id, greet, deadline());
      subject.after(async () => socket.close());
      return { subject, spec, id: spec.id, ...socket };
    }

    it('accepts many connections at its path, and is gone after close', async () => {
      const { subject, id, pathInside, close } = await listened();
      const { fixture } = subject;
      expect(pathInside).toMatch(/^\/etc\/berth\/[\w/.-]{1,60}$/);
      const all = await Promise.all(Array.from({ length: 5 }, () => fixture.connectUnix(id, pathInside)));
      expect(await Promise.all(all.map(greeted))).toEqual(all.map(() => 'hello, you'));
      const other = await fixture.engine.listenUnix(id, greet, deadline());
      subject.after(async () => other.close());
      expect(other.pathInside).not.toBe(pathInside);
      close();
      await subject.until('the socket is gone', () => isRefused(fixture.connectUnix(id, pathInside)));
      expect(await greeted(await fixture.connectUnix(id, other.pathInside))).toBe('hello, you');
      close();
    });

    it('outlives new control files, but not a restart', async () => {
      const { subject, spec, id, pathInside } = await listened();
      const { fixture } = subject;
      await subject.ensure({ ...spec, files: [...spec.files, { name: 'more', content: 'text', mode: 0o644 }] });
      expect(await greeted(await fixture.connectUnix(id, pathInside))).toBe('hello, you');
      await fixture.engine.halt(id, 5_000, deadline());
      await subject.ensure(spec);
      await expect(fixture.connectUnix(id, pathInside)).rejects.toThrow();
    });

    it('is not_found for a stopped or absent instance', async () => {
      const { subject, id } = await listened();
      const { engine } = subject.fixture;
      await engine.halt(id, 5_000, deadline());
      await expectFault(engine.listenUnix(id, greet, deadline()), 'not_found');
      await expectFault(engine.listenUnix(newInstanceId(), greet, deadline()), 'not_found');
    });
  });
}

/** Greets the first connection. */
function greet(connection: Duplex): void {
  connection.once('data', (said: Buffer) => connection.end(`hello, ${said.toString()}`));
}

async function greeted(connection: Duplex): Promise<string> {
  connection.write('you');
  return text(connection);
}

async function greetingAt(subject: Subject, nodePort: number): Promise<string | undefined> {
  const socket = net.connect({ port: nodePort, host: subject.fixture.nodePortAddress });
  try {
    await once(socket, 'connect');
    return await greeted(socket);
  } catch {
    return undefined; // refused or reset
  }
}

/** Response of the loopback web server; '' while nothing listens. */
async function httpOf(network: InstanceNetwork): Promise<string> {
  const stream = await network.connect({ host: loopback, port: loopbackPort }, deadline()).catch(() => null);
  if (stream === null) return '';
  stream.write('GET / HTTP/1.0\r\n\r\n');
  return text(stream).catch(() => '');
}

const isRefused = (opening: Promise<Duplex>): Promise<boolean> =>
  opening.then(
    (connection) => {
      connection.destroy();
      return false;
    },
    () => true,
  );
