/** Ssh clients that reset, read nothing, or violate the protocol. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, ClientChannel } from 'ssh2';
import { expect, test } from 'vitest';
import { atLevel, sampled } from '../../fixtures/level.ts';
import { keyPair, openFixture, run } from './ssh-fixture.ts';

const mine = keyPair();
const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

test('survives a reset at any point and leaks nothing', async () => {
  const rate = { burst: 10_000, perSecond: 10_000 };
  const fixture = await openFixture([mine], { limits: { connectionRate: rate, accountConnectionRate: rate } });
  const key = keyPair();
  for (const round of sampled(
    Array.from({ length: 60 }, (_, n) => n),
    { oneIn: 3 },
  )) {
    const proxy = createServer((from) => {
      const to = connect(fixture.port(), '127.0.0.1');
      let left = 40 * (round + 1) + (round % 7);
      // Leaves by a reset, or by a FIN alone.
      const leave = (): unknown => (round % 2 === 0 ? to.resetAndDestroy() : to.destroy());
      from.on('error', () => {}).on('close', () => leave());
      to.on('error', () => {}).on('close', () => from.destroy());
      to.pipe(from);
      from.on('data', (bytes: Buffer) => {
        to.write(bytes.subarray(0, left));
        left -= bytes.length;
        if (left <= 0) setImmediate(leave);
      });
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const address = proxy.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await fixture.login(round % 5 === 0 ? key : mine, { port }).then(
      async (client) => {
        client.forwardIn('localhost', 0, () => {});
        client.forwardOut('127.0.0.1', 1, 'localhost', fixture.port(), () => {});
        client.shell({ rows: 5 }, () => {});
        await Promise.race([
          run(client, 'yes | head -c 100000; sleep 0.01', Buffer.alloc(5_000)),
          once(client, 'close'),
          sleep(100),
        ]).catch(() => {});
        client.destroy();
      },
      () => {},
    );
    proxy.close();
  }
  await expect.poll(() => fixture.accepted.size).toBe(0);
  expect((await run(await fixture.login(mine), 'echo fine')).stdout.toString()).toBe('fine\n');
});

test('bounds memory for a client that reads nothing', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  // The largest window of the protocol.
  await shellWithWindow(client, `head -c ${atLevel({ short: 100_000_000, long: 400_000_000 })} /dev/zero`, {
    window: 0xffff_ffff,
    packet: 32_768,
  });
  Reflect.get(client, '_sock').pause();
  globalThis.gc?.();
  const before = process.memoryUsage();
  await sleep(1_500);
  const after = process.memoryUsage();
  const bufferedBytes = [...fixture.accepted].reduce((sum, socket) => sum + socket.writableLength, 0);
  expect(bufferedBytes).toBeLessThan(2_000_000);
  expect(after.rss - before.rss).toBeLessThan(60_000_000);
});

test('rekeys under load without loss or unbounded buffers', async () => {
  const fixture = await openFixture([mine]);
  const client = await fixture.login(mine);
  const rekeys = { count: 0 };
  client.on('handshake', () => (rekeys.count += 1));
  const protocol = Reflect.get(client, '_protocol');
  const exchanging = setInterval(() => protocol.rekey(), 100);
  const bytes = atLevel({ short: 4_000_000, long: 30_000_000 });
  const given = await run(client, `sleep 0.5; head -c ${bytes} /dev/zero; sleep 0.3`);
  clearInterval(exchanging);
  expect(sha(given.stdout)).toBe(sha(Buffer.alloc(bytes)));
  expect(rekeys.count).toBeGreaterThan(2);

  await shellWithWindow(client, `head -c ${atLevel({ short: 100_000_000, long: 400_000_000 })} /dev/zero`, {
    window: 0xffff_ffff,
    packet: 32_768,
  });
  const before = process.memoryUsage();
  // Starts a key exchange without finishing; input is still read.
  protocol.rekey();
  Reflect.get(client, '_sock').removeAllListeners('data').resume();
  await sleep(1_500);
  expect(process.memoryUsage().rss - before.rss).toBeLessThan(60_000_000);
});

/** Opens a session with invalid parameters. */
async function shellWithWindow(
  client: Client,
  command: string,
  { window, packet }: { window: number; packet: number },
) {
  const protocol = Reflect.get(client, '_protocol');
  const original = protocol.session.bind(protocol);
  protocol.session = (channel: number) => original(channel, window, packet);
  return new Promise<unknown>((resolve) => {
    client.exec(command, (error, channel) => resolve({ error, channel }));
    client.once('close', () => resolve({ closed: true }));
  });
}

test('disconnects clients that violate the protocol: empty packets, data beyond the window, endless key exchanges', async () => {
  const fixture = await openFixture([mine]);
  const empty = await fixture.login(mine);
  await shellWithWindow(empty, 'echo hello', { window: 1_000_000, packet: 0 });
  await expect.poll(() => fixture.accepted.size).toBe(0);

  const greedy = await fixture.login(mine);
  const { promise, resolve } = Promise.withResolvers<ClientChannel>();
  greedy.exec('exec sleep 30', (_error, channel) => resolve(channel));
  const channel = await promise;
  const { outgoing }: { outgoing?: object } = Object(channel);
  Object.defineProperty(outgoing ?? {}, 'window', { get: () => 1e12, set: () => {} });
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  greedy.once('close', () => close());
  channel.on('error', () => {});
  const block = Buffer.alloc(1024 * 1024 - 1);
  const flood = setInterval(() => {
    if (channel.writableLength < 16 * block.length) channel.write(block);
  }, 1);
  await closed;
  clearInterval(flood);
  expect((await run(await fixture.login(mine), 'echo fine')).stdout.toString()).toBe('fine\n');
});
