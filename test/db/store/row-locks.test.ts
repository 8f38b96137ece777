/** Locks of rows on PostgreSQL: they hold others back, and write nothing. */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import type { Db } from '../../../src/store/store.ts';
import { lockAccount } from '../../../src/store/tables/accounts.ts';
import { lockRegion } from '../../../src/store/tables/capacity.ts';
import { lockRegions } from '../../../src/store/tables/catalog-rows.ts';
import { lockInstance } from '../../../src/store/tables/instances.ts';
import { lockWallets } from '../../../src/store/tables/ledger.ts';
import { lockVolumes } from '../../../src/store/tables/volumes.ts';
import { onEngine } from '../../fixtures/store.ts';
import { insertOwners, instanceRow, volumeRow } from './rows.ts';

const locks: Record<string, (tx: Db) => Promise<unknown>> = {
  account: (tx) => lockAccount(tx, 'anna'),
  'account with its wallet': (tx) => lockWallets(tx, ['anna']),
  region: (tx) => lockRegion(tx, 'here'),
  'region of all': (tx) => lockRegions(tx),
  instance: (tx) => lockInstance(tx, 'anna', 'one'),
  volume: (tx) => lockVolumes(tx, 'anna', ['data']),
};

onEngine('postgres', 'a row lock', (open) => {
  test.each(Object.entries(locks))('writes no version of the row, and holds others back: %s', async (name, lock) => {
    const store = await open();
    await store.write(async (tx) => {
      await insertOwners(tx, 'here', 'anna');
      await tx
        .insertInto('instance')
        .values(instanceRow({ id: 'one', ownerId: 'anna', regionId: 'here' }))
        .execute();
      await tx
        .insertInto('volume')
        .values(volumeRow({ id: 'data', ownerId: 'anna', regionId: 'here' }))
        .execute();
    });
    const table = sql.table(name.split(' ')[0] ?? '');
    const versions = () => sql`select xmin, ctid from ${table}`.execute(store.read).then(({ rows }) => rows);
    const before = await versions();
    const [isHeld, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = store.write(async (tx) => {
      await lock(tx);
      isHeld.resolve();
      await gate.promise;
    });
    await isHeld.promise;
    const free = store.write((tx) => sql`select 1 from ${table} for no key update skip locked`.execute(tx));
    expect((await free).rows).toEqual([]);
    gate.resolve();
    await holding;
    expect(await versions()).toEqual(before);
  });
});
