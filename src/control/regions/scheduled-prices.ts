/** Bounds of prices for a later time, and their withdrawal. */
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { Db } from '../../store/store.ts';
import { scheduledPrices, takeScheduledPrice, type Priced } from '../../store/tables/price-changes.ts';
import { changeCatalog, recordChange, type CatalogChangeDeps } from './catalog-change.ts';
import { listedPrices, type PriceHistory } from './price-history.ts';

const MAX_AHEAD_DAYS = 731;
const DAY_MS = 86_400_000;

const dateOf = (ms: number): string => new Date(ms).toISOString();

const withdrawal = ({ regionId, typeId }: Priced, fromMs: number): string =>
  `POST /api/admin/price/withdraw ${JSON.stringify({ regionId, ...(typeId === '' ? {} : { instanceTypeId: typeId }), fromUnixMs: fromMs })}`;

/** With `fromUnixMs`, `prices` or `storagePrices` must come alone. */
export function refuseUndated(sent: object, member: 'prices' | 'storagePrices'): void {
  const other = Object.keys(sent).find((name) => name !== member);
  if (other !== undefined)
    throw new Refusal(
      'field_value',
      `field "fromUnixMs" dates "${member}" alone, and "${other}" is sent, too: send it in a request without "fromUnixMs"`,
    );
}

/** Refuses a time at which the prices cannot begin. */
export async function refuseDate(
  tx: Db,
  priced: Priced,
  { fromMs, nowMs }: { fromMs: number; nowMs: number },
): Promise<void> {
  const latestMs = nowMs + MAX_AHEAD_DAYS * DAY_MS;
  if (fromMs <= nowMs)
    throw new Refusal(
      'field_value',
      `field "fromUnixMs" is ${fromMs} (${dateOf(fromMs)}), and it is ${dateOf(nowMs)}: send a later time, or leave it out to change the prices at once`,
    );
  if (fromMs > latestMs)
    throw new Refusal(
      'field_value',
      `field "fromUnixMs" is ${fromMs} (${dateOf(fromMs)}): send a time until ${dateOf(latestMs)}, at most ${MAX_AHEAD_DAYS} days ahead`,
    );
  if ((await scheduledPrices(tx, priced)).some((scheduled) => scheduled.fromMs === fromMs))
    throw new Refusal(
      'not_now',
      `other prices are scheduled for ${dateOf(fromMs)}: choose another time, or withdraw them with ${withdrawal(priced, fromMs)}`,
    );
}

/** Tells an administrator who sets prices which scheduled ones follow. */
export async function scheduledWarnings(tx: Db, of: Priced, afterMs: number): Promise<string[]> {
  const next = (await scheduledPrices(tx, of)).find(({ fromMs }) => fromMs > afterMs);
  if (!next) return [];
  return [`other prices are scheduled from ${dateOf(next.fromMs)}; ${withdrawal(of, next.fromMs)} takes them back`];
}

export const makeWithdrawPrices =
  (deps: CatalogChangeDeps): PriceHistory['withdraw'] =>
  (caller, { regionId, instanceTypeId: typeId = '', fromUnixMs: fromMs }, idempotency) =>
    changeCatalog(deps, caller, idempotency, async (tx, _, nowMs) => {
      const change = await takeScheduledPrice(tx, { regionId, typeId }, fromMs);
      if (!change)
        throw new Refusal(
          'not_found',
          `no prices are scheduled there for ${fromMs} (${dateOf(fromMs)}); POST /api/admin/price/list lists scheduled prices first`,
        );
      const data = { regionId, instanceTypeId: typeId || null, fromUnixMs: fromMs };
      await recordChange(tx, caller, { kind: 'prices.withdrawn', subjectId: typeId || regionId, data }, nowMs);
      return { change: listedPrices(change) };
    });
