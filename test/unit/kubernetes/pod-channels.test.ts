/** Commands and port-forwards over WebSockets, against a stand-in for the API server. */
import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import type { WebSocket } from 'ws';
import { until } from '../../conformance/subject.ts';
import { refusal, startApiServer, statusBody, type ServerOptions } from '../../fixtures/api-server.ts';

const deadline = (): AbortSignal => AbortSignal.timeout(10_000);
const [STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE] = [0, 1, 2, 3, 4, 255];

const message = (channel: number, bytes: Buffer | string): Buffer =>
  Buffer.concat([Buffer.from([channel]), Buffer.from(bytes)]);
const ended = (exitCode: number): Buffer =>
  message(
    STATUS,
    JSON.stringify(
      exitCode === 0
        ? { kind: 'Status', status: 'Success' }
        : {
            kind: 'Status',
            status: 'Failure',
            reason: 'NonZeroExitCode',
            details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
          },
    ),
  );

const serve = (onSocket: NonNullable<ServerOptions['onSocket']>, options: Pick<ServerOptions, 'protocol'> = {}) =>
  startApiServer({ answer: () => refusal(404, 'NotFound', 'pods "x" not found'), onSocket, ...options });
const onMessage = (socket: WebSocket, take: (channel: number, bytes: Buffer) => void): void =>
  void socket.on('message', (data: Buffer) => take(data[0] ?? 0, data.subarray(1)));

describe('exec', () => {
  test('asks for version 5, with the command word by word', async () => {
    const asked: string[] = [];
    const { cluster } = await serve((socket, { path, query }) => {
      asked.push(socket.protocol, path, query.toString());
      socket.send(ended(0));
      socket.close(1000);
    });
    const command = ['echo', 'a b', '$HOME'];
    const exec = await cluster.exec('p', { container: 'main', command, stdin: false }, deadline());
    expect(await exec.exited).toBe(0);
    expect(asked).toEqual([
      'v5.channel.k8s.io',
      '/api/v1/namespaces/berth/pods/p/exec',
      'container=main&stdin=false&stdout=true&stderr=true&tty=false&command=echo&command=a+b&command=%24HOME',
    ]);
  });

  test('ends the input of a command that has ended, once, and takes the mark out of its errors', async () => {
    const received: [number, string][] = [];
    let words: string[] = [];
    const { cluster } = await serve((socket, { query }) => {
      words = query.getAll('command');
      onMessage(socket, (channel, bytes) => {
        received.push([channel, bytes.toString('latin1')]);
        if (channel !== CLOSE) return;
        socket.send(message(STDOUT, 'late'));
        socket.send(ended(7));
        socket.close(1000);
      });
      socket.send(message(STDERR, `warned\x01${words[4]}`));
      socket.send(message(STDERR, '\x02'));
    });
    const exec = await cluster.exec('p', { container: 'main', command: ['ls', '-l'] }, deadline());
    const outputs = Promise.all([text(exec.stdout), text(exec.stderr), exec.exited]);
    await once(exec.stdout, 'readable');
    exec.stdin.end('for nobody');
    expect(await outputs).toEqual(['late', 'warned', 7]);
    expect(received).toEqual([[CLOSE, '\0']]);
    expect(words.slice(5)).toEqual(['ls', '-l']);
  });

  test('sends the mark to a command that has ended on a server without an end of input', async () => {
    const { cluster } = await serve(
      (socket, { query }) => {
        const mark = query.getAll('command')[4];
        onMessage(socket, (channel, bytes) => {
          expect([channel, bytes.toString()]).toEqual([STDIN, `\n${mark}\n`]);
          socket.send(ended(7));
          socket.close(1000);
        });
        socket.send(message(STDERR, `\x01${mark}\x02`));
      },
      { protocol: 'v4.channel.k8s.io' },
    );
    const exec = await cluster.exec('p', { container: 'main', command: ['ls'] }, deadline());
    exec.stdin.end();
    expect(await exec.exited).toBe(7);
  });

  test('carries input and its end, separate outputs, and the exit code', async () => {
    const { cluster } = await serve((socket) => {
      let input = '';
      onMessage(socket, (channel, bytes) => {
        if (channel === STDIN) input += bytes.toString();
        if (channel !== CLOSE) return;
        expect([...bytes]).toEqual([STDIN]);
        socket.send(message(STDOUT, `got ${input}`));
        socket.send(message(STDERR, 'warned'));
        socket.send(ended(42));
        socket.close(1000);
      });
    });
    const exec = await cluster.exec('p', { container: 'main', command: ['cat'] }, deadline());
    exec.stdin.write('one ');
    exec.stdin.end('two');
    expect(await Promise.all([text(exec.stdout), text(exec.stderr), exec.exited])).toEqual([
      'got one two',
      'warned',
      42,
    ]);
  });

  test('sends the size of a terminal at once and when it changes', async () => {
    const sizes: string[] = [];
    const { cluster } = await serve((socket) =>
      onMessage(socket, (channel, bytes) => channel === RESIZE && sizes.push(bytes.toString())),
    );
    const exec = await cluster.exec(
      'p',
      { container: 'main', command: ['sh'], terminal: { columns: 80, rows: 25 } },
      deadline(),
    );
    await exec.resize({ columns: 100, rows: 40 });
    await until('both arrived', async () => sizes.length === 2);
    expect(sizes.map((size) => JSON.parse(size))).toEqual([
      { Width: 80, Height: 25 },
      { Width: 100, Height: 40 },
    ]);
    exec.close();
  });

  test('a slow reader stops the sender, and loses nothing', async () => {
    const total = 40_000_000;
    let sent = 0;
    const { cluster } = await serve((socket) => {
      const chunk = message(STDOUT, Buffer.alloc(32 * 1024));
      const more = (): void => {
        if (sent >= total) {
          socket.send(ended(0));
          return socket.close(1000);
        }
        sent += chunk.length - 1;
        socket.send(chunk, more);
      };
      more();
    });
    const exec = await cluster.exec('p', { container: 'main', command: ['cat'] }, deadline());
    await until('the sender stands still', async () => {
      const before = sent;
      await new Promise((resolve) => setTimeout(resolve, 300));
      return sent === before;
    });
    expect(sent).toBeLessThan(total);
    expect(exec.stdout.readableLength).toBeLessThan(1_000_000);
    expect((await buffer(exec.stdout)).length).toBe(sent);
    expect(await exec.exited).toBe(0);
  });

  test('a destroyed output blocks nothing', async () => {
    const { cluster } = await serve((socket) => {
      for (let part = 0; part < 100; part++) socket.send(message(STDOUT, Buffer.alloc(32 * 1024)));
      socket.send(ended(0));
      socket.close(1000);
    });
    const exec = await cluster.exec('p', { container: 'main', command: ['cat'] }, deadline());
    exec.stdout.destroy();
    expect(await exec.exited).toBe(0);
  });

  test('a refused command is explained by the server', async () => {
    const { cluster } = await serve((socket) => {
      socket.send(message(STATUS, JSON.stringify(statusBody(500, 'InternalError', 'container not found ("main")'))));
      socket.close(1000);
    });
    const exec = await cluster.exec('p', { container: 'main', command: ['true'] }, deadline());
    await expect(exec.exited).rejects.toMatchObject({
      failure: 'unavailable',
      message: 'container not found ("main")',
    });
  });

  test('a Pod that is not there is absent', async () => {
    const { cluster } = await startApiServer({ answer: () => refusal(404, 'NotFound', 'pods "x" not found') });
    await expect(cluster.exec('x', { container: 'main', command: ['true'] }, deadline())).rejects.toMatchObject({
      failure: 'absent',
      message: 'pods "x" not found',
    });
  });

  test('a lost connection is no exit code', async () => {
    const { cluster } = await serve((socket) => socket.terminate());
    const exec = await cluster.exec('p', { container: 'main', command: ['true'] }, deadline());
    await expect(exec.exited).rejects.toMatchObject({ failure: 'away' });
  });

  test('the signal ends the opening only; a closed client ends the command', async () => {
    const { cluster } = await serve(() => {});
    const opening = new AbortController();
    const exec = await cluster.exec('p', { container: 'main', command: ['cat'] }, opening.signal);
    opening.abort();
    exec.stdin.write('still here');
    await expect(cluster.exec('p', { container: 'main', command: ['cat'] }, opening.signal)).rejects.toMatchObject({
      name: 'AbortError',
    });
    cluster.stop();
    await expect(exec.exited).rejects.toMatchObject({ failure: 'away' });
  });
});

