/**
 * Rows are locked in the order of `store/store.ts`. SQLite triggers record changed rows in order;
 * on PostgreSQL a violation would only show as an occasional wait of a second.
 */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { deleteExpired } from '../../fixtures/delete-expired.ts';
import { makeRegionTexts } from '../../../src/control/regions/region-texts.ts';
import { wakeEntry } from '../../../src/store/tables/capacity.ts';
import { makeDue } from '../../../src/store/tables/instances.ts';
import { recordOrphans } from '../../../src/store/tables/orphans.ts';
import { onEngine } from '../../fixtures/store.ts';
import { makeWorld, type World } from '../../fixtures/control.ts';
import { adoptAs, handle, knownOrphan, orphanIdOf } from './sweeping.ts';
import { realTime } from '../../../src/control/kernel/time.ts';

type RowOperation = 'insert' | 'update' | 'delete';

/** Records each such change from now on; returns them in order. */
async function noting(
  { store }: World,
  changes: readonly (readonly [RowOperation, string])[],
): Promise<() => Promise<string[]>> {
  await store.write(async (tx) => {
    await sql`create table noted (n integer primary key, change text)`.execute(tx);
    for (const [operation, table] of changes) {
      const row = sql.raw(operation === 'delete' ? 'old' : 'new');
      const key = sql.ref(table === 'nodePort' ? 'nodePort' : 'id');
      await sql`create trigger ${sql.ref(`noted_${operation}_${table}`)} after ${sql.raw(operation)} on ${sql.table(table)}
        begin insert into noted (change) values (${sql.lit(`${table} `)} || ${row}.${key}); end`.execute(tx);
    }
  });
  return async () => {
    const { rows } = await sql<{ change: string }>`select change from noted order by n`.execute(store.read);
    return rows.map(({ change }) => change);
  };
}

/** Resting instances of two accounts; lower instance ids belong to the higher account id. */
async function ofTwo(world: World): Promise<string[]> {
  const { instances } = world.running.control;
  const callers = [world.caller, await world.account('ada')].toSorted((one, other) =>
    one.accountId < other.accountId ? 1 : -1,
  );
  const made: string[] = [];
  for (const caller of callers) made.push((await instances.launch(caller, world.launchInput(), null)).instanceId);
  await world.running.stop();
  const owners = callers.map(({ accountId }) => accountId);
  await world.store.write(async (tx) => {
    const swapped = made.toSorted();
    for (const [at, id] of swapped.entries())
      await tx
        .updateTable('instance')
        .set({ ownerId: owners[at] ?? '', desired: 'released', releasedAtMs: 1 })
        .where('id', '=', id)
        .execute();
  });
  return owners.toReversed();
}

onEngine('sqlite', 'locks are taken in one order', (open) => {
  test('locks accounts by id when released instances leave the lists', async () => {
    const world = await makeWorld(await open());
    const inOrder = await ofTwo(world);
    const noted = await noting(world, [['update', 'account']]);
    await deleteExpired({ store: world.store, time: realTime, releasedListedMs: 1 });
    expect(await noted()).toEqual(inOrder.map((id) => `account ${id}`));
  });

  test('locks accounts by id when texts of their instances are rewritten', async () => {
    const world = await makeWorld(await open());
    const inOrder = await ofTwo(world);
    await world.store.write((tx) => tx.updateTable('region').set({ name: 'renamed' }).execute());
    const noted = await noting(world, [['update', 'account']]);
    await makeRegionTexts({ store: world.store, stopping: new AbortController().signal })();
    expect(await noted()).toEqual(inOrder.map((id) => `account ${id}`));
  });

  test('locks orphans by id in a sweep that observes them again', async () => {
    const world = await makeWorld(await open());
    // A sweep of its own would find the orphans gone.
    await world.running.stop();
    const regionId = world.drivers.regionId;
    const seen = ['3', '1', '2'].map((id) => ({
      id,
      regionId,
      kind: 'instance' as const,
      engineName: id,
      subjectId: id,
      ownerId: '',
      imageRef: '',
      generation: 1,
      running: true,
      createdAtMs: 1,
    }));
    await world.store.write((tx) => recordOrphans(tx, { regionId, kinds: ['instance'] }, seen, 1));
    const noted = await noting(world, [['update', 'orphan']]);
    await world.store.write((tx) => recordOrphans(tx, { regionId, kinds: ['instance'] }, seen, 2));
    expect(await noted()).toEqual(['orphan 1', 'orphan 2', 'orphan 3']);
  });

  test('locks orphan, node ports, region, account in an adoption', async () => {
    const world = await makeWorld(await open());
    const id = await knownOrphan(world, { nodePorts: [{ port: 22, nodePort: 30_100 }] });
    await world.engine.halt(id, 100, AbortSignal.timeout(120_000));
    const noted = await noting(world, [
      ['delete', 'orphan'],
      ['insert', 'nodePort'],
      ['update', 'region'],
      ['update', 'account'],
    ]);
    await handle(world, id, adoptAs(world));
    expect((await noted()).slice(0, 4)).toEqual([
      `orphan ${orphanIdOf(world, id)}`,
      'nodePort 30100',
      `region ${world.drivers.regionId}`,
      `account ${world.caller.accountId}`,
    ]);
  });
});

onEngine('postgres', 'locks are taken in one order', (open) => {
  test('a wake of the capacity queue passes a locked row that left the queue', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    await world.running.stop();
    const { store } = world;
    await store.write(async (cleanup) => {
      await makeDue(cleanup, [instanceId], 1);
      await store.write(async (waking) => {
        await sql`set local lock_timeout = '2s'`.execute(waking);
        await wakeEntry(waking, instanceId, 2);
      });
    });
    const { dueAtMs } = await store.read
      .selectFrom('instance')
      .select('dueAtMs')
      .where('id', '=', instanceId)
      .executeTakeFirstOrThrow();
    expect(dueAtMs).toBe(1);
  });
});
