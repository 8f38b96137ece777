/** Ssh for images without sshd: logins, sessions, and limits against hostile clients. */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { BaseAgent, utils, type Client, type ClientChannel, type ParsedKey } from 'ssh2';
import { expect, test } from 'vitest';
import { ALICE, onCleanup } from './harness.ts';
import { keyPair, openFixture, run, routeUpdate } from './ssh-fixture.ts';

const mine = keyPair();
const other = keyPair();
const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

test('accepts root with a key of the account, and no other key, user or password', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  expect(await run(client, 'echo hello; echo trouble >&2; exit 3')).toMatchObject({
    code: 3,
    stdout: Buffer.from('hello\n'),
    stderr: 'trouble\n',
  });
  const refused = /authentication methods failed/;
  await expect(fixture.login(other)).rejects.toThrow(refused);
  await expect(fixture.login(mine, { username: 'admin' })).rejects.toThrow(refused);
  await expect(fixture.login({ ...mine, private: '' }, { privateKey: undefined, password: 'x' })).rejects.toThrow(
    refused,
  );
});

test('records each login with the key, and each client that is refused once', async () => {
  const fixture = await openFixture([mine]);
  await fixture.login(mine, { ident: 'laptop' });
  await expect(fixture.login(other)).rejects.toThrow();
  await expect(fixture.login(other, { username: 'admin', password: 'x' })).rejects.toThrow();
  const at = { instanceId: fixture.id, address: '127.0.0.1', atMs: expect.any(Number) };
  const refused = { ...at, account: null, fingerprint: '', program: expect.stringMatching(/^SSH-2.0-/) };
  const fingerprint = `SHA256:${createHash('sha256').update(Buffer.from(mine.blob, 'base64')).digest('base64')}`;
  await expect
    .poll(() => fixture.recorded)
    .toEqual([
      {
        ...at,
        account: { accountId: ALICE, username: 'alice' },
        fingerprint: fingerprint.replace(/=+$/, ''),
        program: 'SSH-2.0-laptop',
      },
      refused,
      refused,
    ]);
});

test('applies new and deleted keys to a running instance at once, and cuts sessions of a deleted key', async () => {
  const fixture = await openFixture([mine], { checkEveryMs: 50 });
  const client = await fixture.login(mine);
  const closed = once(client, 'close');
  fixture.identity.keys = [mine.blob, other.blob];
  const second = await fixture.login(other);
  fixture.identity.keys = [other.blob];
  await closed;
  await expect(fixture.login(mine)).rejects.toThrow(/authentication methods failed/);
  expect((await run(second, 'echo still')).stdout.toString()).toBe('still\n');
});

test('disconnects a client after too many keys, or at the login deadline', async () => {
  const fixture = await openFixture([mine]);
  const tries = { count: 0 };
  const keys = Array.from({ length: 40 }, () => keyPair());
  const failed = fixture.login(mine, {
    authHandler: (_left, _partial, next) => {
      const key = keys[tries.count];
      tries.count += 1;
      next({ type: 'publickey', username: 'root', key: key?.private ?? '' });
    },
  });
  await expect(failed).rejects.toThrow();
  expect(tries.count).toBeLessThan(30);
  const hasty = await openFixture([mine], { limits: { loginMs: 300 } });
  const silent = connect(hasty.port(), '127.0.0.1').on('error', () => {});
  silent.resume();
  await once(silent, 'close');
});

test('bounds unauthenticated connections without locking anyone out', async () => {
  const fixture = await openFixture([mine]);
  const idle = Array.from({ length: 150 }, () =>
    connect(fixture.port(), '127.0.0.1')
      .on('error', () => {})
      .resume(),
  );
  onCleanup(async () => {
    for (const one of idle) one.destroy();
  });
  await expect.poll(() => idle.filter(({ destroyed }) => !destroyed).length).toBeLessThanOrEqual(32);
  expect((await run(await fixture.login(mine), 'echo in')).stdout.toString()).toBe('in\n');
});

