/** Queries that SQLite plans once, not at each execution. */
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { kyselyOver, SqliteConnection } from '../../../src/store/db/sqlite-kysely.ts';

test('casts the numbers of limit and offset, which SQLite would plan again at each execution', () => {
  const { db } = kyselyOver(new SqliteConnection(new DatabaseSync(':memory:')));
  const { sql, parameters } = db.selectFrom('event').select('id').limit(2).offset(1).compile();
  expect(sql).toBe('select "id" from "event" limit cast(? as integer) offset cast(? as integer)');
  expect(parameters).toEqual([2, 1]);
});
