/**
 * Limits per client, per instance and in total on resources of the ssh process, and their release.
 */
import { EventEmitter, once } from 'node:events';
import { connect, createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client as Ssh2Client, ClientChannel, Connection, ServerChannel } from 'ssh2';
import { describe, expect, test, vi } from 'vitest';
import { makeSshClient, type SshClient } from '../../../src/edge/ssh/ssh-client.ts';
import { serveForwards } from '../../../src/edge/ssh/forwards.ts';
import { makeBufferedBytes } from '../../../src/edge/ssh/buffered-bytes.ts';
import { forwardConnection } from '../../../src/edge/ssh/join.ts';
import { makeKeyedLimit, makeLimit } from '../../../src/async/limits.ts';
import { runProgram } from '../../../src/edge/ssh/program.ts';
import { makeSshHostKeys } from '../../../src/control/access/routing/ssh-host-key.ts';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { MALLORY, onCleanup } from './harness.ts';
import { keyPair, openFixture, run } from './ssh-fixture.ts';

const mine = keyPair();
const ID = instanceId('11111111-1111-4111-8111-111111111111');
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

function fakeClient(more: Partial<SshClient> & { ssh?: EventEmitter }): SshClient {
  const ending = new AbortController();
  const given = { gone: ending.signal, whileBusy: () => null, begin: () => () => {}, end: () => ending.abort() };
  return { ...given, adopt: () => ({ write: async () => true }), ...more } as unknown as SshClient;
}

test('coalesces resizes and signals: one at a time, the last size, each signal once', async () => {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const { promise: exited, resolve: exit } = Promise.withResolvers<number>();
  const resizes: { size: { columns: number; rows: number }; done: () => void }[] = [];
  const kills: { signal: string; done: () => void }[] = [];
  const program = runProgram({
    client: fakeClient({}),
    backend: {
      openExec: async () => ({
        stdin: new PassThrough(),
        stdout,
        stderr,
        exited,
        kill: async () => {},
        resize: (size) => new Promise((done) => void resizes.push({ size, done })),
      }),
      exec: (_id, command) =>
        new Promise((resolve) => {
          const done = (): void => resolve({ exitCode: 0, stdout: '', stderr: '' });
          kills.push({ signal: command[4] ?? '', done });
        }),
    },
    id: ID,
    log: silent,
    tryAcquire: () => () => {},
    channel: Object.assign(new PassThrough(), { exit: () => {} }) as unknown as ServerChannel,
    output: { write: async () => true },
    request: async () => ({ begun: { kind: 'shell' }, terminal: { columns: 80, rows: 24 }, env: {} }),
  });
  stdout.write('42\n');
  await expect.poll(() => (program.resize({ columns: 1, rows: 1 }), resizes.length)).toBe(1);
  for (let n = 0; n < 20_000; n++) {
    program.resize({ columns: 2 + n, rows: 2 });
    program.signal(n % 2 === 0 ? 'USR1' : 'INT');
  }
  await expect.poll(() => kills.length).toBe(1);
  await sleep(20);
  expect([resizes.length, kills.length]).toEqual([1, 1]);
  resizes[0]?.done();
  await expect.poll(() => resizes.at(-1)?.size).toEqual({ columns: 20_001, rows: 2 });
  expect(resizes.length).toBe(2);
  for (const one of kills) one.done();
  await expect.poll(() => kills.length).toBe(2);
  for (const one of kills) one.done();
  expect(kills.map(({ signal }) => signal).toSorted()).toEqual(['INT', 'USR1']);

  // The command learns of the client's exit first.
  for (const name of ['TERM', 'QUIT', 'USR2']) program.signal(name);
  await expect.poll(() => kills.length).toBe(3);
  program.leave();
  kills[2]?.done();
  await expect.poll(() => kills.slice(3).map(({ signal }) => signal)).toEqual(['HUP']);
  for (const one of kills) one.done();
  stdout.end();
  stderr.end();
  exit(0);
});

async function forwarded(client: Ssh2Client): Promise<number> {
  return new Promise((resolve, reject) => {
    client.forwardIn('localhost', 0, (error, port) => (error ? reject(error) : resolve(port)));
  });
}

