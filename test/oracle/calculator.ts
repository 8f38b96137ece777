/**
 * Independent calculator of charges, written from `docs/reference/billing.md` alone. It reads the
 * dated facts of a life and answers what each meter cost and what each purse paid. It shares no
 * code with `src`.
 *
 * Times (`at`) are milliseconds that really passed; a fact `step` moves the system clock apart
 * from them, and what depends on the date (full minutes, expiry, calendar) follows that clock.
 */
import { Purses, type Balances, type Given, type Payment, type Scope } from './purses.ts';
import { refundAt, type PaidSpan } from './paid-ahead.ts';
import { HOUR, MINUTE } from './zones.ts';

export type Meter = 'compute' | 'disks' | 'volume' | 'snapshot';

type InstanceFact =
  | 'container'
  | 'running'
  | 'ended'
  | 'evicted'
  | 'lost'
  | 'start'
  | 'stop'
  | 'restart'
  | 'halted'
  | 'terminate'
  | 'renew';

/** Prices are micro-dollars: per hour of `compute`, per GB and 30 days of the others. */
export type Fact = { at: number } & (
  | { fact: 'price'; of: 'keptDisk' | 'filesystem' | 'highspeedstorage' | 'snapshot'; price: number }
  | { fact: 'launch'; id: string; hourly?: number; paid?: Omit<PaidSpan, 'begin'>; diskGB: number; scope?: Scope }
  /**
   * `container`: its container runs; `evicted`: the host has ended it; `lost`: it is found ended
   * after an outage of the engine; `halted`: a stop or restart has ended it.
   */
  | { fact: InstanceFact; id: string }
  /** The next run's price, after a change of type. */
  | { fact: 'repriced'; id: string; hourly: number }
  | { fact: 'volume'; id: string; sizeGB: number; of: 'filesystem' | 'highspeedstorage'; scope?: Scope }
  | { fact: 'expanded'; id: string; sizeGB: number; of: 'filesystem' | 'highspeedstorage' }
  | { fact: 'snapshot'; id: string; sizeGB: number; scope?: Scope }
  | { fact: 'failed' | 'recovered' | 'deleted'; id: string }
  /** Berth booked the full minutes. */
  | { fact: 'booked' }
  /** The engine was lost; answers again; Berth saw which containers run. */
  | { fact: 'away' | 'answers' | 'saw' }
  /** An event of the log says what a resource pays from then on; without a meter: nothing. */
  | { fact: 'rate'; id: string; meter?: Meter; price: number; quantity: number; scope?: Scope }
  | { fact: 'step'; byMs: number }
  | { fact: 'deposit'; amount: number }
  | { fact: 'give'; given: Given }
);

/** One price of one resource: `[from, until)`. */
export interface Span {
  from: number;
  until: number | undefined;
  price: number;
  quantity: number;
}

export interface Line {
  resource: string;
  meter: Meter;
  spans: Span[];
  /** Time that was not charged because nothing was booked for more than an hour. */
  gapMs: number;
  booked: bigint;
}

export interface Books {
  lines: Line[];
  balances: Balances;
  refunds: { id: string; amount: bigint }[];
  refused: { id: string; at: number }[];
}

/** Greater differences between the system clock and the time that passed are steps. */
const DRIFT = 2_000;

/** Longest charge of a container whose end was requested. */
const GRACE = 10_000;

/** Both units of time divide this number of milliseconds: 30 days. */
const UNIT = 2_592_000_000n;
const perUnit: Record<Meter, bigint> = { compute: 720n, disks: 1n, volume: 1n, snapshot: 1n };

/** Bookings of one meter of one resource. */
class Meterage implements Line {
  readonly spans: Span[] = [];
  /** Of the open span, or the last one. */
  payments: Payment[] = [];
  gapMs = 0;
  booked = 0n;
  /** The end of its container was requested: it is booked when that has ended. */
  isEnding = false;
  /** Of the open span among all. */
  order = 0;
  readonly resource: string;
  readonly meter: Meter;
  readonly use: Scope;
  #exact = 0n;
  #upTo = 0;

