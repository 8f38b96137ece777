/**
 * Money of the begin and the end of a run, in the transaction that opens or closes its period: paid
 * time begins, or a run that failed for no fault of the owner is refunded.
 */
import { toDollars, type Micros } from '../../domain/regions/catalog.ts';
import { creditKinds, type Payment } from '../../domain/money/purse.ts';
import { refundTo } from '../../domain/money/refund.ts';
import { isInUse, type Instance } from '../../domain/compute/instance.ts';
import type { Diagnosis } from '../../domain/compute/instance-states.ts';
import type { RunChange } from '../../domain/compute/start-outcomes.ts';
import type { Db } from '../../store/store.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { chargesOfRun, grantsById, insertEntry, lockWallet, saveWallets } from '../../store/tables/ledger.ts';
import { runClosedBy } from '../../store/tables/usage-periods.ts';
import { beginPaidTime, refundPaidTime, unbeginPaidTime } from './prepay.ts';

interface Change extends RunChange {
  instance: Instance;
  /** The event that opened or closed the period of the run. */
  seq: number;
  nowMs: number;
}

export async function followRun(
  tx: Db,
  { instance, seq, sinceMs, refundFor, gpuLostSinceMs, nowMs }: Change,
): Promise<void> {
  if (isInUse(instance)) {
    const begun = sinceMs === undefined ? { startsAtMs: nowMs, runSeq: null } : { startsAtMs: sinceMs, runSeq: seq };
    await beginPaidTime(tx, instance, { ...begun, nowMs });
  }
  if (gpuLostSinceMs !== undefined) await refundPaidTime(tx, instance, { fromMs: gpuLostSinceMs, nowMs });
  if (refundFor !== undefined) await refundRun(tx, instance, { closeSeq: seq, reason: refundFor, nowMs });
}

interface Ended {
  closeSeq: number;
  reason: Diagnosis;
  nowMs: number;
}

async function refundRun(tx: Db, { id, ownerId }: Instance, { closeSeq, reason, nowMs }: Ended): Promise<void> {
  const runSeq = await runClosedBy(tx, id, closeSeq);
  if (runSeq === null) return;
  const amountMicros = await refundCharges(tx, { id, ownerId, runSeq }, { reason: `start: ${reason}`, nowMs });
  const paidTime = await unbeginPaidTime(tx, { id, ownerId }, { runSeq, nowMs });
  if (amountMicros === 0n && !paidTime) return;
  const data = { reason, amount: toDollars(amountMicros), paidTime };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.startRefunded', subjectId: id, data });
}

/** Takes back each charge of the run, to where its money came from. */
async function refundCharges(
  tx: Db,
  { id, ownerId: accountId, runSeq }: Pick<Instance, 'id' | 'ownerId'> & { runSeq: number },
  { reason, nowMs }: { reason: string; nowMs: number },
): Promise<Micros> {
  const charges = await chargesOfRun(tx, id, runSeq);
  if (charges.length === 0) return 0n;
  const { wallets, wallet } = await lockWallet(tx, accountId);
  for (const { id: reversesId, fromLedger, ...charge } of charges) {
    const refund = { ...charge, hourMs: null, atMs: nowMs, kind: 'refund', reason, reversesId };
    await insertEntry(tx, { ...refund, fromLedger: 'revenue', toLedger: fromLedger });
  }
  const payments = charges.flatMap(({ fromLedger, grantId, amountMicros }): Payment[] => {
    const ledger = creditKinds.find((kind) => kind === fromLedger);
    return ledger === undefined ? [] : [{ ledger, grantId, amountMicros: BigInt(amountMicros) }];
  });
  const grants = await grantsById(
    tx,
    payments.flatMap(({ grantId }) => (grantId === '' ? [] : [grantId])),
  );
  await saveWallets(tx, wallets, [{ accountId, purse: refundTo(wallet.purse, grants, payments) }]);
  return charges.reduce((sum, { amountMicros }) => sum + BigInt(amountMicros), 0n);
}