test('bounds forwarded connections that close before the client answers', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  const waiting: (() => void)[] = [];
  client.on('tcp connection', (_info, _accept, reject) => void waiting.push(reject));
  const port = await forwarded(client);
  const connectAndLeave = async (): Promise<void> => {
    const one = connect(port, '127.0.0.1').on('error', () => {});
    await Promise.race([once(one, 'connect'), once(one, 'close')]);
    one.resetAndDestroy();
  };
  for (let round = 0; round < 12; round++) await Promise.all(Array.from({ length: 50 }, connectAndLeave));
  await run(client, 'true').catch(() => {});
  await sleep(200);
  // The port holds a permit.
  expect(waiting.length).toBeLessThanOrEqual(511);
  for (const reject of waiting.splice(0)) reject();
  await expect.poll(async () => (await connectAndLeave(), waiting.length)).toBeGreaterThan(0);
});

test('an unclosed channel holds its permit', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  const server = createServer((socket) => void socket.on('error', () => {}).end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onCleanup(async () => void server.close());
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  Reflect.get(client, '_protocol').channelClose = () => {};
  let opened = 0;
  const open = (): Promise<void> =>
    new Promise((resolve) => {
      client.forwardOut('127.0.0.1', 1, 'localhost', port, (error, channel) => {
        if (error) return resolve();
        opened += 1;
        channel.on('end', resolve).resume().end();
      });
    });
  for (let round = 0; round < 11; round++) await Promise.all(Array.from({ length: 50 }, open));
  expect(opened).toBe(512);
});

test('delays forwarded connections under back-pressure, and drops closed ones', async () => {
  let free = (): void => {};
  let busy: Promise<void> | null = new Promise((resolve) => (free = resolve));
  const tryAcquire = makeLimit(2, () => () => {});
  const client = fakeClient({ backpressure: () => busy, tryAcquire });
  const asked: string[] = [];
  const [stays, leaves, tooMany] = [new PassThrough(), new PassThrough(), new PassThrough()];
  forwardConnection(client, stays, () => void asked.push('stays'));
  forwardConnection(client, leaves, () => void asked.push('leaves'));
  forwardConnection(client, tooMany, () => void asked.push('too many'));
  expect(tooMany.destroyed).toBe(true);
  leaves.destroy();
  await sleep(10);
  expect(asked).toEqual([]);
  busy = null;
  free();
  await expect.poll(() => asked).toEqual(['stays']);
  expect(tryAcquire()).not.toBeNull();
  expect(tryAcquire()).toBeNull();
});

test('frees sessions closed without a command', async () => {
  const { Server } = (await import('ssh2')).default;
  const made = vi.spyOn(Server.prototype, 'injectSocket');
  const fixture = await openFixture([mine]);
  const connections: Connection[] = [];
  made.mockImplementationOnce(function (this: InstanceType<typeof Server>, socket) {
    this.once('connection', (ssh: Connection) => connections.push(ssh));
    made.mockRestore();
    this.injectSocket(socket);
  });
  const client = await fixture.login(mine);
  const protocol = Reflect.get(client, '_protocol');
  const [ssh] = connections;
  const handlers = Reflect.get(protocol, '_handlers');
  const confirmed = handlers.CHANNEL_OPEN_CONFIRMATION;
  let closed = 0;
  handlers.CHANNEL_OPEN_CONFIRMATION = (_protocol: unknown, { sender }: { sender: number }) => {
    closed += 1;
    protocol.channelClose(sender);
  };
  for (let round = 1; round <= 6; round++) {
    for (let n = 0; n < 100; n++) protocol.session(n, 1_000_000, 32_768);
    await expect.poll(() => closed).toBe(100 * round);
  }
  handlers.CHANNEL_OPEN_CONFIRMATION = confirmed;
  await run(client, 'true');
  expect(Object.keys(Reflect.get(Object(ssh)._chanMgr, '_channels')).length).toBeLessThan(5);
});

