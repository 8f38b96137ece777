import { makeSemaphore } from '../../async/semaphore.ts';

/** A quarter of the connections to PostgreSQL: the requests of users have the rest. */
const AT_ONCE = 4;

/**
 * Calls `work` for each row, a few at once: hundreds of transactions delay all others. A failure
 * ends no other, and the first is thrown afterwards.
 */
export async function eachOf<Row>(rows: readonly Row[], work: (row: Row) => Promise<unknown>): Promise<void> {
  const few = makeSemaphore(AT_ONCE);
  const failures: unknown[] = [];
  const tryOne = (row: Row): Promise<unknown> => work(row).catch((error: unknown) => failures.push(error));
  await Promise.all(rows.map((row) => few.run(() => tryOne(row))));
  if (failures.length > 0) throw failures[0];
}