test('limits the rate of new connections', async () => {
  const fixture = await openFixture([mine], { limits: { connectionRate: { burst: 20, perSecond: 0 } } });
  const greeted = await Promise.all(
    Array.from({ length: 40 }, async () => {
      const one = connect(fixture.port(), '127.0.0.1').on('error', () => {});
      const isGreeted = await new Promise<boolean>((resolve) => {
        one.once('data', () => resolve(true)).once('close', () => resolve(false));
      });
      one.destroy();
      return isGreeted;
    }),
  );
  expect(greeted.filter(Boolean).length).toBe(20);
});

test('rejects a registered key without a valid signature', async () => {
  const fixture = await openFixture([mine]);
  const [shown, used] = [utils.parseKey(mine.private), utils.parseKey(other.private)];
  if (shown instanceof Error || used instanceof Error) throw new Error('no keys');
  class Liar extends BaseAgent {
    override getIdentities(done: (error: Error | undefined, keys: ParsedKey[]) => void): void {
      done(undefined, [shown as ParsedKey]);
    }
    override sign(_key: ParsedKey, data: Buffer, ...more: unknown[]): void {
      const done = more.at(-1);
      if (typeof done === 'function') done(undefined, (used as ParsedKey).sign(data));
    }
  }
  await expect(fixture.login(mine, { privateKey: undefined, agent: new Liar() })).rejects.toThrow(
    /authentication methods failed/,
  );
});

test('keeps an idle client that answers probes, and drops a dead one', async () => {
  const fixture = await openFixture([mine], { limits: { keepaliveMs: 50, keepalives: 3 } });
  const there = await fixture.login(mine);
  const gone = await fixture.login(mine);
  await expect.poll(() => fixture.accepted.size).toBe(2);
  Reflect.get(gone, '_sock').pause();
  await expect.poll(() => fixture.accepted.size).toBe(1);
  await sleep(1_000);
  expect((await run(there, 'echo there')).stdout.toString()).toBe('there\n');
});

test('transfers input and output of a command completely', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  const bytes = randomBytes(20 * 1024 ** 2);
  const there = await run(client, 'sha256sum', bytes);
  expect(there.stdout.toString()).toBe(`${sha(bytes)}  -\n`);
  const back = await run(client, 'tee /dev/stderr | sha256sum; cat', bytes.subarray(0, 5_000_000));
  expect(back).toMatchObject({ code: 0, stdout: Buffer.from(`${sha(bytes.subarray(0, 5_000_000))}  -\n`) });
  const echoed = await run(client, 'cat', bytes);
  expect(sha(echoed.stdout)).toBe(sha(bytes));
});

test('keeps stdout and stderr apart under back-pressure', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  const { promise, resolve } = Promise.withResolvers<ClientChannel>();
  // Larger than a window.
  const size = 6_000_000;
  const script = `(head -c ${size} /dev/zero | tr '\\0' o) & (head -c ${size} /dev/zero | tr '\\0' e >&2) & wait`;
  client.exec(script, (_error, channel) => resolve(channel));
  const channel = await promise;
  const seen = { o: 0, e: 0, wrong: 0 };
  // Fills the windows, reads a little, fills them again.
  await sleep(1_000);
  let count = 0;
  const slow = setInterval(() => {
    count += 1;
    for (const stream of [channel, channel.stderr]) {
      if (count % 20 === 0) stream.resume();
      else stream.pause();
    }
  }, 10);
  onCleanup(async () => clearInterval(slow));
  channel.on('data', (chunk: Buffer) => {
    seen.o += chunk.length;
    if (chunk.includes('e')) seen.wrong += 1;
  });
  channel.stderr.on('data', (chunk: Buffer) => {
    seen.e += chunk.length;
    if (chunk.includes('o')) seen.wrong += 1;
  });
  await once(channel, 'close');
  expect(seen).toEqual({ o: size, e: size, wrong: 0 });
});