  constructor(resource: string, meter: Meter, use: Scope) {
    this.resource = resource;
    this.meter = meter;
    this.use = use;
  }

  get open(): Span | undefined {
    const last = this.spans.at(-1);
    return last?.until === undefined ? last : undefined;
  }

  get upTo(): number {
    return this.#upTo;
  }

  begin(at: number, price: number, quantity: number): void {
    this.#upTo = at;
    this.payments = [];
    this.spans.push({ from: at, until: undefined, price, quantity });
  }

  /** Books the open span up to a time; returns the micro-dollars of this booking. */
  book(upTo: number): bigint {
    const span = this.open;
    if (span === undefined || upTo <= this.#upTo) return 0n;
    const ms = upTo - this.#upTo;
    this.#upTo = upTo;
    if (ms > HOUR) {
      this.gapMs += ms;
      return 0n;
    }
    this.#exact += BigInt(span.price) * BigInt(span.quantity) * BigInt(ms) * perUnit[this.meter];
    const amount = this.#exact / UNIT - this.booked;
    this.booked += amount;
    return amount;
  }

  /** Ends the open span at the last booked time. */
  end(): void {
    const span = this.open;
    if (span !== undefined) span.until = this.#upTo;
  }
}

interface Life {
  hourly: number | undefined;
  paid: PaidSpan | undefined;
  payments: Payment[];
  diskGB: number;
  use: Scope;
  requested: 'run' | 'stop' | 'gone';
  /** Since its container runs. */
  isRunning: boolean;
  /** Until then its container is charged while it ends. */
  endsBy: number | undefined;
}

type Of<F extends Fact['fact']> = Extract<Fact, { fact: F }>;

class Calculator {
  readonly #purses: Purses;
  readonly #prices: Record<string, number> = {};
  readonly #lives = new Map<string, Life>();
  readonly #lines = new Map<string, Meterage>();
  readonly #sizes = new Map<string, { meter: 'volume' | 'snapshot'; sizeGB: number; price: number; use: Scope }>();
  readonly #books: Pick<Books, 'refunds' | 'refused'> = { refunds: [], refused: [] };
  readonly #origin: number;
  #steps = 0;
  /** Differences between the clocks that were not taken back yet. */
  #drift = 0;
  #at = 0;
  #answers = true;
  /** Undefined since the engine was lost. */
  #seenAt: number | undefined = 0;
  #lostAt = 0;
  #begun = 0;
  /** Line that this fact closed. */
  #closed: Meterage | undefined;

  constructor(options: { origin: number; overdraft?: number }) {
    this.#origin = options.origin;
    this.#purses = new Purses(options);
  }

  get #wall(): number {
    return this.#origin + this.#at + this.#steps;
  }

