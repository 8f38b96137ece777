/** Compares two commits: agreed prices, launches without money, and stops for want of money. */
import { isInWindow, type DailyWindow } from '../oracle/off-peak-hours.ts';
import { zones, type Zone } from '../oracle/zones.ts';
import type { StoredInstance } from './invariants.ts';
import { wrongPaidAhead, type SubjectEvent } from './paid-ahead-books.ts';

type Rows = <Row>(sql: string, ...given: unknown[]) => Row[];

/** The server may show any time between both until a step of the clock is applied. */
export interface Dates {
  earliestMs: number;
  latestMs: number;
}

interface Change {
  dirty: ReadonlySet<string>;
  before: ReadonlyMap<string, StoredInstance>;
  after: ReadonlyMap<string, StoredInstance>;
  /** Time that really passed. */
  nowMs: number;
  /** Null after a restart. */
  dates: Dates | null;
  spotGraceMs: number;
}

interface Money {
  balanceMicros: number;
  overdraftMicros: number;
  grants: { leftMicros: number; expiresAtMs: number | null }[];
}

interface Windows {
  zone: Zone;
  windows: DailyWindow[];
}

const minuteOf = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));

/** The off-peak windows of each region. */
const readWindows = (rows: Rows): Map<string, Windows | null> =>
  new Map(
    rows<{ id: string; offPeak: string | null }>('select id, offPeak from region').map(({ id, offPeak }) => [
      id,
      windowsOf(offPeak ?? 'null'),
    ]),
  );

function windowsOf(text: string): Windows | null {
  const offPeak: { timeZone: string; windows: { start: string; end: string }[] } | null = JSON.parse(text);
  const zone = zones.find((one) => one === offPeak?.timeZone);
  if (!offPeak || !zone) return null;
  return { zone, windows: offPeak.windows.map(({ start, end }) => ({ from: minuteOf(start), to: minuteOf(end) })) };
}

export const isOpen = (windows: Windows | null | undefined, atMs: number): boolean =>
  windows ? isInWindow(windows.zone, windows.windows, atMs) : false;

/** What `compute` could spend. */
export function available({ balanceMicros, overdraftMicros, grants }: Money, dateMs: number): number {
  const open = grants.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > dateMs);
  const cash = Math.max(0, balanceMicros + overdraftMicros);
  return open.reduce((sum, { leftMicros }) => sum + leftMicros, cash);
}

function readMoney(rows: Rows): Map<string, Money> {
  const grants = rows<{ accountId: string; leftMicros: number; expiresAtMs: number | null }>(
    'select accountId, leftMicros, expiresAtMs from creditGrant where leftMicros > 0',
  );
  const accounts = rows<{ id: string } & Money>('select id, balanceMicros, overdraftMicros from account');
  return new Map(
    accounts.map((one) => [one.id, { ...one, grants: grants.filter(({ accountId }) => accountId === one.id) }]),
  );
}

const readEnds = (rows: Rows): Map<string, number | null> =>
  new Map(
    rows<{ instanceId: string; endsAtMs: number | null }>('select instanceId, endsAtMs from paidTime').map(
      ({ instanceId, endsAtMs }) => [instanceId, endsAtMs],
    ),
  );

/** A launch reads the catalog before it writes. */
const READ_BEFORE_MS = 2_000;
/** From a decision to its commit. */
const SLACK_MS = 10_000;

const isByHour = ({ instance: { spec } }: StoredInstance): boolean =>
  spec.chargeMode === 'perHour' || spec.chargeMode === 'tidePerHour';

export class MoneyBooks {
  /** Prices of each type and charge mode, and when they ended. */
  readonly #prices = new Map<string, { micros: number; untilMs: number }[]>();
  #money = new Map<string, Money>();
  #windows: ReadonlyMap<string, Windows | null> = new Map();
  /** End of the paid time by instance. */
  #ends = new Map<string, number | null>();
  #lastEvent = 0;

  /** Money of each account, as of the last commit. */
  get accounts(): ReadonlyMap<string, Money> {
    return this.#money;
  }

