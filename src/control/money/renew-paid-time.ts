/** Warns before the end of paid time, and at the end renews it or stops the instance. */
import { toDollars } from '../../domain/regions/catalog.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import { isOver, totalMicros } from '../../domain/money/paid-time.ts';
import { availableFor } from '../../domain/money/purse.ts';
import type { Db } from '../../store/store.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { instanceFromRow, lockInstance } from '../../store/tables/instances.ts';
import { lockWallet } from '../../store/tables/ledger.ts';
import { deletePaidTime, paidTimeOf, savePaidTime, type StoredPaidTime } from '../../store/tables/paid-times.ts';
import { buyPaidTime, type Billed } from './prepay.ts';
import { purchaseOf } from './refuse-unpaid.ts';
import type { ActHandler, StopAutomatically, TaskDeps } from '../kernel/ports.ts';

export interface RenewDeps extends Pick<TaskDeps, 'store' | 'time'> {
  metering: Billed;
  stopAutomatically: StopAutomatically;
}

export const makeRenewPaidTime =
  ({ store, time, metering, stopAutomatically }: RenewDeps): ActHandler =>
  async (owned) => {
    const ended = await store.write((tx) => handleDue(tx, metering, owned, time.now()));
    // In a transaction of its own: a stop locks the region, which comes before the account.
    if (ended) await stopAutomatically(owned, (now) => stopOf(now, ended));
    return (await paidTimeOf(store.read, owned.id))?.dueAtMs ?? null;
  };

interface Ended {
  generation: number;
  /** `missing`: the renewal could not be paid. */
  why: { endsAtMs: number | null; missing?: number };
}

/** Null: meanwhile the owner started it again, which bought time, or turned the renewal on. */
const stopOf = ({ generation, spec }: Instance, { generation: ended, why }: Ended) =>
  generation !== ended || (spec.autoRenew && why.missing === undefined)
    ? null
    : ({ cause: 'PaidTimeEnded', why } as const);

/** Returns why the instance must stop; null: nothing is left to do. */
async function handleDue(
  tx: Db,
  metering: Billed,
  { id: instanceId, ownerId: accountId }: { id: string; ownerId: string },
  nowMs: number,
): Promise<Ended | null> {
  const row = await lockInstance(tx, accountId, instanceId);
  if (!row) {
    await deletePaidTime(tx, instanceId);
    return null;
  }
  const instance = instanceFromRow(row);
  const paid = await paidTimeOf(tx, instanceId);
  if (!paid || paid.dueAtMs === null || paid.dueAtMs > nowMs) return null;
  if (!isOver(paid, nowMs)) {
    await warn(tx, metering, instance, paid, nowMs);
    return null;
  }
  const { endsAtMs } = paid;
  if (instance.desired !== 'running') {
    await savePaidTime(tx, { ...paid, dueAtMs: null });
    const event = { accountId, atMs: nowMs, kind: 'instance.paidTimeEnded', subjectId: instanceId };
    await appendEvent(tx, { ...event, data: { endsAtMs } });
    return null;
  }
  const { generation } = instance;
  if (!instance.spec.autoRenew) return { generation, why: { endsAtMs } };
  const missing = await buyPaidTime(tx, metering, { instance, cause: 'renewal', nowMs });
  return (
    missing && {
      generation,
      why: { endsAtMs, missing: toDollars(missing.needMicros - missing.availableMicros) },
    }
  );
}

/** Says what follows at the end as things are now. */
async function warn(
  tx: Db,
  { isBilled }: Billed,
  instance: Instance,
  paid: StoredPaidTime,
  nowMs: number,
): Promise<void> {
  const { id, ownerId, desired, priceMicros, spec } = instance;
  const total = totalMicros({ units: spec.duration, priceMicros });
  const { wallet } = await lockWallet(tx, ownerId);
  const available = availableFor(wallet.purse, purchaseOf(instance), nowMs);
  const missing = isBilled && available < total ? total - available : 0n;
  const renews = spec.autoRenew && missing === 0n;
  const follows = desired !== 'running' ? 'nothing' : renews ? 'renewal' : 'stop';
  await savePaidTime(tx, { ...paid, dueAtMs: paid.endsAtMs });
  const data = {
    endsAtMs: paid.endsAtMs,
    follows,
    autoRenew: spec.autoRenew,
    price: toDollars(isBilled ? total : 0n),
    missing: toDollars(missing),
  };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.paidTimeEnding', subjectId: id, data });
}
