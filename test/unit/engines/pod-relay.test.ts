/** The relay's program and Berth's end of it, joined by the pipes of a process. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { Writable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import { relayExec, startRelay, type PodRelay } from '../../../src/engines/kubernetes/network/pod-relay.ts';
import type { PodExec } from '../../../src/kubernetes/pod-exec.ts';
import { deadline, expectFault } from '../../conformance/subject.ts';

const loopback = '127.0.0.1';
const undos: (() => void)[] = [];
afterEach(() => {
  for (const undo of undos.splice(0)) undo();
});

interface Started {
  relay: PodRelay;
  child: ChildProcess;
  ended: Promise<unknown>;
  /** From now on nothing reaches the process, and nothing says so. */
  loseConnection(): void;
}

async function startProcess(pingMs?: number): Promise<Started> {
  const [program = '', ...words] = relayExec('').command;
  const child = spawn(program === 'node' ? process.execPath : program, words, { stdio: 'pipe' });
  undos.push(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  const { stdout, stderr } = child;
  let isLost = false;
  const stdin = new Writable({
    write: (chunk, _encoding, done) => (isLost ? done() : void child.stdin.write(chunk, done)),
    final: (done) => (isLost ? done() : void child.stdin.end(done)),
  });
  for (const stream of [stdin, child.stdin]) stream.on('error', () => {});
  const exec: PodExec = {
    stdin,
    stdout,
    stderr,
    exited: once(child, 'close').then(([code]) => Number(code)),
    resize: async () => {},
    limitOutput: () => {},
    close: () => stdin.end(),
  };
  const relay = await startRelay(exec, deadline(), pingMs === undefined ? {} : { pingMs });
  undos.push(() => relay.close());
  return { relay, child, ended, loseConnection: () => (isLost = true) };
}

async function listening(onConnection: (socket: net.Socket) => void): Promise<number> {
  const server = net.createServer({ allowHalfOpen: true }, onConnection).listen(0, loopback);
  await once(server, 'listening');
  undos.push(() => server.close());
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

test('carries connections both ways, each with its end', async () => {
  const { relay } = await startProcess();
  const port = await listening((socket) => socket.pipe(socket));
  const sent = [randomBytes(5_000_000), randomBytes(70_000), Buffer.from('short')];
  const received = await Promise.all(
    sent.map(async (bytes) => {
      const stream = await relay.connect({ host: loopback, port }, deadline());
      const all = buffer(stream);
      stream.end(bytes);
      return all;
    }),
  );
  expect(received.map((bytes, at) => bytes.equals(sent[at] ?? Buffer.alloc(0)))).toEqual([true, true, true]);
});

test('a connection that nobody reads delays no other', async () => {
  const { relay } = await startProcess();
  const endless = await listening((socket) => {
    const write = (): void => {
      while (socket.write(randomBytes(65_536)));
    };
    socket.on('error', () => {}).on('drain', write);
    write();
  });
  const echo = await listening((socket) => socket.pipe(socket));
  const unread = await relay.connect({ host: loopback, port: endless }, deadline());
  const stream = await relay.connect({ host: loopback, port: echo }, deadline());
  const all = buffer(stream);
  const sent = randomBytes(2_000_000);
  stream.end(sent);
  expect((await all).equals(sent)).toBe(true);
  unread.destroy();
});

test('a listener passes the address of its peer, and is gone after its close', async () => {
  const { relay } = await startProcess();
  const seen = Promise.withResolvers<unknown>();
  const listener = await relay.listen(
    { host: loopback, port: 0 },
    (connection) => {
      seen.resolve({ address: connection.remoteAddress, port: Reflect.get(connection, 'remotePort') as unknown });
      connection.end('hello');
    },
    deadline(),
  );
  const client = net.connect(listener.port, loopback);
  await once(client, 'connect');
  const { localPort } = client;
  expect(await text(client)).toBe('hello');
  expect(await seen.promise).toEqual({ address: loopback, port: localPort });
  listener.close();
  await expect
    .poll(async () => {
      const fault = await relay
        .connect({ host: loopback, port: listener.port }, deadline())
        .catch((error: unknown) => error);
      return fault instanceof Error && fault.message;
    })
    .toBe(`nothing listens on port ${listener.port} of ${loopback} (yet)`);
});

describe('ends', () => {
  test('with everything opened when its process dies', async () => {
    const { relay, child } = await startProcess();
    const port = await listening(() => {});
    const stream = (await relay.connect({ host: loopback, port }, deadline())).resume();
    const closed = once(stream, 'close');
    child.kill('SIGKILL');
    await Promise.all([relay.ended, closed]);
    await expectFault(relay.connect({ host: loopback, port }, deadline()), 'unreachable');
  });

  test('when its process does not answer', async () => {
    const { relay, child } = await startProcess(100);
    child.kill('SIGSTOP');
    await expect(relay.ended).resolves.toBeUndefined();
  });

  test('its process when Berth is silent, as after a connection that was lost', async () => {
    const { ended, loseConnection } = await startProcess(300);
    loseConnection();
    // Its exit code.
    expect(await ended).toEqual([0, null]);
  });

  test('its process when the input ends, so that another relay gets its ports', async () => {
    const first = await startProcess();
    const { port } = await first.relay.listen({ host: loopback, port: 0 }, () => {}, deadline());
    const second = await startProcess();
    await expectFault(
      second.relay.listen({ host: loopback, port }, () => {}, deadline()),
      'busy',
    );
    first.relay.close();
    await first.ended;
    expect((await second.relay.listen({ host: loopback, port }, () => {}, deadline())).port).toBe(port);
  });
});
