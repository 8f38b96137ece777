/** What pays, by the page on billing: ledger accounts of one user, bookings and refunds. */

export const ledgers = [
  'cash',
  'credit',
  'voucher',
  'revenue',
  'deposits',
  'grants',
  'expired',
  'uncollected',
] as const;
export type Ledger = (typeof ledgers)[number];
export type Balances = Record<Ledger, bigint>;

export interface Scope {
  region?: string;
  instanceType?: string;
  meter?: string;
}

export interface Given {
  kind: 'credit' | 'voucher';
  amount: number;
  expiresAt?: number | undefined;
  scope?: Scope;
}

interface Grant extends Given {
  left: bigint;
}

/** What one payment took from where; a refund returns it there. */
export interface Payment {
  cash: bigint;
  taken: { grant: Grant; amount: bigint }[];
  uncollected: bigint;
}

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const fits = (scope: Scope | undefined, use: Scope): boolean =>
  scope === undefined ||
  (['region', 'instanceType', 'meter'] as const).every((key) => scope[key] === undefined || scope[key] === use[key]);

export class Purses {
  readonly balances: Balances = Object.fromEntries(ledgers.map((ledger) => [ledger, 0n])) as Balances;
  readonly #grants: Grant[] = [];
  readonly #overdraft: bigint;

  constructor(options: { overdraft?: number } = {}) {
    this.#overdraft = BigInt(options.overdraft ?? 0);
  }

  #move(from: Ledger, to: Ledger, amount: bigint): void {
    this.balances[from] -= amount;
    this.balances[to] += amount;
  }

  deposit(amount: number): void {
    this.#move('deposits', 'cash', BigInt(amount));
  }

  give(given: Given): void {
    this.#grants.push({ ...given, left: BigInt(given.amount) });
    this.#move('grants', given.kind, BigInt(given.amount));
  }

  /** Books what is left of what has expired by then. */
  expire(now: number): void {
    for (const grant of this.#grants)
      if (grant.expiresAt !== undefined && grant.expiresAt <= now && grant.left > 0n) {
        this.#move(grant.kind, 'expired', grant.left);
        grant.left = 0n;
      }
  }

  /** Grants in the order in which they pay. Of equal expiry, the oldest first. */
  #order(use: Scope, now: number): Grant[] {
    const live = this.#grants.filter(
      (grant) =>
        grant.left > 0n &&
        (grant.expiresAt === undefined || grant.expiresAt > now) &&
        (grant.kind === 'credit' || fits(grant.scope, use)),
    );
    const expiry = (grant: Grant) => grant.expiresAt ?? Infinity;
    const byExpiry = (kind: Grant['kind']) =>
      live
        .filter((grant) => grant.kind === kind)
        .map((grant, at) => ({ grant, at }))
        .sort((a, b) => (expiry(a.grant) === expiry(b.grant) ? a.at - b.at : expiry(a.grant) - expiry(b.grant)))
        .map(({ grant }) => grant);
    return [...byExpiry('voucher'), ...byExpiry('credit')];
  }

  #take(amount: bigint, use: Scope, now: number): Payment {
    const payment: Payment = { cash: 0n, taken: [], uncollected: 0n };
    let due = amount;
    for (const grant of this.#order(use, now)) {
      const part = smaller(due, grant.left);
      if (part === 0n) break;
      payment.taken.push({ grant, amount: part });
      due -= part;
    }
    const spendable = this.balances.cash + this.#overdraft;
    payment.cash = spendable > 0n ? smaller(due, spendable) : 0n;
    payment.uncollected = due - payment.cash;
    return payment;
  }

  #settle(payment: Payment): Payment {
    for (const { grant, amount } of payment.taken) {
      grant.left -= amount;
      this.#move(grant.kind, 'revenue', amount);
    }
    this.#move('cash', 'revenue', payment.cash);
    this.#move('uncollected', 'revenue', payment.uncollected);
    return payment;
  }

  /** Pays metered use; what nothing can pay is uncollected. */
  payUse(amount: bigint, use: Scope, now: number): Payment {
    return this.#settle(this.#take(amount, use, now));
  }

  /** Pays what is paid ahead; undefined: refused, because not all of it can be paid. */
  payAhead(amount: bigint, use: Scope, now: number): Payment | undefined {
    const payment = this.#take(amount, use, now);
    return payment.uncollected > 0n ? undefined : this.#settle(payment);
  }

  /** Takes metered use back whole, to where its money came from. */
  takeBack({ cash, taken, uncollected }: Payment): void {
    for (const { grant, amount } of taken) {
      grant.left += amount;
      this.#move('revenue', grant.kind, amount);
    }
    this.#move('revenue', 'cash', cash);
    this.#move('revenue', 'uncollected', uncollected);
  }

  /** Returns part of what was paid: to cash, then credits, then vouchers. */
  refund(amount: bigint, paid: Payment[]): void {
    let due = amount;
    const back = (kind: 'cash' | 'credit' | 'voucher') => {
      for (const payment of [...paid].reverse()) {
        if (kind === 'cash') {
          const part = smaller(due, payment.cash);
          payment.cash -= part;
          this.#move('revenue', 'cash', part);
          due -= part;
          continue;
        }
        for (const taken of [...payment.taken].reverse()) {
          if (taken.grant.kind !== kind) continue;
          const part = smaller(due, taken.amount);
          taken.amount -= part;
          taken.grant.left += part;
          this.#move('revenue', kind, part);
          due -= part;
        }
      }
    };
    back('cash');
    back('credit');
    back('voucher');
  }
}
