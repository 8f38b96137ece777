/**
 * What is paid ahead, by the page on billing: replays the events of an instance with the calculator
 * of `test/oracle`, and compares purchases, ends, refunds and entries.
 */
import { paidUntil, refundAt, worthAt, type PaidSpan, type Unit } from '../oracle/paid-ahead.ts';
import { zones } from '../oracle/zones.ts';

export interface SubjectEvent {
  kind: string;
  atMs: number;
  data: string;
}

interface PaidEvent {
  cause: string;
  units: number;
  price: number;
  timeZone: string;
  startsAtMs: number | null;
  endsAtMs: number | null;
  paidTime?: boolean;
  fromMs: number;
}

const units: Readonly<Record<string, Unit>> = { perDay: 'day', perWeek: 'week', perMonth: 'month' };
export const unitOfMode = (mode: string): Unit | undefined => units[mode];

/** Paid time begins with the container, which Berth may see late. */
const SEEN_LATE_MS = 60_000;
/** Berth was away at the end for longer: renewed time begins when it is back. */
const LATE_MS = 3_600_000;
/** A restart lets the run of before end. */
const GRACE_MS = 10_000;
const micros = (dollars: number): number => Math.round(dollars * 1e6);

class Life {
  readonly wrong: string[] = [];
  paid = 0;
  refunded = 0;
  /** Units of former purchases are before those of the last. */
  #span: PaidSpan | null = null;
  #lastUnits = 0;
  /** Paid for the last purchase, and not refunded. */
  #left = 0;
  readonly #unit: Unit;

  constructor(unit: Unit) {
    this.#unit = unit;
  }

  #end(): number | null {
    const span = this.#span;
    return span?.begin === undefined ? null : paidUntil({ ...span, begin: span.begin });
  }

  #refund(amount: number): void {
    const refunded = Math.min(amount, this.#left);
    this.#left -= refunded;
    this.refunded += refunded;
  }

  bought({ cause, units: count, price, startsAtMs, endsAtMs }: PaidEvent, atMs: number): void {
    const end = this.#end();
    if (cause === 'launch' && this.#span !== null) this.wrong.push('a launch bought a second time');
    if (cause !== 'launch' && (end === null || end > atMs)) this.wrong.push(`${cause} bought time before ${end}`);
    const former = this.#span;
    this.#span = {
      zone: former?.zone ?? 'Europe/Berlin',
      unit: this.#unit,
      begin: undefined,
      units: count,
      price: micros(price),
    };
    if (cause === 'renewal' && former?.begin !== undefined && end !== null) {
      const isLate = atMs - end > LATE_MS;
      this.#span.begin = isLate ? atMs : former.begin;
      if (!isLate) this.#span.units += former.units;
      if (startsAtMs !== (isLate ? atMs : end)) this.wrong.push(`the renewal begins at ${startsAtMs}, not at ${end}`);
    }
    this.#lastUnits = count;
    this.#left = count * micros(price);
    this.paid += this.#left;
    if (endsAtMs !== this.#end()) this.wrong.push(`bought until ${endsAtMs}, not ${this.#end()}`);
  }

  began({ timeZone, startsAtMs, endsAtMs }: PaidEvent, atMs: number): void {
    const zone = zones.find((one) => one === timeZone);
    if (!this.#span || this.#span.begin !== undefined || !zone) return void this.wrong.push('paid time began twice');
    const begin = startsAtMs ?? atMs;
    if (begin > atMs || begin < atMs - SEEN_LATE_MS) this.wrong.push(`paid time began at ${begin}, known at ${atMs}`);
    this.#span = { ...this.#span, zone, begin };
    if (endsAtMs !== this.#end()) this.wrong.push(`paid until ${endsAtMs}, not ${this.#end()}`);
  }

  startRefunded({ paidTime }: PaidEvent): void {
    if (!paidTime) return;
    if (this.#span?.begin === undefined) return void this.wrong.push('the begin of paid time was taken back twice');
    this.#span.begin = undefined;
  }

  changed({ price, fromMs }: PaidEvent, atMs: number): void {
    if (!this.#span) return void this.wrong.push('nothing was paid that could change');
    const next = { ...this.#span, price: micros(price) };
    const graceMs = fromMs - atMs;
    const mayWait = next.price < this.#span.price;
    if (graceMs < 0 || graceMs > (mayWait ? GRACE_MS : 0)) this.wrong.push(`a change counts ${graceMs} ms late`);
    const difference = Number(worthAt(next, fromMs) - worthAt(this.#span, fromMs));
    this.#span = next;
    if (difference < 0) return this.#refund(-difference);
    this.#left += difference;
    this.paid += difference;
  }

  released(atMs: number): void {
    if (!this.#span) return;
    const { begin, price } = this.#span;
    // The clock may show a time before the begin.
    const most = price * (begin === undefined ? this.#lastUnits : this.#lastUnits - 1);
    this.#refund(Math.min(refundAt(this.#span, atMs), most));
  }
}

export function wrongPaidAhead(
  { id, chargeMode }: { id: string; chargeMode: string },
  events: readonly SubjectEvent[],
  entries: readonly { kind: string; amountMicros: number }[],
): string[] {
  const unit = unitOfMode(chargeMode);
  if (unit === undefined) return entries.length === 0 ? [] : [`${id} is charged ${chargeMode}, and paid ahead`];
  const life = new Life(unit);
  for (const { kind, atMs, data } of events) {
    const facts: PaidEvent = JSON.parse(data);
    if (kind === 'instance.paidTimeBought') life.bought(facts, atMs);
    if (kind === 'instance.paidTimeBegan') life.began(facts, atMs);
    if (kind === 'instance.startRefunded') life.startRefunded(facts);
    if (kind === 'instance.paidTimeChanged') life.changed(facts, atMs);
    if (kind === 'instance.released') life.released(atMs);
  }
  const sum = (kind: string): number =>
    entries.reduce((total, entry) => (entry.kind === kind ? total + entry.amountMicros : total), 0);
  return [
    ...life.wrong,
    ...(sum('prepayment') === life.paid ? [] : [`paid ${sum('prepayment')} ahead instead of ${life.paid}`]),
    ...(sum('refund') === life.refunded ? [] : [`was refunded ${sum('refund')} instead of ${life.refunded}`]),
  ].map((text) => `${id}, ${chargeMode}: ${text}`);
}
