/** Counts what an account uses of its quotas from its rows. */
import { addUsage, usageOfInstance, usageOfSnapshot, usageOfVolume, type Usage } from '../../domain/access/quota.ts';
import type { Db, Store } from '../store.ts';
import { instanceFromRow } from './instances.ts';
import { writeUsage } from './quotas.ts';
import { snapshotFromRow } from './snapshots.ts';
import { volumeFromRow } from './volumes.ts';

async function countedUsage(db: Db, accountId: string): Promise<Usage> {
  const instances = await db
    .selectFrom('instance')
    .selectAll()
    .where('ownerId', '=', accountId)
    .where('listed', '=', 1)
    .execute();
  const volumes = await db.selectFrom('volume').selectAll().where('ownerId', '=', accountId).execute();
  const snapshots = await db.selectFrom('snapshot').selectAll().where('ownerId', '=', accountId).execute();
  return [
    ...instances.map((row) => usageOfInstance(instanceFromRow(row), row.holdsCapacity === 1)),
    ...volumes.map((row) => usageOfVolume(volumeFromRow(row))),
    ...snapshots.map((row) => usageOfSnapshot(snapshotFromRow(row))),
  ].reduce(addUsage, {});
}

/** Counts for accounts of earlier versions. Call before anything else writes. */
export async function countMissingUsage(store: Store): Promise<void> {
  const accounts = await store.read.selectFrom('account').select('id').where('usage', 'is', null).execute();
  for (const { id: accountId } of accounts)
    await store.write(
      async (tx) =>
        void (await writeUsage(tx, { accountId, usage: JSON.stringify(await countedUsage(tx, accountId)) })),
    );
}