test('does not block a command that writes before its process id is read', async () => {
  // Two streams over one connection, as of an engine: one unread stream blocks both.
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const written = Buffer.alloc(3_000_000, 'o');
  const write = async (): Promise<number> => {
    if (!stdout.write(written)) await once(stdout, 'drain');
    stderr.end('42\ntrouble\n');
    stdout.end();
    return 5;
  };
  const openExec = async () => {
    const exited = write();
    return { stdin: new PassThrough().resume(), stdout, stderr, resize: async () => {}, exited, kill: async () => {} };
  };
  const fixture = await openFixture([mine], { openExec });
  const ran = await run(await fixture.login(mine), 'anything');
  expect(ran).toMatchObject({ code: 5, stderr: 'trouble\n' });
  expect(sha(ran.stdout)).toBe(sha(written));
});

test('sets terminal size and client variables, except those that sshd refuses', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  const { promise, resolve } = Promise.withResolvers<ClientChannel>();
  const window = { term: 'xterm-256color', cols: 132, rows: 43 };
  client.shell(window, { env: { EDITOR: 'vi', LANG: 'xx_XX', PATH: '/nowhere', LD_PRELOAD: 'x' } }, (_error, channel) =>
    resolve(channel),
  );
  const channel = await promise;
  await expect.poll(() => fixture.execs.length).toBe(1);
  const [exec] = fixture.execs;
  expect(exec?.terminal).toEqual({ columns: 132, rows: 43 });
  expect(exec?.env).toMatchObject({ TERM: 'xterm-256color', EDITOR: 'vi' });
  expect(Object.keys(exec?.env ?? {}).toSorted()).toEqual(['EDITOR', 'SSH_CLIENT', 'SSH_CONNECTION', 'TERM']);
  channel.setWindow(50, 200, 0, 0);
  await expect.poll(() => exec?.resizes).toEqual([{ columns: 200, rows: 50 }]);
  channel.end('exit 0\n');
});

test('delivers signals to the command and reports its exit signal', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  const { promise, resolve } = Promise.withResolvers<ClientChannel>();
  client.exec('echo ready; exec sleep 100', (_error, channel) => resolve(channel));
  const channel = await promise;
  await once(channel, 'data');
  const exited = once(channel, 'exit');
  channel.signal('TERM');
  expect((await exited).slice(0, 2)).toEqual([null, 'SIGTERM']);
  expect((await run(client, 'kill -9 $$')).code).toBe(137);
});

test('hangs up a terminal when its client leaves, and kills commands that ignore HUP', async () => {
  const stdout = new PassThrough();
  stdout.write('42\r\n');
  const openExec = async () => ({
    stdin: new PassThrough().resume(),
    stdout,
    stderr: new PassThrough().end(),
    resize: async () => {},
    exited: new Promise<number>(() => {}),
    kill: async () => {},
  });
  const fixture = await openFixture([mine], { openExec });
  const client = await fixture.login(mine);
  const { promise, resolve } = Promise.withResolvers<ClientChannel>();
  client.shell((_error, channel) => resolve(channel));
  const channel = await promise;
  channel.close();
  await expect.poll(() => fixture.signals).toEqual(['HUP 42']);
  await expect.poll(() => fixture.signals).toEqual(['HUP 42', 'KILL 42']);
  // The connection and its other channels continue.
  expect(fixture.accepted.size).toBe(1);
});

test('lets a command without a terminal run until it writes after its client left', async () => {
  const fixture = await openFixture([mine]);
  const runs = (pid: string): boolean => {
    try {
      return process.kill(Number(pid), 0);
    } catch {
      return false;
    }
  };
  const begin = async (client: Client, command: string): Promise<string> => {
    const { promise, resolve } = Promise.withResolvers<ClientChannel>();
    client.exec(`echo $$; ${command}`, (_error, channel) => resolve(channel));
    const [bytes]: Buffer[] = await once(await promise, 'data');
    return String(bytes).trim();
  };
  const client = await fixture.login(mine);
  const quiet = await begin(client, 'exec sleep 100');
  const loud = await begin(client, 'while :; do echo loud; sleep 0.05; done');
  const stubborn = await begin(client, `trap '' PIPE HUP; while :; do echo loud; sleep 0.05; done`);
  client.destroy();
  await expect.poll(() => runs(loud)).toBe(false);
  await expect.poll(() => runs(stubborn)).toBe(false);
  expect(runs(quiet)).toBe(true);
});