describe('port-forward', () => {
  const port = Buffer.from([22, 0]);

  test('carries data both ways, without the port that comes first', async () => {
    const { cluster } = await serve((socket) => {
      socket.send(message(0, port));
      socket.send(message(1, port));
      socket.send(message(0, 'SSH-2.0\r\n'));
      onMessage(socket, (channel, bytes) => {
        expect(channel).toBe(0);
        socket.send(message(0, bytes));
      });
    });
    const stream = await cluster.portForward('p', 22, deadline());
    expect(String((await once(stream, 'data'))[0])).toBe('SSH-2.0\r\n');
    stream.write('hello');
    expect(String((await once(stream, 'data'))[0])).toBe('hello');
    stream.destroy();
  });

  test('delivers what arrives after our end', async () => {
    const { cluster } = await serve((socket) => {
      socket.send(message(0, port));
      socket.send(message(1, port));
      onMessage(socket, (_channel, bytes) => setTimeout(() => socket.send(message(0, bytes)), 100));
    });
    const stream = await cluster.portForward('p', 22, deadline());
    const received = text(stream);
    stream.end('last words');
    expect(await received).toBe('last words');
  });

  test('is a conflict where nothing listens', async () => {
    const { cluster } = await serve((socket) => {
      socket.send(message(0, port));
      socket.send(message(1, port));
      socket.send(message(1, 'connection refused'));
    });
    await expect(cluster.portForward('p', 22, deadline())).rejects.toMatchObject({
      failure: 'conflict',
      message: 'connection refused',
    });
  });
});
