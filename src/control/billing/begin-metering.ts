/**
 * At the start: follows the setting of billing, and opens periods of resources of before usage was
 * recorded.
 */
import { rateOfInstance, rateOfSnapshot, rateOfVolume } from '../../domain/meter.ts';
import { ensureSetting, setting } from '../../store/tables/catalog.ts';
import { instanceFromRow } from '../../store/tables/instances.ts';
import { snapshotFromRow } from '../../store/tables/snapshots.ts';
import { setCharging, unmeteredRows } from '../../store/tables/usage-periods.ts';
import { volumeFromRow } from '../../store/tables/volumes.ts';
import type { ChargeDeps } from './charge-usage.ts';
import { meteredInstance, meteredStorage, type Metered } from './metering.ts';
import type { Rate } from '../../domain/meter.ts';

const ROWS_AT_ONCE = 200;
const METERED = 'billing.metered';

export async function beginMetering({
  store,
  metering,
  time,
}: Pick<ChargeDeps, 'store' | 'metering' | 'time'>): Promise<void> {
  await store.write((tx) => setCharging(tx, metering.isBilled, metering.clock.now()));
  if ((await setting(store.read, METERED)) !== undefined) return;
  const open = (of: { id: string; ownerId: string }, subject: Metered, rate: Rate | null): Promise<unknown> => {
    const event = {
      accountId: of.ownerId,
      atMs: time.now(),
      kind: 'billing.meteringBegan',
      subjectId: of.id,
      data: {},
    };
    return rate === null
      ? Promise.resolve()
      : store.write((tx) => metering.appendEvent(tx, event, subject, { before: null, after: rate }));
  };
  for await (const row of unmeteredRows(store.read, 'instance', ROWS_AT_ONCE)) {
    const instance = instanceFromRow(row);
    await open(instance, meteredInstance(instance), rateOfInstance(instance));
  }
  for await (const row of unmeteredRows(store.read, 'volume', ROWS_AT_ONCE)) {
    const volume = volumeFromRow(row);
    await open(volume, meteredStorage(volume), rateOfVolume(volume));
  }
  for await (const row of unmeteredRows(store.read, 'snapshot', ROWS_AT_ONCE)) {
    const snapshot = snapshotFromRow(row);
    await open(snapshot, meteredStorage(snapshot), rateOfSnapshot(snapshot));
  }
  await store.write((tx) => ensureSetting(tx, METERED, String(time.now())));
}
