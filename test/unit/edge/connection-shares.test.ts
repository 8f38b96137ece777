import { describe, expect, test } from 'vitest';
import { ConnectionShares, type SharedConnection } from '../../../src/edge/connection-shares.ts';

interface Named extends SharedConnection {
  name: string;
}

const from = (address: string, name = '', isProxy = false): Named => ({ address, name, isProxy, account: '' });

/** Admits connections, each with its own login, until one is refused, and returns their number. */
function fill(shares: ConnectionShares<Named>, address: string, isProxy = false): number {
  for (let count = 0; ; count += 1) {
    const connection = from(address, '', isProxy);
    if (!shares.admit(connection).isAdmitted) return count;
    shares.protect(connection, `${address} ${count}`);
  }
}

/** Admits and protects connections of an account, each from an address of its own. */
function spread(shares: ConnectionShares<Named>, account: string, count: number): Named[] {
  const connections = Array.from({ length: count }, (_, index) => from(`${account} ${index}`, `${account} ${index}`));
  for (const connection of connections) {
    shares.admit(connection);
    shares.protect(connection, account);
  }
  return connections;
}

/** Admits connections in order, and returns the name of the one that the last one replaced. */
function replacedBy(shares: ConnectionShares<Named>, ...connections: Named[]): string | null {
  let replaced: Named | null = null;
  for (const connection of connections) ({ replaced } = shares.admit(connection));
  return replaced && replaced.name;
}

test('an address holds as many connections as are free, so each leaves some for the next', () => {
  const shares = new ConnectionShares<Named>(100);
  expect(['a', 'b', 'c'].map((address) => fill(shares, address))).toEqual([50, 25, 13]);
  expect(shares.open).toBe(88);
  expect(shares.largest()).toEqual({ address: 'a', connections: 50 });
  expect(fill(new ConnectionShares<Named>(1), 'a')).toBe(1);
});

test('a trusted proxy may hold all connections', () => {
  const shares = new ConnectionShares<Named>(100);
  expect(fill(shares, 'proxy', true)).toBe(100);
  expect(shares.admit(from('b'))).toEqual({ isAdmitted: false, replaced: null });
});

test('a newcomer above the share of its address replaces the one that was unused longest', () => {
  const shares = new ConnectionShares<Named>(6);
  const [first, second, third] = [from('a', 'first'), from('a', 'second'), from('a', 'third')];
  expect(replacedBy(shares, from('b', 'older'), first, second, third)).toBeNull();
  shares.use(first);
  expect(replacedBy(shares, from('a', 'fourth'))).toBe('second');
  expect(replacedBy(shares, from('a', 'fifth'))).toBe('third');
  expect(replacedBy(shares, from('a', 'sixth'))).toBe('first');
  expect([shares.open, shares.largest().connections]).toEqual([4, 3]);
});

test('in a full listener, an address without a connection replaces one of another address', () => {
  const shares = new ConnectionShares<Named>(2);
  expect(replacedBy(shares, from('a', 'first'), from('b', 'second'))).toBeNull();
  expect(replacedBy(shares, from('c', 'third'))).toBe('first');
  expect(replacedBy(shares, from('proxy', 'fourth', true), from('proxy', 'fifth', true))).toBe('fourth');
  expect(shares.open).toBe(2);
});

test('an address with a protected connection replaces none of another address', () => {
  const shares = new ConnectionShares<Named>(2);
  fill(shares, 'a');
  shares.admit(from('b', 'idle'));
  expect(shares.admit(from('a'))).toEqual({ isAdmitted: false, replaced: null });
});

test('a protected connection is kept until its last protection ends', () => {
  const shares = new ConnectionShares<Named>(1);
  const busy = from('a', 'busy');
  shares.admit(busy);
  shares.protect(busy, 'one');
  shares.protect(busy, 'other');
  shares.unprotect(busy);
  shares.use(busy);
  expect(shares.admit(from('b'))).toEqual({ isAdmitted: false, replaced: null });
  shares.unprotect(busy);
  expect(replacedBy(shares, from('b'))).toBe('busy');
});

test('a closed connection frees its place once, and is never replaced', () => {
  const shares = new ConnectionShares<Named>(2);
  const closed = from('a', 'closed');
  shares.admit(closed);
  shares.protect(closed, 'one');
  shares.remove(closed);
  shares.remove(closed);
  shares.unprotect(closed);
  shares.use(closed);
  expect([shares.open, shares.largest().connections]).toEqual([0, 0]);
  expect(replacedBy(shares, from('a', 'first'), from('b', 'second'), from('c'))).toBe('first');
});

describe('accounts in a full listener', () => {
  test('the largest, above its share, loses its oldest connection to addresses with few', () => {
    const shares = new ConnectionShares<Named>(30);
    spread(shares, 'small', 8);
    spread(shares, 'large', 22);
    expect(replacedBy(shares, from('new', 'first'))).toBe('large 0');
    expect(replacedBy(shares, from('new', 'second'))).toBe('first');
    expect(replacedBy(shares, from('proxy', 'third', true))).toBe('second');
    expect(spread(shares, 'proxied', 1)).toHaveLength(1);
    expect(replacedBy(shares, from('proxy', '', true))).toBe('large 1');
  });

  test('an account with no more than its share, of at least eight, loses none', () => {
    const shares = new ConnectionShares<Named>(16);
    spread(shares, 'one', 8);
    spread(shares, 'other', 8);
    expect(shares.admit(from('new'))).toEqual({ isAdmitted: false, replaced: null });
    const large = new ConnectionShares<Named>(1_280);
    for (let account = 0; account < 64; account += 1) spread(large, `account ${account}`, 20);
    expect(large.admit(from('new'))).toEqual({ isAdmitted: false, replaced: null });
  });

  test('many addresses of one account take no place from another account, one after another', () => {
    const shares = new ConnectionShares<Named>(20);
    const kept = spread(shares, 'small', 8);
    spread(shares, 'large', 100);
    for (const connection of kept) expect(shares.admit(from('new'))).not.toMatchObject({ replaced: connection });
    expect(shares.open).toBe(20);
  });

  test('a connection counts for the account that used it last', () => {
    const shares = new ConnectionShares<Named>(20);
    const connections = spread(shares, 'first', 20);
    for (const connection of connections.slice(0, 12)) {
      shares.protect(connection, 'second');
      shares.unprotect(connection);
    }
    expect(replacedBy(shares, from('new'))).toBe('first 0');
    expect(connections[0]?.account).toBe('second');
  });
});
