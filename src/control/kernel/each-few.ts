import { makeSemaphore } from '../../async/semaphore.ts';

/** A quarter of the connections to PostgreSQL: the requests of users have the rest. */
const AT_ONCE = 4;

/** Calls a task's `work` for each row, a few at once: hundreds of transactions delay all others. */
export async function eachFew<Row>(rows: readonly Row[], work: (row: Row) => Promise<unknown>): Promise<void> {
  const few = makeSemaphore(AT_ONCE);
  await Promise.all(rows.map((row) => few.run(() => work(row))));
}