test('a client that leaves during its login takes no permit', async () => {
  const hostKey = makeSshHostKeys(new Uint8Array(32).fill(7))('any');
  let blocked: Promise<void> | null = null;
  let asked = 0;
  const access = async () => {
    asked += 1;
    // Clients offer a key before signing.
    if (blocked !== null && asked % 2 === 0) await blocked;
    const account = { accountId: 'alice', username: 'alice' };
    return { account, hostKey, keys: [mine.blob], authorities: [], principals: [] };
  };
  // A single instance gets three of six permits.
  const fixture = await openFixture([mine], { access, files: 8 });
  await expect.poll(() => asked).toBe(1);
  for (let n = 0; n < 4; n++) {
    asked = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    blocked = promise;
    const port = fixture.port();
    const leaving = connect(port, '127.0.0.1').on('error', () => {});
    const login = fixture.login(mine, { sock: leaving }).catch(() => {});
    await expect.poll(() => asked).toBe(2);
    leaving.destroy();
    await login;
    await expect.poll(() => fixture.accepted.size).toBe(0);
    resolve();
    await sleep(10);
  }
  blocked = null;
  expect((await run(await fixture.login(mine), 'echo in')).stdout.toString()).toBe('in\n');
});

test('counts pending listens with open ones', () => {
  let opening = 0;
  const ssh = Object.assign(new EventEmitter(), { _sock: { pause: () => {}, resume: () => {} } });
  const listen = (): Promise<never> => {
    opening += 1;
    return new Promise(() => {});
  };
  const connectNever = (): Promise<never> => new Promise(() => {});
  const network = { listen, connect: connectNever, ended: new Promise<void>(() => {}), close: () => {} };
  serveForwards(fakeClient({ ssh } as unknown as Partial<SshClient>), network);
  for (let n = 0; n < 100; n++) {
    ssh.emit('request', undefined, undefined, 'tcpip-forward', { bindAddr: 'localhost', bindPort: 9_000 + n });
  }
  expect(opening).toBe(64);
});

test('limits an instance to the free permits, and releases each once', () => {
  const limit = makeKeyedLimit({ total: 12, perKey: (free) => free });
  const share = (key: string) => () => limit.tryAcquire(key);
  const takeAll = (take: () => (() => void) | null): (() => void)[] => {
    const taken: (() => void)[] = [];
    for (let one = take(); one !== null; one = take()) taken.push(one);
    return taken;
  };
  const [a, b, c] = [share('a'), share('b'), share('c')];
  const ofA = takeAll(a);
  expect(ofA.length).toBe(6);
  expect(takeAll(b).length).toBe(3);
  expect(takeAll(c).length).toBe(2);
  for (const over of [...ofA, ...ofA]) over();
  expect(takeAll(a).length).toBe(4);
  const few = makeLimit(1, share('d'));
  expect(takeAll(few).length).toBe(1);
});

test('refuses channels without a permit; a leaving client releases its permits', async () => {
  // A single instance gets fifteen of thirty permits: one per connection, two per session with a
  // command.
  const fixture = await openFixture([mine], { files: 40 });
  const begin = (client: Ssh2Client): Promise<ClientChannel> =>
    new Promise((resolve, reject) => {
      client.exec('exec sleep 100', (error, channel) => (error ? reject(error) : resolve(channel)));
    });
  const client = await fixture.login(mine);
  for (let n = 0; n < 7; n++) {
    await begin(client);
    await expect.poll(() => fixture.execs.length).toBe(n + 1);
  }
  await expect(begin(client)).rejects.toThrow(/open failure/);
  client.destroy();
  await expect.poll(() => fixture.accepted.size).toBe(0);
  // Existing sessions continue, and count.
  const again = await fixture.login(mine);
  expect((await run(again, 'echo again')).stdout.toString()).toBe('again\n');
});

test('limits buffered bytes per instance and in total, without affecting others', () => {
  const buffered = makeBufferedBytes({ perInstance: 100, total: 240, recountEvery: 10 });
  const hold = (bytes: number) => {
    const share = buffered.forInstance();
    const at = { bytes };
    return { at, share, forget: share.watch(() => at.bytes) };
  };
  const a = hold(99);
  expect(a.share.accept(1)).toBe(true);
  a.at.bytes = 100;
  expect(a.share.accept(10)).toBe(false);
  a.at.bytes = 90;
  const b = hold(90);
  // Sixty bytes are left in total.
  expect(a.share.accept(10)).toBe(false);
  const c = hold(20);
  expect(c.share.accept(10)).toBe(true);
  b.forget();
  expect(a.share.accept(1)).toBe(true);
});

