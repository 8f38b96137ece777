/** Connections to loopback: one joined network of an instance, for as long as one is open. */
import { PassThrough, type Duplex } from 'node:stream';
import { expect, test } from 'vitest';
import { makeLoopbackDial } from '../../../src/control/access/routing/loopback.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import type { InstanceNetwork } from '../../../src/engines/contract.ts';

const ID = instanceIdOf('aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa');
const signal = new AbortController().signal;
const busy = (): EngineFault => new EngineFault('busy', 'nothing listens', { retry: true });

function world(listening: readonly string[], closed: (host: string) => EngineFault = busy) {
  const seen = { joins: 0, closed: 0, asked: [] as string[] };
  const ends: (() => void)[] = [];
  const joinNetwork = async (): Promise<InstanceNetwork> => {
    seen.joins += 1;
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    ends.push(resolve);
    return {
      async connect({ host }): Promise<Duplex> {
        seen.asked.push(host);
        if (!listening.includes(host)) throw closed(host);
        return new PassThrough();
      },
      listen: () => Promise.reject(new Error('not asked for')),
      ended,
      close() {
        seen.closed += 1;
        resolve();
      },
    };
  };
  return { seen, ends, dial: makeLoopbackDial({ joinNetwork }) };
}

const closed = (stream: Duplex): Promise<void> =>
  new Promise((resolve) => void stream.once('close', resolve).destroy());

test.each([
  ['127.0.0.1', ['127.0.0.1']],
  ['::1', ['127.0.0.1', '::1']],
])('connects to a program on %s', async (host, asked) => {
  const { seen, dial } = world([host]);
  await closed(await dial(ID, 80, signal));
  expect(seen).toEqual({ joins: 1, closed: 1, asked });
});

test('connections share a network, which the last one closes', async () => {
  const { seen, dial } = world(['127.0.0.1']);
  const [first, second] = await Promise.all([dial(ID, 80, signal), dial(ID, 81, signal)]);
  await closed(first);
  expect([seen.joins, seen.closed]).toEqual([1, 0]);
  await closed(second);
  expect([seen.joins, seen.closed]).toEqual([1, 1]);
  await closed(await dial(ID, 80, signal));
  expect([seen.joins, seen.closed]).toEqual([2, 2]);
});

test('a port where nothing listens is busy, and leaves no network', async () => {
  const { seen, dial } = world([]);
  await expect(dial(ID, 80, signal)).rejects.toMatchObject({ kind: 'busy' });
  expect(seen).toEqual({ joins: 1, closed: 1, asked: ['127.0.0.1', '::1'] });
});

test('a port where nothing listens is busy without IPv6, too', async () => {
  const noAddress = new EngineFault('rejected', 'no such address', { retry: false });
  const { dial } = world([], (host) => (host === '::1' ? noAddress : busy()));
  await expect(dial(ID, 80, signal)).rejects.toMatchObject({ kind: 'busy' });
});

test('joins the next run of the instance again', async () => {
  const { seen, ends, dial } = world(['127.0.0.1']);
  await dial(ID, 80, signal);
  ends[0]?.();
  await new Promise(setImmediate);
  await dial(ID, 80, signal);
  expect(seen.joins).toBe(2);
});