  get windows(): ReadonlyMap<string, Windows | null> {
    return this.#windows;
  }

  get ends(): ReadonlyMap<string, number | null> {
    return this.#ends;
  }

  wrong(rows: Rows, { dirty, before, after, nowMs, dates, spotGraceMs }: Change): string[] {
    if (dirty.has('instanceType')) this.#readPrices(rows, nowMs);
    const [wasMoney, wasWindows, wasEnds] = [this.#money, this.#windows, this.#ends];
    if (dirty.has('paidTime')) this.#ends = readEnds(rows);
    if (dirty.has('account') || dirty.has('creditGrant')) this.#money = readMoney(rows);
    if (dirty.has('region')) this.#windows = readWindows(rows);
    const wrong = dirty.has('event') ? this.#wrongEvents(rows, { before, after, spotGraceMs }) : [];
    if (!dirty.has('instance') || !dates) return wrong;
    for (const [id, stored] of after) {
      const was = before.get(id);
      if (was?.instance === stored.instance || stored.instance.operation.cause === 'operator') continue;
      wrong.push(...this.#wrongPrice(was, stored, nowMs));
      const changed = {
        was,
        stored,
        dates,
        money: [wasMoney, this.#money],
        windows: [wasWindows, this.#windows].map((all) => all.get(stored.row.regionId) ?? null),
        ends: [wasEnds, this.#ends],
      };
      if (was?.row.generation !== stored.row.generation) wrong.push(...wrongRequest(changed));
    }
    return wrong;
  }

  #readPrices(rows: Rows, nowMs: number): void {
    for (const { id, prices } of rows<{ id: string; prices: string }>('select id, prices from instanceType'))
      for (const [mode, micros] of Object.entries<unknown>(JSON.parse(prices))) {
        const all = this.#prices.get(`${id} ${mode}`) ?? [];
        this.#prices.set(`${id} ${mode}`, all);
        const last = all.at(-1);
        if (last?.micros === Number(micros)) continue;
        if (last) last.untilMs = nowMs;
        all.push({ micros: Number(micros), untilMs: Infinity });
      }
  }

  #isPrice({ instance: { spec } }: StoredInstance, typeId: string, micros: number, nowMs: number): boolean {
    const prices = this.#prices.get(`${typeId} ${spec.chargeMode}`) ?? [];
    return prices.some((one) => one.micros === micros && one.untilMs + READ_BEFORE_MS >= nowMs);
  }

  /** A launch and a change of type take the price of now; nothing else changes a price. */
  #wrongPrice(was: StoredInstance | undefined, stored: StoredInstance, nowMs: number): string[] {
    const { id, priceMicros, spec, pending } = stored.instance;
    const wrong: string[] = [];
    const agreed = Number(priceMicros);
    const isResized = was !== undefined && was.instance.spec.type.id !== spec.type.id;
    const keeps =
      was !== undefined &&
      (was.instance.priceMicros === priceMicros || (isResized && was.instance.pending?.resize?.priceMicros === agreed));
    if (!keeps && !this.#isPrice(stored, spec.type.id, agreed, nowMs))
      wrong.push(`${id}, ${spec.chargeMode}, costs ${agreed}, which is no price of ${spec.type.name}`);
    const { resize } = pending ?? {};
    const isNew = resize !== undefined && JSON.stringify(was?.instance.pending?.resize) !== JSON.stringify(resize);
    if (isNew && !this.#isPrice(stored, resize.type.id, resize.priceMicros, nowMs))
      wrong.push(`the change of ${id} costs ${resize.priceMicros}, which is no price of ${resize.type.name}`);
    return wrong;
  }

  #wrongEvents(rows: Rows, { before, after, spotGraceMs }: Pick<Change, 'before' | 'after' | 'spotGraceMs'>): string[] {
    const fresh = rows<FreshEvent>(
      `select id, subjectId, kind, atMs, data from event where id > ? and
        (kind like 'instance.paidTime%' or kind in ('instance.released', 'instance.reclaimed', 'instance.startRefunded'))`,
      this.#lastEvent,
    );
    this.#lastEvent = Math.max(this.#lastEvent, ...fresh.map(({ id }) => id));
    return [
      ...this.#wrongPaid(rows, fresh, before, after),
      ...fresh.flatMap((event) => wrongGrace(event, spotGraceMs)),
    ];
  }

  #wrongPaid(rows: Rows, fresh: readonly FreshEvent[], before: Change['before'], after: Change['after']): string[] {
    return [...new Set(fresh.map(({ subjectId }) => subjectId))].flatMap((id) => {
      const stored = after.get(id);
      if (!stored) return [];
      const { chargeMode } = stored.instance.spec;
      const sql = 'select kind, atMs, data from event where accountId = ? and subjectId = ? order by seq';
      const events = rows<SubjectEvent>(sql, stored.row.ownerId, id);
      const entries = rows<{ kind: string; amountMicros: number }>(
        "select kind, amountMicros from entry where subjectId = ? and kind in ('prepayment', 'refund') and periodId is null",
        id,
      );
      const renewed = fresh.some(
        ({ subjectId, kind, data }) =>
          subjectId === id && kind === 'instance.paidTimeBought' && data.includes('"renewal"'),
      );
      const mayRenew = [before.get(id), stored].some((one) => one?.instance.spec.autoRenew);
      return [
        ...wrongPaidAhead({ id, chargeMode }, events, entries),
        ...(renewed && !mayRenew ? [`${id} was renewed, and autoRenew is off`] : []),
      ];
    });
  }
}

interface FreshEvent extends SubjectEvent {
  id: number;
  subjectId: string;
}

function wrongGrace({ subjectId, kind, atMs, data }: FreshEvent, spotGraceMs: number): string[] {
  if (kind !== 'instance.reclaimed') return [];
  const { stopsAtUnixMs }: { stopsAtUnixMs: number } = JSON.parse(data);
  const graceMs = stopsAtUnixMs - atMs;
  return graceMs === spotGraceMs ? [] : [`${subjectId} is reclaimed with ${graceMs} ms of grace, not ${spotGraceMs}`];
}

interface Requested {
  was: StoredInstance | undefined;
  stored: StoredInstance;
  dates: Dates;
  /** At the commit before, and now. */
  money: readonly Map<string, Money>[];
  windows: readonly (Windows | null)[];
  ends: readonly ReadonlyMap<string, number | null>[];
}

/** Several operations may share a commit: the state before or after it must justify each. */
function wrongRequest({ was, stored, dates, money, windows, ends }: Requested): string[] {
  const { id, ownerId, operation, spec, requestedAtMs, priceMicros } = stored.instance;
  const { kind, cause } = operation;
  const left = money.map((accounts) => accounts.get(ownerId)).filter((one) => one !== undefined);
  const wrong: string[] = [];
  const most = Math.max(...left.map((one) => available(one, dates.earliestMs - SLACK_MS)));
  if (was === undefined && isByHour(stored) && most < Number(priceMicros))
    wrong.push(`${id} was launched for ${priceMicros} an hour with ${most}`);
  const least = Math.min(...left.map((one) => available(one, dates.latestMs)));
  if (kind === 'stop' && cause === 'NoMoney' && least > 0)
    wrong.push(`${id} was stopped for want of money with ${least}`);
  if (kind === 'stop' && cause === 'OffPeakEnded' && windows.every((one) => isOpen(one, requestedAtMs)))
    wrong.push(`${id} was stopped in an off-peak window`);
  if (kind === 'stop' && cause === 'PaidTimeEnded' && ends.every((one) => (one.get(id) ?? Infinity) > requestedAtMs))
    wrong.push(`${id} was stopped before the end of its paid time`);
  if (cause === 'resume' && !spec.resume && !was?.instance.spec.resume)
    wrong.push(`${id} was resumed, and the option is off`);
  return wrong;
}
