/**
 * # Shares of a listener's connections
 *
 * Pure bookkeeping: which client connections a listener keeps. An address may hold as many
 * connections as are free, so each address leaves capacity for the next one. A trusted proxy speaks
 * for many clients and may hold all.
 *
 * A newcomer above its share replaces a connection of the same address; in a full listener, an
 * address without a connection replaces one of any address. The connection that was unused longest
 * goes first. A protected connection, with a login or a request under way, belongs to an account.
 * It is replaced in a full listener only, where its account holds the most and more than its share:
 * neither many addresses nor a proxy let one account keep others out.
 */

/** Protected connections that an account keeps in a full listener: a part of all, or more. */
const PART_OF_ACCOUNT = 1 / 64;
const LEAST_OF_ACCOUNT = 8;

export interface SharedConnection {
  readonly address: string;
  readonly isProxy: boolean;
  /** That the connection was last protected for. */
  account: string;
}

export interface Admission<Connection> {
  isAdmitted: boolean;
  replaced: Connection | null;
}

export class ConnectionShares<Connection extends SharedConnection> {
  readonly #limit: number;
  readonly #share: number;
  readonly #countOf = new Map<string, number>();
  /** Admitted connections, each with the number of its protections. */
  readonly #protections = new Map<Connection, number>();
  readonly #replaceable = new UseOrder<Connection>(({ address }) => address);
  readonly #protected = new UseOrder<Connection>(({ account }) => account);

  constructor(limit: number) {
    this.#limit = limit;
    this.#share = Math.max(LEAST_OF_ACCOUNT, Math.floor(limit * PART_OF_ACCOUNT));
  }

  get open(): number {
    return this.#protections.size;
  }

  admit(newcomer: Connection): Admission<Connection> {
    const { address } = newcomer;
    const isWithinShare = this.#isWithinShare(newcomer);
    const replaced = isWithinShare ? null : this.#replaceableFor(newcomer);
    if (!isWithinShare && replaced === null) return { isAdmitted: false, replaced };
    if (replaced !== null) this.remove(replaced);
    this.#protections.set(newcomer, 0);
    this.#countOf.set(address, this.#count(address) + 1);
    this.#replaceable.add(newcomer);
    return { isAdmitted: true, replaced };
  }

  /** Ignores connections that were refused, or removed before; so do the methods below. */
  remove(connection: Connection): void {
    if (!this.#protections.delete(connection)) return;
    this.#replaceable.delete(connection);
    this.#protected.delete(connection);
    const { address } = connection;
    const left = this.#count(address) - 1;
    if (left > 0) this.#countOf.set(address, left);
    else this.#countOf.delete(address);
  }

  /** Makes the connection the last one to be replaced. */
  use(connection: Connection): void {
    if (this.#replaceable.delete(connection)) this.#replaceable.add(connection);
  }

  protect(connection: Connection, account: string): void {
    const protections = this.#protections.get(connection);
    if (protections === undefined) return;
    this.#protections.set(connection, protections + 1);
    this.#replaceable.delete(connection);
    this.#protected.delete(connection);
    connection.account = account;
    this.#protected.add(connection);
  }

  unprotect(connection: Connection): void {
    const protections = this.#protections.get(connection);
    if (protections === undefined) return;
    this.#protections.set(connection, protections - 1);
    if (protections > 1) return;
    this.#protected.delete(connection);
    this.#replaceable.add(connection);
  }

  largest(): { address: string; connections: number } {
    let largest = { address: '', connections: 0 };
    for (const [address, connections] of this.#countOf)
      if (connections > largest.connections) largest = { address, connections };
    return largest;
  }

  #isWithinShare({ address, isProxy }: Connection): boolean {
    const free = this.#limit - this.open;
    return free > 0 && (isProxy || this.#count(address) < free);
  }

  #replaceableFor({ address, isProxy }: Connection): Connection | null {
    const own = this.#replaceable.firstOf(address);
    if (own !== null) return own;
    const isFull = this.open >= this.#limit;
    const unused = isFull && (isProxy || this.#count(address) === 0) ? this.#replaceable.first() : null;
    if (unused !== null) return unused;
    return isProxy || this.#count(address) < this.#share ? this.#protected.firstOfLargest(this.#share) : null;
  }

  #count(address: string): number {
    return this.#countOf.get(address) ?? 0;
  }
}

class UseOrder<Connection> {
  readonly #all = new Queue<Connection>();
  readonly #byKey = new Map<string, Queue<Connection>>();
  readonly #keyOf: (connection: Connection) => string;

  constructor(keyOf: (connection: Connection) => string) {
    this.#keyOf = keyOf;
  }

  add(connection: Connection): void {
    const key = this.#keyOf(connection);
    const ofKey = this.#byKey.get(key) ?? new Queue();
    this.#byKey.set(key, ofKey);
    ofKey.add(connection);
    this.#all.add(connection);
  }

  delete(connection: Connection): boolean {
    if (!this.#all.delete(connection)) return false;
    const key = this.#keyOf(connection);
    const ofKey = this.#byKey.get(key);
    ofKey?.delete(connection);
    if (ofKey?.size === 0) this.#byKey.delete(key);
    return true;
  }

  first(): Connection | null {
    return this.#all.first();
  }

  firstOf(key: string): Connection | null {
    return this.#byKey.get(key)?.first() ?? null;
  }

  /** Reads the key with the most connections, if these are more than `size`. */
  firstOfLargest(size: number): Connection | null {
    let largest: Queue<Connection> | null = null;
    for (const queue of this.#byKey.values()) if (queue.size > (largest?.size ?? size)) largest = queue;
    return largest && largest.first();
  }
}

interface Link<Item> {
  item: Item;
  before: Link<Item> | null;
  after: Link<Item> | null;
}

/**
 * Linked list with deletion anywhere, in constant time. The first item of a `Set` costs a walk past
 * deleted ones: 0.1 ms per replacement among 200,000 connections.
 */
class Queue<Item> {
  readonly #links = new Map<Item, Link<Item>>();
  #first: Link<Item> | null = null;
  #last: Link<Item> | null = null;

  add(item: Item): void {
    const link: Link<Item> = { item, before: this.#last, after: null };
    if (this.#last === null) this.#first = link;
    else this.#last.after = link;
    this.#last = link;
    this.#links.set(item, link);
  }

  delete(item: Item): boolean {
    const link = this.#links.get(item);
    if (link === undefined) return false;
    const { before, after } = link;
    if (before === null) this.#first = after;
    else before.after = after;
    if (after === null) this.#last = before;
    else after.before = before;
    return this.#links.delete(item);
  }

  get size(): number {
    return this.#links.size;
  }

  first(): Item | null {
    return this.#first && this.#first.item;
  }
}
