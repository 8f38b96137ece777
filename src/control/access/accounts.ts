import { fromDollars, toDollars } from '../../domain/regions/catalog.ts';
import { grantedMicros, spendableCash } from '../../domain/money/purse.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { ADMIN_ROLE, USER_ROLE } from '../../domain/access/roles.ts';
import { accountById, accountByLogin, insertAccount } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { plainEntry, purseOf, writeEntries } from '../../store/tables/ledger.ts';
import type { Db } from '../../store/store.ts';
import { newPasswordFault, refuseWeakPassword } from './new-password.ts';
import { notLoggedIn, writeOwnAccount, type CredentialDeps } from './callers.ts';
import type { Passwords } from './passwords.ts';
import { uuidFrom } from './random.ts';
import type { Access } from './types.ts';
import type { Caller, Idempotency } from '../kernel/ports.ts';

const ADMIN_NAME = 'admin';

interface NewAccount {
  id: string;
  username: string;
  email: string;
  /** In dollars. Default: the first credit of accounts that administrators make. */
  balance?: number | undefined;
  roles: readonly string[];
  passwordHash: string;
}

export interface Accounts extends Pick<Access, 'createUser' | 'balance'> {
  /** Keeps an existing account and its password. `balance` is in dollars. */
  ensureAdmin(first: { password: string; balance: number }): Promise<boolean>;
  /** Throws `name_taken`. */
  insert(tx: Db, account: NewAccount): Promise<void>;
}

export interface AccountDeps extends CredentialDeps {
  passwords: Passwords;
  /** Dollars. */
  firstCredit: number;
}

const namesTaken = (taken: 'username' | 'email', { username, email }: NewAccount): Refusal => {
  if (taken === 'username') return new Refusal('name_taken', `The username "${username}" is taken; choose another.`);
  const message = `The email ${JSON.stringify(email)} belongs to another account; use another address, or none.`;
  return new Refusal('name_taken', message);
};

export const makeAccounts = (deps: AccountDeps): Accounts => {
  const { store, time, randomBytes, passwords, firstCredit } = deps;

  const insert = async (tx: Db, account: NewAccount): Promise<'username' | 'email' | null> => {
    const { id, balance = firstCredit, ...given } = account;
    const { username, roles } = given;
    const atMs = time.now();
    const taken = await insertAccount(tx, {
      ...given,
      id,
      email: account.email.toLowerCase(),
      roles: JSON.stringify(roles),
      createdAtMs: atMs,
      disabled: 0,
      balanceMicros: Number(fromDollars(balance)),
    });
    if (taken) return taken;
    if (balance > 0) {
      const amountMicros = Number(fromDollars(balance));
      const first = { kind: 'deposit', fromLedger: 'deposits', toLedger: 'cash', amountMicros, reason: 'first credit' };
      await writeEntries(tx, [{ ...plainEntry, accountId: id, atMs, ...first }]);
    }
    const data = { username, roles, balance };
    await appendEvent(tx, { accountId: id, atMs, kind: 'account.created', subjectId: id, data });
    return null;
  };

  /** Stretches the stored hash of the body: a plain one would be a fast password oracle. */
  const stretched = async (
    { accountId, username }: Caller,
    idempotency: Idempotency | null,
  ): Promise<Idempotency | null> => {
    if (!idempotency) return null;
    const salt = Buffer.from(`${accountId} ${idempotency.route} ${idempotency.key}`);
    const source = { account: username, address: null };
    return { ...idempotency, bodyHash: await passwords.stretch(idempotency.bodyHash, salt, source) };
  };

  const insertOrThrow: Accounts['insert'] = async (tx, account) => {
    const taken = await insert(tx, account);
    if (taken) throw namesTaken(taken, account);
  };

  return {
    insert: insertOrThrow,

    async ensureAdmin({ password, balance }) {
      if (await accountByLogin(store.read, ADMIN_NAME)) return false;
      const fault = await newPasswordFault(password, { username: ADMIN_NAME, email: '' });
      if (fault !== null) throw new Error(`The first password of "${ADMIN_NAME}" ${fault}. Set BERTH_ADMIN_PASSWORD.`);
      const passwordHash = await passwords.hash(password, { account: ADMIN_NAME, address: null });
      const account = { username: ADMIN_NAME, email: '', balance, roles: [ADMIN_ROLE], passwordHash };
      const id = uuidFrom(randomBytes);
      return (await store.write((tx) => insert(tx, { id, ...account }))) === null;
    },

    async createUser(caller, body, idempotency) {
      if (!caller.roles.includes(ADMIN_ROLE)) {
        throw new Refusal(
          'forbidden',
          'Only an administrator can create accounts; ask an administrator, or log in as one.',
        );
      }
      const { accountId: by } = caller;
      const { username, balance } = body;
      const email = body.email.toLowerCase();
      const roles = [USER_ROLE];
      await refuseWeakPassword('password', body.password, { username, email });
      const passwordHash = await passwords.hash(body.password, { account: caller.username, address: null });
      const id = uuidFrom(randomBytes);
      return writeOwnAccount(deps, by, await stretched(caller, idempotency), async (tx) => {
        await insertOrThrow(tx, { id, username, email, balance, roles, passwordHash });
        return { userId: id, username, email, group: roles };
      });
    },

    async balance({ accountId }) {
      const account = await accountById(store.read, accountId);
      if (!account) throw notLoggedIn();
      const purse = await purseOf(store.read, account);
      const nowMs = time.now();
      return {
        balance: toDollars(purse.cashMicros),
        availableBalance: toDollars(spendableCash(purse)),
        availableVoucherAmount: toDollars(grantedMicros(purse, 'voucher', nowMs)),
        availableCreditAmount: toDollars(grantedMicros(purse, 'credit', nowMs)),
      };
    },
  };
};
