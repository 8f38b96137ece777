/** FOCUS rows of a month that is over, with each kind of charge. */
import { expect } from 'vitest';
import { makePayments } from '../../../src/control/money/payments.ts';
import { makeReadStripe } from '../../../src/control/money/stripe.ts';
import { DAY_MS, HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import { monthOf } from '../../../src/domain/money/usage-buckets.ts';
import { focusCsv } from '../../../src/edge/http/money/focus-csv.ts';
import type { Store } from '../../../src/store/store.ts';
import { insertEntry } from '../../../src/store/tables/ledger.ts';
import { openPaidWorld } from '../../db/control/paid-time-fixture.ts';
import { regionRow } from '../../db/store/rows.ts';
import { live } from '../../db/control/statement-fixture.ts';
import { hasStatus } from '../../fixtures/control.ts';
import { checkoutEvent, refundEvent, STRIPE_SECRET, stripeSignature } from '../../fixtures/stripe-events.ts';

export const NAME = 'Müller ☃ 日本';

export async function everyCharge(opened: Store): Promise<string> {
  const paidWorld = await openPaidWorld(async () => opened);
  const { world, ann, types, launch, running, instances, give, passTo, nowMs, clock } = paidWorld;
  const { store, running: control } = world;
  const next = monthOf(monthOf(nowMs(), 'UTC').untilMs, 'UTC');
  passTo(next.fromMs + 10 * DAY_MS);
  const readStripe = makeReadStripe(STRIPE_SECRET);
  const payments = makePayments({ store: opened, time: { now: nowMs }, readStripe });
  const taxed = { amount_total: 1_190, total_details: { amount_tax: 190 } };
  for (const body of [checkoutEvent(ann.accountId, taxed), refundEvent(595)])
    await payments.takeStripe(Buffer.from(body), stripeSignature(body, nowMs()));
  await give('voucher', 5);
  await give('credit', 3);

  const changed = await launch({ chargeMode: 'perDay', duration: 5 }, { name: NAME, labels: { team: 'red' } });
  await running(changed);
  const kept = await launch({ chargeMode: 'perWeek', duration: 1 });
  await running(kept);
  clock.aheadMs += 1.5 * DAY_MS;
  await instances.update(ann, { instanceId: changed, instanceTypeId: types.large.id }, null);
  await instances.restart(ann, { instanceId: changed }, null);
  await running(changed);
  clock.aheadMs += DAY_MS;
  await instances.terminate(ann, { instanceId: changed }, null);
  await world.until(changed, hasStatus('Released'));

  const here = regionRow({ id: 'here', name: 'Here' });
  await store.write((tx) => tx.insertInto('region').values(here).execute());
  const of = { accountId: ann.accountId, fromMs: next.fromMs + DAY_MS, untilMs: next.fromMs + DAY_MS + 90 * 60_000 };
  const compute = { ...of, typeId: types.small.id, name: NAME, labels: { team: 'red' } };
  await live(store, { ...compute, subjectId: 'notebook-hours' });
  await live(store, {
    ...compute,
    subjectId: 'notebook-hours',
    source: 'voucher',
    fromMs: of.untilMs,
    untilMs: of.untilMs + HOUR_MS,
  });
  await live(store, { ...compute, subjectId: 'notebook-poor', source: 'uncollected' });
  await live(store, { ...compute, subjectId: 'notebook-spot', typeId: types.spot.id });
  await live(store, { ...compute, subjectId: 'notebook-kept', meter: 'disks', quantity: 20 });
  for (const typeId of ['filesystem', 'highspeedstorage'])
    await live(store, { ...of, subjectId: `volume-${typeId}`, meter: 'volume', typeId, quantity: 100, name: NAME });
  await live(store, { ...of, subjectId: 'snapshot-1', meter: 'snapshot', quantity: 100, name: NAME });
  const earlier = { fromMs: next.fromMs - HOUR_MS, untilMs: next.fromMs - HOUR_MS / 2 };
  await live(store, { ...compute, ...earlier, subjectId: 'notebook-evicted' });
  await live(store, { ...compute, subjectId: 'notebook-evicted' });
  await store.write(async (tx) => {
    const charges = await tx.selectFrom('entry').selectAll().where('subjectId', '=', 'notebook-evicted').execute();
    for (const { id: reversesId, ...charge } of charges)
      await insertEntry(tx, {
        ...charge,
        hourMs: null,
        atMs: of.untilMs,
        kind: 'refund',
        reason: 'start: Evicted',
        reversesId,
        fromLedger: 'revenue',
        toLedger: 'cash',
      });
  });

  passTo(next.untilMs + DAY_MS);
  await world.until(kept, hasStatus('Stopped'));
  const asked = { month: next.month, timeZone: 'UTC' };
  const { isFinal } = await control.control.statements.page(ann, asked, { currentPage: 1, pageSize: 1 });
  expect(isFinal).toBe(true);
  return (await Array.fromAsync(focusCsv(await control.control.chargeExports.own(ann, asked)))).join('');
}
