/** Many reads of SQLite take turns: each ends in the turn of the event loop that began it. */
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { systemScheduler, type StoreScheduler } from '../../../src/store/db/group-commit.ts';
import { openSqlite } from '../../../src/store/db/sqlite.ts';
import { migrations } from '../../../src/store/open.ts';
import { openTempStore, quietLog } from '../../fixtures/store.ts';

const CHAINS = 16;
const READS = 50;

test.each([
  ['let others in after each two milliseconds, however many wait', 1, CHAINS + 2],
  ['run at once while they take no time', 0, CHAINS * READS],
])('reads that follow each other %s', async (_, msOfRead, most) => {
  let [nowMs, sinceTurn, longest] = [0, 0, 0];
  const scheduler: StoreScheduler = {
    ...systemScheduler,
    elapsed: () => (nowMs += msOfRead),
    defer: (run) =>
      systemScheduler.defer(() => {
        sinceTurn = 0;
        run();
      }),
  };
  const { file, remove } = await openTempStore();
  onTestFinished(remove);
  const store = await openSqlite({ file, migrations, log: quietLog, scheduler });
  const readOn = async (): Promise<void> => {
    for (let nth = 0; nth < READS; nth += 1) {
      await sql`select 1`.execute(store.read);
      longest = Math.max(longest, (sinceTurn += 1));
    }
  };
  await Promise.all(Array.from({ length: CHAINS }, readOn));
  expect(longest).toBeLessThanOrEqual(most);
  expect(longest).toBeGreaterThan(most / 2);
  await store.stop();
});

test('a stop answers the reads that wait for their turn', async () => {
  let nowMs = 0;
  const scheduler: StoreScheduler = {
    ...systemScheduler,
    elapsed: () => (nowMs += 1),
    // Later than all that a stop waits for.
    defer: (run) => void setTimeout(run, 50),
  };
  const { file, remove } = await openTempStore();
  onTestFinished(remove);
  const store = await openSqlite({ file, migrations, log: quietLog, scheduler });
  const reads = Array.from({ length: 9 }, () => sql`select 1`.execute(store.read));
  await store.stop();
  expect(await Promise.all(reads)).toHaveLength(9);
});
