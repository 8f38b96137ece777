/** The client's event loop: resumes by itself, yields gaps, and ends by signal or refusal. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { readEvents, type StreamedEvent } from '../../../src/contract/delivery/events.ts';
import { eventually } from '../../fixtures/control.ts';
import { openTempStore } from '../../fixtures/store.ts';
import { eventFixture, type EventFixture, type Someone } from './event-fixture.ts';

const clientOf = (fixture: EventFixture, { token }: Someone, fetch = globalThis.fetch) =>
  makeClient({ baseUrl: fixture.api.baseUrl, credential: { kind: 'token', token }, fetch });

/** Takes the next `count` events. */
async function take(events: AsyncIterable<StreamedEvent>, count: number): Promise<StreamedEvent[]> {
  const taken: StreamedEvent[] = [];
  for await (const reported of events) {
    taken.push(reported);
    if (taken.length >= count) break;
  }
  return taken;
}

const seqsOf = (reported: StreamedEvent[]): number[] =>
  reported.map((one) => (one.type === 'event' ? one.seq : Number.NaN));

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, index) => from + index);

async function withFixture(work: (fixture: EventFixture) => Promise<void>): Promise<void> {
  const { store, remove } = await openTempStore();
  await work(await eventFixture(store));
  await remove();
}

/** A network that cuts every answer after a number of bytes, by an error or a clean end. */
function breaking(afterBytes: () => number): { fetch: typeof globalThis.fetch; opened: () => number } {
  let opened = 0;
  return {
    opened: () => opened,
    async fetch(url, init) {
      const response = await globalThis.fetch(url, init);
      opened += 1;
      const fails = opened % 2 === 0;
      let left = afterBytes();
      const cut = new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          controller.enqueue(piece.subarray(0, Math.max(0, left)));
          left -= piece.length;
          if (left > 0) return;
          if (fails) controller.error(new TypeError('the network was lost'));
          else controller.terminate();
        },
      });
      return new Response(response.body?.pipeThrough(cut) ?? null, {
        status: response.status,
        headers: response.headers,
      });
    },
  };
}

test('yields every event once and in order over connections that break anywhere', () =>
  withFixture(async (fixture) => {
    const ann = await fixture.another();
    const network = breaking(() => 200 + Math.random() * 4_000);
    const reading = take(clientOf(fixture, ann, network.fetch).events({ after: ann.base }), 60);
    for (let wave = 0; wave < 6; wave++) await ann.happens(10);
    expect(seqsOf(await reading)).toEqual(range(ann.base + 1, ann.base + 60));
    expect(network.opened()).toBeGreaterThan(1);
  }));

test('resumes from its start without a number, even before any event', () =>
  withFixture(async (fixture) => {
    const ann = await fixture.another();
    let opened = 0;
    const reading = take(
      clientOf(fixture, ann, async (url, init) => {
        const response = await globalThis.fetch(url, init);
        opened += 1;
        if (opened > 1) return response;
        // The first connection reports its position and is lost before any event.
        const { value } = (await response.body?.getReader().read()) ?? {};
        await ann.happens(3);
        return new Response(value ?? null);
      }).events(),
      3,
    );
    expect(seqsOf(await reading)).toEqual(range(ann.base + 1, ann.base + 3));
    expect(opened).toBe(2);
  }));

test('an event has kind, subject, time and data; a gap has its numbers and a reason', () =>
  withFixture(async (fixture) => {
    const ann = await fixture.another();
    await ann.happens(1, { deep: { a: [1] } });
    const [reported] = await take(clientOf(fixture, ann).events({ after: ann.base }), 1);
    expect(reported).toEqual({
      type: 'event',
      seq: ann.base + 1,
      kind: 'test.happened',
      subjectId: ann.accountId,
      atUnixMs: 5,
      data: { deep: { a: [1] }, n: 0 },
    });
    const ahead = clientOf(fixture, ann).events({ after: ann.base + 50 });
    expect((await ahead.next()).value).toEqual({
      type: 'gap',
      fromSeq: ann.base + 2,
      toSeq: ann.base + 50,
      why: expect.stringContaining('no events have these numbers yet'),
    });
    await ann.happens(1);
    expect((await ahead.next()).value).toMatchObject({ type: 'event', seq: ann.base + 2 });
    await ahead.return();
  }));

