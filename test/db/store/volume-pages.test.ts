/** Every page of volumes equals the page by offset, in any order of requests. */
import { expect, test } from 'vitest';
import { appendEvent } from '../../../src/store/tables/events.ts';
import type { Store } from '../../../src/store/store.ts';
import { makeVolumePages } from '../../../src/store/tables/volume-pages.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { insertOwners, volumeRow } from './rows.ts';

const COUNT = 1_200;
const PAGE = 10;

/** Newest first; three per millisecond. */
const idOf = (n: number): string => `v${String(n).padStart(5, '0')}`;
const rowOf = (ownerId: string, n: number) =>
  volumeRow({
    id: ownerId + idOf(n),
    ownerId,
    regionId: 'here',
    createdAtMs: Math.floor(n / 3),
    publicText: idOf(n),
    listed: 1,
    liveName: null,
  });
const newestFirst = (numbers: number[]): string[] => numbers.toSorted((a, b) => b - a).map(idOf);

const moves = (store: Store, subjectId: string, volumes: number, fn: (tx: Store['read']) => Promise<unknown>) =>
  store.write(async (tx) => {
    await fn(tx);
    await appendEvent(tx, {
      accountId: 'ann',
      atMs: 1,
      kind: 'volume.moved',
      subjectId,
      data: {},
      counts: { volumes },
    });
  });

onBothEngines('pages of volumes', { postgres: 'always' }, (open) => {
  test('are right in any order of requests, and after volumes were added and deleted', async () => {
    const store = await open();
    await store.write((tx) => insertOwners(tx, 'here', 'ann', 'bob'));
    const numbers = Array.from({ length: COUNT }, (_, n) => n + 10);
    await moves(store, 'all', COUNT, async (tx) => {
      for (let from = 0; from < COUNT; from += 100)
        for (const owner of ['ann', 'bob'])
          await tx
            .insertInto('volume')
            .values(numbers.slice(from, from + 100).map((n) => rowOf(owner, n)))
            .execute();
    });
    const pages = makeVolumePages();
    const last = Math.ceil(COUNT / PAGE) + 1;
    const forth = Array.from({ length: last + 1 }, (_, page) => page);
    const check = async (wanted: string[], order: number[]): Promise<void> => {
      for (const page of order) {
        const found = await pages.page(store.read, 'ann', page * PAGE, PAGE);
        expect(found).toEqual({ texts: wanted.slice(page * PAGE, (page + 1) * PAGE), totalEntries: wanted.length });
      }
    };
    const scattered = forth.map((page) => (page * 37) % forth.length);
    await check(newestFirst(numbers), [...scattered, ...forth, ...forth.toReversed()]);
    // A volume leaves the middle and another joins, not as the newest: the total stays.
    const gone = numbers[600] ?? 0;
    await moves(store, 'gone', -1, (tx) =>
      tx
        .updateTable('volume')
        .set({ listed: 0 })
        .where('id', '=', `ann${idOf(gone)}`)
        .execute(),
    );
    await moves(store, 'new', 1, (tx) => tx.insertInto('volume').values(rowOf('ann', 1)).execute());
    await check(newestFirst([...numbers.filter((n) => n !== gone), 1]), [
      ...forth.toReversed(),
      ...scattered,
      ...forth,
    ]);
  });
});
