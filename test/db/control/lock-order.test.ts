/**
 * Rows are locked in the order that `store/store.ts` says. Which order a transaction takes is read off SQLite, where a trigger can write
 * down each row as it changes; what it is for would be seen on PostgreSQL alone, as a wait of a second now and then.
 */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { deleteExpired } from '../../../src/control/base/delete-expired.ts';
import { refreshPublicTexts } from '../../../src/main/first-run.ts';
import { regionsWithUsage } from '../../../src/store/tables/catalog.ts';
import { recordOrphans } from '../../../src/store/tables/orphans.ts';
import { onEngine } from '../../fixtures/store.ts';
import { makeWorld, type World } from '../../fixtures/control.ts';
import { adoptAs, handle, knownOrphan, orphanIdOf } from './sweeping.ts';

type RowOperation = 'insert' | 'update' | 'delete';

/** From now on each such change is written down. Answers what was, in order. */
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

/** Instances of two accounts, at rest: those with the lower ids are the account's with the higher one. */
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
  test('accounts by id, by what takes released instances off their lists', async () => {
    const world = await makeWorld(await open());
    const inOrder = await ofTwo(world);
    const noted = await noting(world, [['update', 'account']]);
    await deleteExpired({ store: world.store, now: Date.now, releasedListedMs: 1 });
    expect(await noted()).toEqual(inOrder.map((id) => `account ${id}`));
  });

  test('accounts by id, by what writes the texts of their instances anew', async () => {
    const world = await makeWorld(await open());
    const inOrder = await ofTwo(world);
    const [counted] = await regionsWithUsage(world.store.read);
    if (!counted) throw new Error('the world has no region');
    const noted = await noting(world, [['update', 'account']]);
    await refreshPublicTexts(world.store, counted.region, new AbortController().signal);
    expect(await noted()).toEqual(inOrder.map((id) => `account ${id}`));
  });

  test('orphans by id, by a sweep that sees them again', async () => {
    const world = await makeWorld(await open());
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

  test('orphan, node ports, region, account, by an adoption', async () => {
    const world = await makeWorld(await open());
    const id = await knownOrphan(world, { nodePorts: [{ port: 22, nodePort: 30_100 }] });
    await world.engine.halt(id, 100, AbortSignal.timeout(5_000));
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
