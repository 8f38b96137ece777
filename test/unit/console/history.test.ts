/** Events of the account in the console: read from a stream, named, filtered. */
import { expect, test, vi } from 'vitest';
import {
  filtered,
  makeHistory,
  namesIn,
  subjectOf,
  type History,
  type PastEvent,
} from '../../../console/src/pages/activity/history.ts';
import { readActivitySearch } from '../../../console/src/pages/activity/search.ts';
import type { EventOptions, StreamedEvent } from '../../../src/contract/delivery/events.ts';

const event = (seq: number, kind = 'volume.created', data: PastEvent['data'] = {}): PastEvent => ({
  seq,
  kind,
  subjectId: `s${seq}`,
  atUnixMs: seq,
  data,
});

/** A stream that answers what a test gives it, from the asked number on, and stays open. */
function withStream(stored: StreamedEvent[]) {
  const asked: (number | undefined)[] = [];
  async function* events({ after, signal }: EventOptions): AsyncGenerator<StreamedEvent, void> {
    asked.push(after);
    for (const one of stored) if (one.type === 'gap' || one.seq > (after ?? 0)) yield one;
    await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()));
  }
  return { asked, events };
}

const seqs = (history: History): number[] => history.view().events.map(({ seq }) => seq);
const made = (options: Parameters<typeof makeHistory>[0]) => makeHistory({ gatherMs: 0, quietMs: 5, ...options });

test('shows the stored events, newest first, and says when they were read', async () => {
  const { events } = withStream([1, 2, 3].map((seq) => ({ type: 'event' as const, ...event(seq) })));
  const history = made({ events });
  expect(history.view()).toMatchObject({ isRead: false, events: [] });
  const stop = history.follow();
  await vi.waitUntil(() => history.view().isRead);
  expect(seqs(history)).toEqual([3, 2, 1]);
  expect(history.view().hasOlder).toBe(false);
  stop();
});

test('goes on after the last event when the page is opened again', async () => {
  const stored = [{ type: 'event' as const, ...event(7) }];
  const { asked, events } = withStream(stored);
  const history = made({ events });
  history.follow()();
  const stop = history.follow();
  await vi.waitUntil(() => seqs(history).length === 1);
  stop();
  stored.push({ type: 'event', ...event(8) });
  const stopAgain = history.follow();
  await vi.waitUntil(() => seqs(history).length === 2);
  expect(asked.at(-1)).toBe(7);
  expect(seqs(history)).toEqual([8, 7]);
  stopAgain();
});

test('says that older events are gone, by a gap or by its own bound', async () => {
  const gap = { type: 'gap' as const, fromSeq: 1, toSeq: 4, why: 'these events are no longer stored' };
  const many = [5, 6, 7].map((seq) => ({ type: 'event' as const, ...event(seq) }));
  for (const [stored, most] of [[[gap, ...many], 10] as const, [many, 2] as const]) {
    const history = made({ events: withStream([...stored]).events, most });
    const stop = history.follow();
    await vi.waitUntil(() => history.view().isRead);
    expect(history.view().hasOlder).toBe(true);
    expect(seqs(history)).toEqual(most === 2 ? [7, 6] : [7, 6, 5]);
    stop();
  }
});

test('shows the refusal of the stream', async () => {
  const refusal = new Error('you have 8 open event streams');
  const history = made({
    // oxlint-disable-next-line require-yield
    async *events() {
      throw refusal;
    },
  });
  const stop = history.follow();
  await vi.waitUntil(() => history.view().error !== null);
  expect(history.view().error).toBe(refusal);
  stop();
});

test('calls a resource by the last name that an event gave it', () => {
  const renamed = { ...event(2, 'volume.renamed', { name: 'new' }), subjectId: 'v' };
  const created = { ...event(1, 'volume.created', { name: 'old' }), subjectId: 'v' };
  expect(namesIn([renamed, created, event(0)])).toEqual(new Map([['v', 'new']]));
});

test('filters by kind, resource and text', () => {
  const events = [event(3, 'instance.launched'), event(2, 'volume.created'), event(1, 'volume.deleted')];
  const seqsOf = (filter: Parameters<typeof filtered>[1]): number[] =>
    filtered(events, filter, ({ kind }) => kind).map(({ seq }) => seq);
  expect(seqsOf({})).toEqual([3, 2, 1]);
  expect(seqsOf({ kind: 'volume' })).toEqual([2, 1]);
  expect(seqsOf({ subject: 's1' })).toEqual([1]);
  expect(seqsOf({ q: 'LAUNCH' })).toEqual([3]);
  expect(seqsOf({ kind: 'volume', q: 'delete' })).toEqual([1]);
  expect(subjectOf('volume.created')).toBe('volume');
  expect(subjectOf('odd')).toBe('odd');
});

test('reads the filters of an address, and leaves out what is none', () => {
  expect(readActivitySearch({ kind: 'volume', subject: '', q: 2026, page: 3 })).toEqual({
    kind: 'volume',
    subject: undefined,
    q: '2026',
  });
});
