/** Watches: shared, followed on, and listed again after 410. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { resources } from '../../../src/kubernetes/api-resources.ts';
import { until } from '../../conformance/subject.ts';
import { startApiServer, statusBody, type ApiServer, type Answer } from '../../fixtures/api-server.ts';

const pod = (name: string, resourceVersion: string, labels: Record<string, string> = {}) => ({
  metadata: { name, resourceVersion, labels },
});

interface Double extends ApiServer {
  /** Present objects. */
  present: { metadata: { name: string; resourceVersion: string } }[];
  version: string;
  watches: { from: string | null; response: ServerResponse }[];
  lists: number;
  send(type: string, object: object): void;
}

async function startDouble(
  refuseWatch: (from: string | null) => ReturnType<Answer> = () => undefined,
): Promise<Double> {
  const double: Omit<Double, keyof ApiServer> = {
    present: [],
    version: '1',
    watches: [],
    lists: 0,
    send(type, object) {
      double.watches.at(-1)?.response.write(`${JSON.stringify({ type, object })}\n`);
    },
  };
  const server = await startApiServer({
    answer({ query }, response) {
      if (query.get('watch') !== 'true') {
        double.lists++;
        return { body: { metadata: { resourceVersion: double.version }, items: double.present } };
      }
      const from = query.get('resourceVersion');
      const refused = refuseWatch(from);
      if (refused) return refused;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.flushHeaders();
      double.watches.push({ from, response });
      return undefined;
    },
  });
  return Object.assign(double, server);
}

function subscribe({ cluster }: ApiServer, signal = new AbortController().signal) {
  const hints: string[] = [];
  const troubles: unknown[] = [];
  const { live } = cluster.watch(
    resources.pods,
    'a=b',
    {
      onHint: ({ object, isGone }) => hints.push(`${isGone ? '-' : '+'}${object.metadata?.name}`),
      onTrouble: (error) => troubles.push(error),
    },
    signal,
  );
  return { hints, troubles, live };
}

test('one list and one watch serve all subscribers, until the last leaves', async () => {
  const server = await startDouble();
  server.present = [pod('a', '1')];
  const [first, second] = [new AbortController(), new AbortController()];
  const one = subscribe(server, first.signal);
  const other = subscribe(server, second.signal);
  await until('the watch is open', async () => server.watches.length === 1);
  server.send('MODIFIED', pod('a', '2'));
  await until('both hear', async () => one.hints.length === 2 && other.hints.length === 2);
  expect(one.hints).toEqual(['+a', '+a']);
  expect({ lists: server.lists, watches: server.watches.length }).toEqual({ lists: 1, watches: 1 });
  first.abort();
  server.send('DELETED', pod('a', '3'));
  await until('the other hears', async () => other.hints.length === 3);
  expect(other.hints.at(-1)).toBe('-a');
  expect(one.hints).toHaveLength(2);
  second.abort();
  await until('the connection is closed', async () => server.watches[0]?.response.destroyed);
});

test('is live once it has listed: each later change is reported', async () => {
  const server = await startDouble();
  const { live, hints } = subscribe(server);
  await live;
  expect(server.lists).toBe(1);
  await until('the watch is open', async () => server.watches.length === 1);
  expect(server.watches[0]?.from).toBe('1');
  server.send('ADDED', pod('b', '2'));
  await until('it is heard', async () => hints.length === 1);
});

test('goes on from its last version, a bookmark included, without another list', async () => {
  const server = await startDouble();
  const { hints } = subscribe(server);
  await until('the watch is open', async () => server.watches.length === 1);
  server.send('ADDED', pod('a', '5'));
  server.send('BOOKMARK', { metadata: { resourceVersion: '9' } });
  await until('it is heard', async () => hints.length === 1);
  server.watches[0]?.response.end();
  await until('another watch is open', async () => server.watches.length === 2);
  expect(server.watches[1]?.from).toBe('9');
  expect(server.lists).toBe(1);
});

test.for([
  { how: 'by an event', event: true },
  { how: 'by an answer', event: false },
])('lists again after 410 $how, and reports what differs, the missing included', async ({ event }) => {
  let refuses = false;
  const gone = statusBody(410, 'Expired', 'too old resource version: 1 (50)');
  const server = await startDouble((from) => (refuses && from === '1' ? { status: 410, body: gone } : undefined));
  server.present = [pod('same', '1'), pod('changed', '1'), pod('removed', '1')];
  const { hints, troubles } = subscribe(server);
  await until('the watch is open', async () => server.watches.length === 1);
  hints.length = 0;
  server.present = [pod('same', '1'), pod('changed', '40'), pod('added', '41')];
  server.version = '50';
  refuses = true;
  if (event) server.send('ERROR', gone);
  else server.watches[0]?.response.end();
  await until('another watch is open', async () => server.watches.length === 2);
  expect(hints.toSorted()).toEqual(['+added', '+changed', '-removed']);
  expect(server.watches[1]?.from).toBe('50');
  expect(server.lists).toBe(2);
  expect(troubles).toEqual([]);
});

test('a cut connection is trouble, and is followed on', async () => {
  const server = await startDouble();
  const { hints, troubles } = subscribe(server);
  await until('the watch is open', async () => server.watches.length === 1);
  server.watches[0]?.response.destroy();
  await until('another watch is open', async () => server.watches.length === 2);
  expect(troubles).toMatchObject([{ failure: 'away' }]);
  server.send('ADDED', pod('a', '2'));
  await until('it is heard', async () => hints.length === 1);
});
