/** Entries and usage periods of an account, as the owner reads them. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import { plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld } from '../../fixtures/control.ts';
import { settled } from './consistency.ts';

const pager = { currentPage: 1, pageSize: 50 };

async function launched(store: Store) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(store, { clock });
  const { books, instances } = world.running.control;
  const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
  await world.until(instanceId, hasStatus('Running'));
  await settled(world);
  clock.aheadMs += 90_500;
  await instances.stop(world.caller, { instanceId }, null);
  await world.until(instanceId, hasStatus('Stopped'));
  await settled(world);
  return { world, clock, books, instanceId };
}

onBothEngines('books', (open) => {
  test('an entry of metered use names the events that opened and closed its period, until they are deleted', async () => {
    const { world, books, instanceId } = await launched(await open());
    const { caller, store } = world;
    const { entries } = await books.entries(caller, { kind: 'charge', subjectId: instanceId, meter: 'compute' }, pager);
    // A booking between the jump and the stop makes an earlier entry, which ends nothing.
    const [last] = entries;
    expect(last).toMatchObject({ fromLedger: 'cash', toLedger: 'revenue', subjectId: instanceId });
    const events = await store.read.selectFrom('event').select(['seq', 'kind', 'data']).orderBy('seq').execute();
    const kindOf = (seq = 0) => events.find((event) => event.seq === seq)?.kind;
    const { opened, closed } = last?.transitions ?? {};
    expect([opened?.kind, closed?.kind]).toEqual(['instance.observed', 'instance.observed']);
    expect([opened?.kind, closed?.kind]).toEqual([kindOf(opened?.seq), kindOf(closed?.seq)]);
    expect(events.find(({ seq }) => seq === opened?.seq)?.data).toContain('"state":"charged"');
    await store.write((tx) => tx.deleteFrom('event').execute());
    const [again] = (await books.entries(caller, { kind: 'charge', meter: 'compute' }, pager)).entries;
    expect(again?.transitions).toEqual({ opened: { seq: opened?.seq }, closed: { seq: closed?.seq } });
  });

  test('entries are listed newest first, in pages, by time and kind; the balance is their sum', async () => {
    const { world, books } = await launched(await open());
    const { caller } = world;
    const all = await books.entries(caller, {}, pager);
    expect(all.totalEntries).toBe(all.entries.length);
    expect(all.entries.map(({ atMs }) => atMs)).toEqual(all.entries.map(({ atMs }) => atMs).toSorted((a, b) => b - a));
    const second = await books.entries(caller, {}, { currentPage: 2, pageSize: 1 });
    expect(second).toMatchObject({ entries: [{ id: all.entries[1]?.id }], totalEntries: all.totalEntries });
    const [deposit] = (await books.entries(caller, { kind: 'deposit' }, pager)).entries;
    expect(deposit).toMatchObject({ amountMicros: 1_000_000_000, reason: 'first credit' });
    const since = { fromMs: (deposit?.atMs ?? 0) + 1 };
    expect((await books.entries(caller, since, pager)).entries.map(({ kind }) => kind)).not.toContain('deposit');
    const until = { untilMs: (deposit?.atMs ?? 0) + 1 };
    expect((await books.entries(caller, until, pager)).entries).toEqual([deposit]);
    expect((await books.entries(caller, { untilMs: deposit?.atMs ?? 0 }, pager)).entries).toEqual([]);
    const sum = all.entries.reduce(
      (left, entry) => left + (entry.toLedger === 'cash' ? entry.amountMicros : -entry.amountMicros),
      0,
    );
    expect(await world.running.control.access.balance(caller)).toMatchObject({ balance: sum / 1e6 });
  });

  test('free time is listed as periods that cost nothing', async () => {
    const { world, books, instanceId } = await launched(await open());
    const { caller } = world;
    const { periods } = await books.periods(caller, { subjectId: instanceId }, pager);
    const free = periods.filter(({ state }) => state === 'starting');
    expect(free.length).toBeGreaterThan(0);
    expect(free.map(({ chargedMicros, priceMicros }) => chargedMicros + priceMicros)).toEqual(free.map(() => 0));
    expect(periods[0]).toMatchObject({ meter: 'disks', state: 'charged', closedAtMs: null });
    expect(periods[0]?.transitions).toEqual({ opened: { seq: expect.any(Number), kind: 'instance.observed' } });
    const running = periods.find(({ meter, state }) => meter === 'compute' && state === 'charged');
    const before = await books.periods(caller, { untilMs: running?.openedAtMs ?? 0 }, pager);
    expect(before.periods.map(({ state }) => state)).not.toContain('charged');
    const after = await books.periods(caller, { fromMs: running?.closedAtMs ?? 0 }, pager);
    expect(after.periods.map(({ meter }) => meter)).toEqual(['disks']);
    expect((await books.periods(caller, { state: 'charged', meter: 'compute' }, pager)).totalEntries).toBe(1);
  });

  test('administrators list the entries of an account by its name, and of no unknown one', async () => {
    const { world, books } = await launched(await open());
    const { caller } = world;
    const own = await books.entries(caller, {}, pager);
    const named = await books.entriesFor(caller.username, {}, pager);
    expect(named.entries.map(({ id }) => id)).toEqual(own.entries.map(({ id }) => id));
    await expect(books.entriesFor('nobody', {}, pager)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('the books of another account are not readable', async () => {
    const { world, books, instanceId } = await launched(await open());
    const mallory: Caller = await world.account('mallory', 0);
    expect((await books.entries(mallory, {}, pager)).entries).toEqual([]);
    expect((await books.periods(mallory, {}, pager)).periods).toEqual([]);
    const paid = { ...plainEntry, accountId: world.caller.accountId, atMs: 1, kind: 'prepayment', subjectId: 'paid' };
    const entry = { ...paid, fromLedger: 'cash', toLedger: 'revenue', amountMicros: 1 };
    await world.store.write((tx) => writeEntries(tx, [entry]));
    for (const subjectId of [instanceId, 'paid', 'notebook-unknown'])
      for (const read of [books.entries, books.periods])
        await expect(read(mallory, { subjectId }, pager)).rejects.toMatchObject({
          code: 'not_found',
          message: `the books of your account do not name "${subjectId}"; send the ID of an instance, volume or snapshot of yours, or leave subjectId out`,
        });
  });
});
