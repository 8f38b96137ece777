/** Pays launches ahead, and refuses types that cannot be paid. */
import { toDollars, type InstanceType, type Micros, type PaidAheadMode } from '../../domain/regions/catalog.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import { nearestChoice, paidAheadMode, totalMicros, unitsText } from '../../domain/money/paid-time.ts';
import { isHourly } from '../../domain/money/meter.ts';
import { availableFor, MAX_HELD_MICROS } from '../../domain/money/purse.ts';
import { noBalance } from '../../domain/money/no-balance.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { Db } from '../../store/store.ts';
import { lockWallet } from '../../store/tables/ledger.ts';
import { paidTimeOf } from '../../store/tables/paid-times.ts';
import { buyPaidTime, CHANGE_PURPOSE, priceDifference, type Billed } from './prepay.ts';
import { purchaseOf, refuseWithoutHour } from './refuse-unpaid.ts';

interface Launched {
  instance: Instance;
  prices: InstanceType['pricesMicros'];
  nowMs: number;
}

/** Pays ahead what the charge mode asks for. */
export async function payLaunch(tx: Db, metering: Billed, launched: Launched): Promise<void> {
  const { instance, prices, nowMs } = launched;
  const chargeMode = paidAheadMode(instance.spec.chargeMode);
  if (chargeMode === null) return;
  const { duration } = instance.spec;
  refuseHugeTotal(chargeMode, duration, instance.priceMicros);
  const missing = await buyPaidTime(tx, metering, { instance, cause: 'launch', nowMs });
  if (!missing) return;
  const choice = nearestChoice(prices, { chargeMode, duration }, missing.availableMicros);
  const purpose = ` for ${unitsText(chargeMode, duration)} ahead`;
  const price = choice && totalMicros({ units: choice.duration, priceMicros: prices[choice.chargeMode] });
  const instead = choice
    ? `send "chargeMode" ${JSON.stringify(choice.chargeMode)} with "duration" ${choice.duration} for $${toDollars(price ?? 0n)}`
    : 'choose a cheaper type';
  throw noBalance(missing, { what: 'launch', purpose, instead });
}

function refuseHugeTotal(chargeMode: PaidAheadMode, units: number, priceMicros: Micros): void {
  const total = totalMicros({ units, priceMicros });
  if (total <= MAX_HELD_MICROS) return;
  throw new Refusal(
    'field_value',
    `field "billing.duration" is ${units}: ${unitsText(chargeMode, units)} cost $${toDollars(total)}, and an account may hold $${toDollars(MAX_HELD_MICROS)}; send fewer, or choose a cheaper type`,
  );
}

/** Refuses a pending type whose next start could not be paid now. `instance` has the type. */
export async function refuseUnpayableType(
  tx: Db,
  metering: Billed,
  { instance, nowMs }: Pick<Launched, 'instance' | 'nowMs'>,
): Promise<void> {
  if (!metering.isBilled) return;
  const what = `type ${instance.spec.type.name}`;
  const { wallet } = await lockWallet(tx, instance.ownerId);
  const availableMicros = availableFor(wallet.purse, purchaseOf(instance), nowMs);
  if (isHourly(instance.spec.chargeMode)) return refuseWithoutHour(availableMicros, instance, what);
  const paid = await paidTimeOf(tx, instance.id);
  if (!paid?.isPaid) return;
  const needMicros = priceDifference(paid, instance.priceMicros, nowMs);
  if (availableMicros < needMicros) throw noBalance({ needMicros, availableMicros }, { what, purpose: CHANGE_PURPOSE });
}
