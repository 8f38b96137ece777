import { sql } from 'kysely';
import { isSqlite } from '../../../src/store/db/dialect.ts';
import type { Store } from '../../../src/store/store.ts';

/** Counts rows of instances that are written to the table of watches from now on. */
export async function countWatchWrites(store: Store): Promise<() => Promise<number>> {
  await store.write(async (tx) => {
    await sql`create table noted (kind text)`.execute(tx);
    if (!isSqlite(tx))
      await sql`create function note() returns trigger language plpgsql as
        $$ begin insert into noted values (coalesce(new.kind, old.kind)); return null; end $$`.execute(tx);
    for (const operation of ['insert', 'update', 'delete']) {
      const row = sql.raw(operation === 'delete' ? 'old' : 'new');
      const name = sql.ref(`noted_${operation}`);
      const note = isSqlite(tx)
        ? sql`begin insert into noted values (${row}.kind); end`
        : sql`for each row execute function note()`;
      await sql`create trigger ${name} after ${sql.raw(operation)} on watch ${note}`.execute(tx);
    }
  });
  return async () => {
    const { rows } = await sql<{ count: number }>`select count(*) as count from noted where kind <> 'seen'`.execute(
      store.read,
    );
    return Number(rows[0]?.count);
  };
}