test('detects a client that neither reads nor sends', () => {
  vi.useFakeTimers();
  onCleanup(async () => void vi.useRealTimers());
  const socket = Object.assign(new PassThrough(), { destroy: () => {} });
  const ssh = Object.assign(new EventEmitter(), { _sock: socket, _protocol: { _kexinit: undefined } });
  const buffered = makeBufferedBytes({ perInstance: 1e9, total: 1e9, recountEvery: 1 }).forInstance();
  const deps = { ssh: ssh as unknown as Connection, log: silent, instanceId: ID, buffered, takeExchange: () => true };
  const { gone } = makeSshClient({ ...deps, acquireChannel: () => () => {} });
  vi.advanceTimersByTime(10_000);
  expect(gone.aborted).toBe(false);
  Object.defineProperty(socket, 'writableLength', { value: 33 * 1024 ** 2 });
  vi.advanceTimersByTime(10_000);
  expect(gone.aborted).toBe(true);
});

describe('an account with several instances', () => {
  test('holds as many permits as one, and leaves some to others', async () => {
    // Of thirty permits fifteen are for the first account: one per connection, two per session.
    const fixture = await openFixture([mine], { files: 40 });
    const client = await fixture.login(mine);
    for (let n = 0; n < 7; n++) {
      client.exec('exec sleep 100', () => {});
      await expect.poll(() => fixture.execs.length).toBe(n + 1);
    }
    await fixture.serve('2');
    await expect(fixture.login(mine)).rejects.toThrow(/closed|ECONNRESET|Connection lost/);
    await fixture.serve('3', MALLORY);
    expect((await run(await fixture.login(mine), 'echo other')).stdout.toString()).toBe('other\n');
  });

  test('leaves a few permits to each account, even if others hold all', async () => {
    const fixture = await openFixture([mine], { files: 40 });
    let held = 0;
    for (const digit of ['2', '3', '4', '5', '6']) {
      await fixture.serve(digit, `account ${digit}`);
      const client = await fixture.login(mine);
      // The login and each port hold a permit.
      held += 1;
      while ((await forwarded(client).catch(() => null)) !== null) held += 1;
    }
    expect(held).toBeGreaterThanOrEqual(30);
    await fixture.serve('9', MALLORY);
    expect((await run(await fixture.login(mine), 'echo in')).stdout.toString()).toBe('in\n');
  });

  test('begins as many connections as one', async () => {
    const fixture = await openFixture([mine], { limits: { accountConnectionRate: { burst: 6, perSecond: 0 } } });
    const begin = (): Promise<boolean> =>
      new Promise((resolve) => {
        const socket = connect(fixture.port(), '127.0.0.1').on('error', () => {});
        onCleanup(async () => void socket.destroy());
        socket.once('data', () => resolve(true)).once('close', () => resolve(false));
      });
    const begun = [];
    for (const digit of ['2', '3']) {
      await fixture.serve(digit);
      for (let n = 0; n < 5; n++) begun.push(await begin());
    }
    expect(begun.filter(Boolean)).toHaveLength(6);
    await fixture.serve('4', MALLORY);
    expect(await begin()).toBe(true);
  });

  test('exchanges keys at a rate: each exchange takes the process milliseconds', async () => {
    const fixture = await openFixture([mine], { limits: { accountExchangeRate: { burst: 3, perSecond: 0 } } });
    const exchanges: number[] = [];
    for (let n = 0; n < 2; n += 1) {
      const client = await fixture.login(mine);
      let count = 0;
      client.on('handshake', () => {
        count += 1;
        if (count < 10) Reflect.get(client, '_protocol').rekey();
      });
      let isClosed = false;
      client.once('close', () => void (isClosed = true));
      Reflect.get(client, '_protocol').rekey();
      await expect.poll(() => isClosed || count === 10, { timeout: 10_000 }).toBe(true);
      exchanges.push(count);
    }
    expect(Math.max(...exchanges)).toBeLessThan(6);
    expect(exchanges[1]).toBeLessThan(3);
    await expect.poll(() => fixture.accepted.size).toBe(0);
  });
});
