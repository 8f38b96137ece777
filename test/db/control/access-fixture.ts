/** Access over a real store, with a manual clock and cheap password hashes. */
import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import { makeAccess, type AccessDeps, type InternalAccess } from '../../../src/control/access/access.ts';
import type { Argon2id } from '../../../src/control/access/passwords.ts';
import type { Caller, Idempotency } from '../../../src/control/index.ts';
import type { Log } from '../../../src/control/kernel/logger.ts';
import { makeIdempotent } from '../../../src/control/kernel/idempotent.ts';
import { Refusal, type RefusalCode } from '../../../src/domain/kernel/refusal.ts';
import type { Store } from '../../../src/store/store.ts';
import type { Open } from '../../fixtures/store.ts';
import { cheapArgon2id } from '../../fixtures/cheap-argon2id.ts';
import { testSeal } from '../../fixtures/test-seal.ts';

export const ISSUER = 'https://berth.test';
export const AUDIENCE = 'berth-api';
export const ADMIN_PASSWORD = 'correct horse battery staple';
export const HOME = '192.0.2.7';
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const DAY = 24 * 60 * MINUTE;

export interface AccessFixture {
  store: Store;
  access: InternalAccess;
  clock: { nowMs: number };
  /** Parameters of every argon2id call. */
  hashes: Parameters<Argon2id>[0][];
  logged: { facts: Record<string, unknown>; text: string }[];
  /** Accounts whose instances were made due. */
  keysChanged: string[];
}

/** A move back is one of the system date alone. */
function timeOf(clock: { nowMs: number }): AccessDeps['time'] {
  let [seenMs, elapsedMs] = [clock.nowMs, 0];
  return {
    now: () => clock.nowMs,
    elapsed() {
      elapsedMs += Math.max(0, clock.nowMs - seenMs);
      seenMs = clock.nowMs;
      return elapsedMs;
    },
  };
}

/** Shares a store with another fixture to simulate a second process. */
export function accessFixtureOver(
  store: Store,
  clock: { nowMs: number },
  given: Partial<AccessDeps> = {},
): AccessFixture {
  const hashes: AccessFixture['hashes'] = [];
  const logged: AccessFixture['logged'] = [];
  const keysChanged: string[] = [];
  const write = (facts: Record<string, unknown>, text: string) => void logged.push({ facts, text });
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const access = makeAccess({
    store,
    time: timeOf(clock),
    idempotent: makeIdempotent(new Uint8Array(32).fill(7)),
    randomBytes,
    issuer: ISSUER,
    audience: AUDIENCE,
    log,
    seal: testSeal,
    passwordUrl: (token) => `http://api.test/password?token=${token}`,
    consoleHost: 'gpu.test',
    onSshKeysChanged: async (_, accountId) => void keysChanged.push(accountId),
    argon2id: (parameters) => {
      hashes.push(parameters);
      return cheapArgon2id(parameters);
    },
    ...given,
  });
  return { store, access, clock, hashes, logged, keysChanged };
}

export async function openFixture(open: Open, given: Partial<AccessDeps> = {}): Promise<AccessFixture> {
  const fixture = accessFixtureOver(await open(), { nowMs: 1_750_000_000_000 }, given);
  await fixture.access.ensureAdmin({ password: ADMIN_PASSWORD, balance: 1000 });
  return fixture;
}

/** Another process on the same database. */
export const secondProcess = async (open: Open, fixture: AccessFixture): Promise<AccessFixture> =>
  accessFixtureOver(open.kind === 'postgres' ? await open.again(fixture.store) : fixture.store, fixture.clock);

export const tokenOf = async (fixture: AccessFixture, username = 'admin', password = ADMIN_PASSWORD): Promise<string> =>
  (await fixture.access.login({ username, password }, HOME)).accessToken;

export const callerOf = (fixture: AccessFixture, token: string): Promise<Caller> =>
  fixture.access.authenticate({ kind: 'token', token });

export async function adminOf(fixture: AccessFixture): Promise<Caller> {
  return callerOf(fixture, await tokenOf(fixture));
}

/** An account `anna` whose password is `anna's password`, logged in. */
export async function annaOf(fixture: AccessFixture): Promise<{ token: string; caller: Caller }> {
  const body = { username: 'anna', email: 'Anna@Example.org', password: "anna's password", balance: 12.5 };
  await fixture.access.createUser(await adminOf(fixture), body, null);
  const token = await tokenOf(fixture, 'anna', body.password);
  return { token, caller: await callerOf(fixture, token) };
}

export const setDisabled = (store: Store, username: string, disabled: 0 | 1): Promise<unknown> =>
  store.write((tx) => tx.updateTable('account').set({ disabled }).where('username', '=', username).execute());

export async function refusalOf(attempt: Promise<unknown>): Promise<Refusal> {
  const outcome = await attempt.then(
    (value) => ({ value }),
    (error: unknown) => error,
  );
  if (outcome instanceof Refusal) return outcome;
  throw new Error(`no refusal: ${JSON.stringify(outcome)}`, { cause: outcome });
}

export async function expectRefused(attempt: Promise<unknown>, code: RefusalCode, words?: RegExp): Promise<Refusal> {
  const refusal = await refusalOf(attempt);
  expect(refusal.code).toBe(code);
  if (words) expect(refusal.message).toMatch(words);
  return refusal;
}

export const keyed = (key: string, route: string, bodyHash = 'hash'): Idempotency => ({ key, route, bodyHash });

export async function eventKinds(store: Store, accountId: string): Promise<string[]> {
  const rows = await store.read
    .selectFrom('event')
    .select('kind')
    .where('accountId', '=', accountId)
    .orderBy('seq')
    .execute();
  return rows.map(({ kind }) => kind);
}

/** Every value of every table as one text, to search for secrets. */
export async function everythingIn(store: Store): Promise<string> {
  const tables = [
    'setting',
    'signingKey',
    'account',
    'session',
    'passwordLink',
    'totp',
    'recoveryCode',
    'passkey',
    'apiKey',
    'sshKey',
    'idempotency',
    'event',
    'gatewayGrant',
    'portShare',
  ] as const;
  const rows = await Promise.all(tables.map((table) => store.read.selectFrom(table).selectAll().execute()));
  return JSON.stringify(rows);
}

/** The same store, recording every query as JSON of its tree. */
export function watchedStore(store: Store): { store: Store; asked: string[] } {
  const asked: string[] = [];
  const texts = new WeakMap<object, string>();
  const read = store.read.withPlugin({
    transformQuery({ node, queryId }) {
      texts.set(queryId, JSON.stringify(node));
      return node;
    },
    async transformResult({ result, queryId }) {
      asked.push(texts.get(queryId) ?? 'a query prepared by another store');
      return result;
    },
  });
  return { store: { ...store, read }, asked };
}