test('throws a refusal, as the first answer or after a revoked login', () =>
  withFixture(async (fixture) => {
    const unauthenticated = makeClient({ baseUrl: fixture.api.baseUrl });
    await expect(take(unauthenticated.events(), 1)).rejects.toMatchObject({
      name: 'ApiError',
      status: 401,
      code: 'not_logged_in',
    });
    const away = makeClient({ baseUrl: 'http://127.0.0.1:1/api' });
    await expect(take(away.events(), 1)).rejects.toMatchObject({ status: 0, code: 'unreachable' });

    const ann = await fixture.another();
    const client = clientOf(fixture, ann, breaking(() => 1).fetch);
    const events = client.events({ after: ann.base });
    const next = events.next();
    await clientOf(fixture, ann).logout();
    await expect(next).rejects.toMatchObject({ status: 401, code: 'not_logged_in' });
  }));

test('waits for a server that became unreachable or busy', async () => {
  const answers = [
    () => new Response('retry: 2000\nid: 4\n\n'),
    () => Promise.reject(new TypeError('refused')),
    () =>
      new Response('{"message":"busy"}', {
        status: 503,
        headers: { 'x-error-code': 'unavailable', 'retry-after': '0' },
      }),
    () =>
      new Response('{"message":"too many"}', {
        status: 429,
        headers: { 'x-error-code': 'too_many_requests', 'retry-after': '0' },
      }),
    () =>
      new Response(
        'id: 5\nevent: a.b\ndata: {"seq":5,"kind":"a.b","subjectId":"s","atUnixMs":1,"data":{},"newer":1}\n\n',
      ),
  ];
  const asked: (string | null)[] = [];
  const client = makeClient({
    baseUrl: 'http://server.test/api',
    async fetch(_url, init) {
      asked.push(new Headers(init.headers).get('last-event-id'));
      const answer = answers[asked.length - 1];
      if (!answer) throw new Error('asked once too often');
      return answer();
    },
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const reading = take(client.events(), 1);
  // The delay is 0.5 s, doubled after each attempt without an event.
  while (asked.length < answers.length) await vi.advanceTimersByTimeAsync(100);
  expect(seqsOf(await reading)).toEqual([5]);
  expect(asked).toEqual([null, '4', '4', '4', '4']);
});

test('throws on unreadable data instead of retrying forever', async () => {
  const client = makeClient({
    baseUrl: 'http://server.test/api',
    fetch: async () => new Response('id: 1\nevent: a\ndata: {"seq":"one"}\n\n'),
  });
  await expect(take(client.events(), 1)).rejects.toThrow(/seq/);
});

test('the signal ends the loop quietly, and leaving the loop closes its stream', () =>
  withFixture(async (fixture) => {
    const ann = await fixture.another();
    const { events } = fixture.world.running.control;
    const ending = new AbortController();
    const reading = take(clientOf(fixture, ann).events({ signal: ending.signal }), 1);
    await eventually(() => 'size' in events && events.size === 1);
    ending.abort();
    expect(await reading).toEqual([]);
    await eventually(() => 'size' in events && events.size === 0);
    await ann.happens(2);
    expect(await take(clientOf(fixture, ann).events({ after: ann.base }), 1)).toHaveLength(1);
    await eventually(() => 'size' in events && events.size === 0);
    expect(await take(clientOf(fixture, ann).events({ signal: AbortSignal.abort() }), 1)).toEqual([]);
    // An abort before the first answer works too.
    const early = new AbortController();
    const never = clientOf(fixture, ann, (_url, init) => {
      const { signal } = init ?? {};
      queueMicrotask(() => early.abort());
      return new Promise((_, reject) =>
        signal?.addEventListener('abort', () => reject(new DOMException('', 'AbortError'))),
      );
    });
    expect(await take(never.events({ signal: early.signal }), 1)).toEqual([]);
  }));

test('replaces a connection that is silent for too long', async () => {
  let opened = 0;
  const reported = await take(
    readEvents(
      { after: 0 },
      {
        silenceMs: 20,
        retryAfterS: () => null,
        async open() {
          opened += 1;
          const text = 'id: 1\nevent: a\ndata: {"seq":1,"kind":"a","subjectId":"s","atUnixMs":1,"data":{}}\n\n';
          const silent = opened === 1;
          return new ReadableStream({
            start: (controller) => void (silent || controller.enqueue(new TextEncoder().encode(text))),
          });
        },
      },
    ),
    1,
  );
  expect(seqsOf(reported)).toEqual([1]);
  expect(opened).toBe(2);
});
