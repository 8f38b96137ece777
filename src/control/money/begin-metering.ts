/**
 * At the start: follows the setting of billing, and opens periods of resources of before usage was
 * recorded.
 */
import { rateOfInstance, rateOfSnapshot, rateOfVolume, type Rate } from '../../domain/money/meter.ts';
import type { Db } from '../../store/store.ts';
import { ensureSetting, setting } from '../../store/tables/catalog.ts';
import { instanceFromRow } from '../../store/tables/instances.ts';
import { snapshotFromRow } from '../../store/tables/snapshots.ts';
import { setCharging, unmeteredRows } from '../../store/tables/usage-periods.ts';
import { volumeFromRow } from '../../store/tables/volumes.ts';
import type { ChargeDeps } from './charge-usage.ts';
import { adoptPaidTime } from './prepay.ts';
import { meteredInstance, meteredStorage, type Metered } from './metering.ts';

const ROWS_AT_ONCE = 200;
const METERED = 'billing.metered';

interface Unmetered {
  id: string;
  ownerId: string;
  subject: Metered;
  rate: Rate | null;
  alongside?: (tx: Db) => Promise<void>;
}

export async function beginMetering({
  store,
  metering,
  time,
}: Pick<ChargeDeps, 'store' | 'metering' | 'time'>): Promise<void> {
  await store.write((tx) => setCharging(tx, metering.isBilled, metering.clock.now()));
  if ((await setting(store.read, METERED)) !== undefined) return;
  const open = async <Row>(pages: AsyncIterable<Row[]>, subjectOf: (row: Row) => Unmetered): Promise<void> => {
    for await (const rows of pages)
      await store.write(async (tx) => {
        for (const { id, ownerId, subject, rate, alongside } of rows.map(subjectOf)) {
          if (rate === null) continue;
          const event = {
            accountId: ownerId,
            atMs: time.now(),
            kind: 'billing.meteringBegan',
            subjectId: id,
            data: {},
          };
          await metering.appendEvent(tx, event, subject, { before: null, after: rate });
          await alongside?.(tx);
        }
      });
  };
  await open(unmeteredRows(store.read, 'instance', ROWS_AT_ONCE), (row) => {
    const instance = instanceFromRow(row);
    const alongside = (tx: Db) => adoptPaidTime(tx, instance, time.now());
    return { ...instance, subject: meteredInstance(instance), rate: rateOfInstance(instance), alongside };
  });
  await open(unmeteredRows(store.read, 'volume', ROWS_AT_ONCE), (row) => {
    const volume = volumeFromRow(row);
    return { ...volume, subject: meteredStorage(volume), rate: rateOfVolume(volume) };
  });
  await open(unmeteredRows(store.read, 'snapshot', ROWS_AT_ONCE), (row) => {
    const snapshot = snapshotFromRow(row);
    return { ...snapshot, subject: meteredStorage(snapshot), rate: rateOfSnapshot(snapshot) };
  });
  await store.write((tx) => ensureSetting(tx, METERED, String(time.now())));
}