  /** The time that passed, by the books. */
  get #now(): number {
    return this.#at + (Math.abs(this.#drift) > DRIFT ? 0 : this.#drift);
  }

  #line(id: string, meter: Meter, use: Scope = {}): Meterage {
    const key = `${meter} ${id}`;
    const line = this.#lines.get(key) ?? new Meterage(id, meter, { ...use, meter });
    this.#lines.set(key, line);
    return line;
  }

  #pay(line: Meterage, upTo: number): void {
    const { gapMs } = line;
    const amount = line.book(upTo);
    // The period after a gap begins after those of other resources.
    if (line.gapMs !== gapMs) line.order = ++this.#begun;
    if (amount > 0n) line.payments.push(this.#purses.payUse(amount, line.use, this.#wall));
  }

  /** Whether Berth knows that the resource ran after its last booking. Free use has no bookings. */
  #isKnown(line: Meterage): boolean {
    if (line.meter !== 'compute') return true;
    return this.#answers && (line.open?.price === 0 || this.#seenAt !== undefined || line.upTo >= this.#lostAt);
  }

  /** A period follows another of its resource where the bookings of that one end. */
  #begin(line: Meterage, price: number, quantity: number, at = this.#now): void {
    const before = this.#closed?.resource === line.resource ? this.#closed.upTo : -Infinity;
    line.begin(Math.max(at, before), price, quantity);
    line.order = ++this.#begun;
  }

  #close(line: Meterage, endsBy = Infinity): void {
    const { open } = line;
    if (open === undefined) return;
    if (this.#isKnown(line)) this.#pay(line, Math.min(this.#now, endsBy));
    line.end();
    if (open.price > 0) this.#closed = line;
  }

  /** `disks` are metered while the instance exists and is not requested to run. */
  #keep(id: string, life: Life, endsBy = Infinity): void {
    if (life.diskGB === 0) return;
    const at = Math.min(this.#now, endsBy);
    this.#begin(this.#line(id, 'disks', life.use), this.#prices['keptDisk'] ?? 0, life.diskGB, at);
  }

  apply(fact: Fact): void {
    this.#at = fact.at;
    this.#closed = undefined;
    switch (fact.fact) {
      case 'price':
        this.#prices[fact.of] = fact.price;
        return;
      case 'step':
        this.#steps += fact.byMs;
        this.#drift += fact.byMs;
        return;
      case 'away':
        this.#answers = false;
        this.#seenAt = undefined;
        this.#lostAt = this.#now;
        return;
      case 'answers':
        this.#answers = true;
        return;
      case 'saw':
        this.#seenAt = this.#now;
        return;
      case 'deposit':
        return this.#purses.deposit(fact.amount);
      case 'give':
        return this.#purses.give(fact.given);
      case 'rate':
        return this.#rate(fact);
      case 'booked':
        return this.#bookAll();
      case 'launch':
        return this.#launch(fact);
      case 'volume':
      case 'snapshot':
        return this.#create(fact);
      case 'expanded':
      case 'failed':
      case 'recovered':
      case 'deleted':
        return this.#changeSize(fact);
      case 'repriced':
        this.#life(fact.id).hourly = fact.hourly;
        return;
      default:
        return this.#act(fact.fact, fact.id);
    }
  }

  #life(id: string): Life {
    const life = this.#lives.get(id);
    if (life === undefined) throw new Error(`The life has no instance ${id}`);
    return life;
  }

  #launch(fact: Of<'launch'>): void {
    const use = fact.scope ?? {};
    const payments: Payment[] = [];
    if (fact.paid !== undefined) {
      const total = BigInt(fact.paid.price) * BigInt(fact.paid.units);
      const payment = this.#purses.payAhead(total, { ...use, meter: 'compute' }, this.#wall);
      if (payment === undefined) {
        this.#books.refused.push({ id: fact.id, at: fact.at });
        return;
      }
      payments.push(payment);
    }
    const paid = fact.paid === undefined ? undefined : { ...fact.paid, begin: undefined };
    const { hourly, diskGB } = fact;
    this.#lives.set(fact.id, {
      hourly,
      paid,
      payments,
      diskGB,
      use,
      requested: 'run',
      isRunning: false,
      endsBy: undefined,
    });
  }

  #act(what: InstanceFact, id: string): void {
    const life = this.#life(id);
    const compute = this.#line(id, 'compute', life.use);
    switch (what) {
      case 'container':
      case 'running':
        if (life.requested !== 'run') return;
        life.isRunning = what === 'running';
        if (life.paid !== undefined) life.paid.begin ??= this.#wall;
        if (life.hourly !== undefined && compute.open === undefined) this.#begin(compute, life.hourly, 1);
        return;
      case 'evicted':
      case 'lost':
        this.#close(compute);
        if (!life.isRunning) for (const payment of compute.payments.splice(0)) this.#purses.takeBack(payment);
        return;
      case 'ended':
        this.#close(compute);
        return;
      case 'restart':
        return this.#letEnd(id, life, compute);
      case 'stop':
        if (life.requested !== 'run') return;
        life.requested = 'stop';
        return this.#letEnd(id, life, compute);
      case 'halted':
        return this.#halted(id, life, compute);
      case 'start':
        if (life.requested !== 'stop') return;
        life.requested = 'run';
        return this.#close(this.#line(id, 'disks'));
      case 'renew':
        return this.#renew(id, life);
      case 'terminate':
        if (life.requested === 'gone') return;
        life.requested = 'gone';
        this.#close(compute, life.endsBy);
        this.#close(this.#line(id, 'disks'));
        return this.#refund(id, life);
    }
  }

  /** A container is charged while it ends, if Berth knows that it runs. */
  #letEnd(id: string, life: Life, compute: Meterage): void {
    if (compute.open === undefined || !this.#isKnown(compute)) {
      this.#close(compute);
      if (life.requested === 'stop') this.#keep(id, life);
      return;
    }
    life.endsBy = this.#now + GRACE;
    compute.isEnding = true;
  }

  #halted(id: string, life: Life, compute: Meterage): void {
    if (life.endsBy === undefined) return;
    this.#close(compute, life.endsBy);
    compute.isEnding = false;
    if (life.requested === 'stop') this.#keep(id, life, life.endsBy);
    life.endsBy = undefined;
  }

  #renew(id: string, life: Life): void {
    const { paid } = life;
    if (paid === undefined) throw new Error(`Nothing of ${id} is paid ahead`);
    const total = BigInt(paid.price) * BigInt(paid.units);
    const payment = this.#purses.payAhead(total, { ...life.use, meter: 'compute' }, this.#wall);
    if (payment === undefined) this.#books.refused.push({ id, at: this.#at });
    else life.payments.push(payment);
  }

  #refund(id: string, life: Life): void {
    if (life.paid === undefined) return;
    const amount = BigInt(refundAt(life.paid, this.#wall));
    this.#purses.refund(amount, life.payments);
    this.#books.refunds.push({ id, amount });
  }

  #create(fact: Of<'volume'> | Of<'snapshot'>): void {
    const meter = fact.fact;
    const price = this.#prices[fact.fact === 'volume' ? fact.of : 'snapshot'] ?? 0;
    const use = fact.scope ?? {};
    this.#sizes.set(fact.id, { meter, sizeGB: fact.sizeGB, price, use });
    this.#begin(this.#line(fact.id, meter, use), price, fact.sizeGB);
  }

  #rate({ id, meter, price, quantity, scope }: Of<'rate'>): void {
    for (const line of this.#lines.values()) if (line.resource === id) this.#close(line);
    if (meter !== undefined) this.#begin(this.#line(id, meter, scope), price, quantity);
  }

  #changeSize(fact: Of<'expanded'> | Of<'failed' | 'recovered' | 'deleted'>): void {
    const size = this.#sizes.get(fact.id);
    if (size === undefined) throw new Error(`The life has no volume or snapshot ${fact.id}`);
    const line = this.#line(fact.id, size.meter, size.use);
    if (fact.fact !== 'recovered') this.#close(line);
    if (fact.fact === 'expanded') {
      size.sizeGB = fact.sizeGB;
      size.price = this.#prices[fact.of] ?? 0;
    }
    if (fact.fact === 'expanded' || fact.fact === 'recovered') this.#begin(line, size.price, size.sizeGB);
  }

  /** Books each open span up to the last full minute. */
  #bookAll(): void {
    if (Math.abs(this.#drift) > DRIFT) this.#drift = 0;
    this.#purses.expire(this.#wall);
    const open = [...this.#lines.values()].filter((line) => line.open !== undefined && !line.isEnding);
    const rank = ({ meter, order }: Meterage) => (meter === 'compute' ? 0 : 1e12) + order;
    for (const line of open.sort((a, b) => rank(a) - rank(b))) {
      if (line.meter !== 'compute') this.#pay(line, this.#fullMinute(this.#now));
      else if (this.#answers && this.#seenAt !== undefined)
        this.#pay(line, this.#fullMinute(Math.min(this.#seenAt, this.#now)));
    }
  }

  /** Full minutes are those of the system clock. */
  #fullMinute(now: number): number {
    const clock = this.#wall - this.#now + now;
    return now - (((clock % MINUTE) + MINUTE) % MINUTE);
  }

  finish(): Books {
    return { lines: [...this.#lines.values()], balances: this.#purses.balances, ...this.#books };
  }
}

/** Returns the books of a life. Facts are in the order in which they happened. */
export function calculate(facts: readonly Fact[], options: { origin: number; overdraft?: number }): Books {
  const calculator = new Calculator(options);
  for (const fact of facts) calculator.apply(fact);
  return calculator.finish();
}