test('forwards ports both ways with half-close, and frees cancelled ones', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  // Replies after the end of input, which requires a half-closed connection.
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const parts: Buffer[] = [];
    socket.on('data', (part: Buffer) => parts.push(part));
    socket.on('end', () => socket.end(`got ${sha(Buffer.concat(parts))}`));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onCleanup(async () => void server.close());
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const bytes = randomBytes(3_000_000);

  const say = async (out: NodeJS.ReadWriteStream): Promise<string> => {
    let text = '';
    out.on('data', (part: Buffer) => (text += part.toString()));
    out.end(bytes);
    await once(out, 'end');
    return text;
  };
  const forward = (to: number): Promise<ClientChannel> =>
    new Promise((resolve, reject) => {
      client.forwardOut('127.0.0.1', 1, 'localhost', to, (error, channel) =>
        error ? reject(error) : resolve(channel),
      );
    });
  const early = createServer({ allowHalfOpen: true }, (socket) => {
    const parts: Buffer[] = [];
    socket.end('enough');
    socket.on('data', (part: Buffer) => parts.push(part)).on('end', () => reported(sha(Buffer.concat(parts))));
  }).listen(0, '127.0.0.1');
  const { promise: heard, resolve: reported } = Promise.withResolvers<string>();
  await once(early, 'listening');
  onCleanup(async () => void early.close());
  const there = early.address();
  const half = await forward(typeof there === 'object' && there !== null ? there.port : 0);
  half.resume();
  await once(half, 'end');
  half.end(bytes);
  expect(await heard).toBe(sha(bytes));

  const all = await Promise.all(Array.from({ length: 20 }, async () => say(await forward(port))));
  expect(new Set(all)).toEqual(new Set([`got ${sha(bytes)}`]));
  await expect(forward(1)).rejects.toThrow(/open failure/);

  client.on('tcp connection', (_info, accept) => {
    const channel = accept();
    channel.pipe(channel);
  });
  const bound = await new Promise<number>((resolve) =>
    client.forwardIn('localhost', 0, (_error, chosen) => resolve(chosen)),
  );
  const inside = connect({ port: bound, host: '127.0.0.1', allowHalfOpen: true });
  inside.write('there and back');
  const [answer] = await once(inside, 'data');
  expect(String(answer)).toBe('there and back');
  inside.destroy();
  await new Promise((resolve) => client.unforwardIn('localhost', bound, resolve));
  await expect(once(connect(bound, '127.0.0.1'), 'connect')).rejects.toThrow(/ECONNREFUSED/);
});

test('ends sessions at a stop, serves the next run with the same host key, and drops removed routes', async () => {
  const fixture = await openFixture([mine]);
  const hostKeys: string[] = [];
  const hostVerifier = (key: Buffer): boolean => hostKeys.push(key.toString('base64')) > 0;
  const client = await fixture.login(mine, { hostVerifier });
  const closed = once(client, 'close');
  fixture.endRun();
  await closed;
  await expect.poll(() => fixture.port()).toBeGreaterThan(0);
  await fixture.login(mine, { hostVerifier });
  expect(hostKeys[1]).toBe(hostKeys[0]);
  const port = fixture.port();
  fixture.fronts.update(routeUpdate(fixture.id, false));
  await expect.poll(() => fixture.accepted.size).toBe(0);
  await expect(once(connect(port, '127.0.0.1'), 'connect')).rejects.toThrow(/ECONNREFUSED/);
});
