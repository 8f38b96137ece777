/** No minute is charged twice or lost: killed, repeated, by two processes, after a backup. */
import { spawn } from 'node:child_process';
import { execPath } from 'node:process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { spend } from '../../../src/domain/money/purse.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';
import { lockWallets, plainEntry, saveWallets, writeEntries } from '../../../src/store/tables/ledger.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines, quietLog, type DatabaseAddress } from '../../fixtures/store.ts';
import { chargingAt, seedVolumes } from './charging.ts';
import { wrongBooks } from './consistency.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const START_MS = 1_800_000_000_000;
const KILLS = atLevel({ short: 2, long: 100 });
const SPENDS = atLevel({ short: 100, long: 1_000 });
const seeded = { accounts: 7, periods: 620, atMs: START_MS, micros: 400_000 };

const program = fileURLToPath(new URL('charging-process.ts', import.meta.url));

/** Starts the process, kills it at a random moment, and returns the last minute that it began. */
function killCharging(database: DatabaseAddress, fromMs: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(execPath, [program, JSON.stringify(database), String(fromMs)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let lastMs = 0;
    child.once('error', reject);
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (lastMs === 0) setTimeout(() => child.kill('SIGKILL'), Math.random() * 80);
      lastMs = Number(line);
    });
    child.once('close', (_, signal) =>
      signal === 'SIGKILL' ? resolve(lastMs) : reject(new Error(`charging ended by itself: ${signal}`)),
    );
  });
}

const booksOf = async ({ read }: Store) => ({
  entries: await read.selectFrom('entry').selectAll().orderBy('id').execute(),
  periods: await read.selectFrom('usagePeriod').selectAll().orderBy('id').execute(),
  accounts: await read.selectFrom('account').selectAll().orderBy('id').execute(),
});

/** Bookings and balances are right up to the minute; the periods of the seed have no events. */
async function expectBooked(store: Store, untilMs: number | null): Promise<void> {
  const wrong = await wrongBooks(store);
  expect(wrong.filter((text) => !text.includes('events tell'))).toEqual([]);
  const { periods } = await booksOf(store);
  expect(periods.filter(({ state }) => state === 'gap')).toEqual([]);
  if (untilMs !== null)
    expect(new Set(periods.map(({ chargedUntilMs }) => chargedUntilMs))).toEqual(new Set([untilMs]));
}

onBothEngines('charging', { postgres: 'always' }, (open) => {
  test(`killed ${KILLS} times charges no minute twice and loses none`, async () => {
    const database = await open.empty();
    const within = async <T>(work: (store: Store) => Promise<T>): Promise<T> => {
      const store = await openStore({ ...database, log: quietLog });
      try {
        return await work(store);
      } finally {
        await store.stop();
      }
    };
    await within((store) => seedVolumes(store, seeded));
    let nowMs = START_MS + MINUTE_MS;
    for (let kill = 0; kill < KILLS; kill++) {
      nowMs = await killCharging(database, nowMs);
      await within((store) => expectBooked(store, null));
    }
    await within(async (store) => {
      await chargingAt(store, nowMs).charge();
      await expectBooked(store, nowMs);
    });
  });

  test('repeated, and by two processes at once, writes nothing twice', async () => {
    const store = await open();
    const other = open.kind === 'postgres' ? await open.again(store) : store;
    await seedVolumes(store, seeded);
    const both = [chargingAt(store, START_MS), chargingAt(other, START_MS)];
    for (let minute = 1; minute <= 20; minute++) {
      for (const { clock } of both) clock.nowMs = START_MS + minute * MINUTE_MS + 500;
      await Promise.all(both.map(({ charge }) => charge()));
    }
    await expectBooked(store, START_MS + 20 * MINUTE_MS);
    const before = await booksOf(store);
    for (const { charge } of both) await charge();
    await chargingAt(store, START_MS + 20 * MINUTE_MS + 40_000).charge();
    expect(await booksOf(store)).toEqual(before);
  });

  test('after an older backup reports the gap, and does not charge it', async () => {
    const store = await open();
    await seedVolumes(store, seeded);
    await chargingAt(store, START_MS + 10 * MINUTE_MS).charge();
    const { entries, accounts } = await booksOf(store);
    const restored = chargingAt(store, START_MS + 30 * HOUR_MS);
    await restored.charge();
    const after = await booksOf(store);
    expect(after.entries).toEqual(entries);
    expect(after.accounts.map(({ balanceMicros }) => balanceMicros)).toEqual(
      accounts.map(({ balanceMicros }) => balanceMicros),
    );
    const gaps = after.periods.filter(({ state }) => state === 'gap');
    expect(gaps).toHaveLength(seeded.periods);
    expect(new Set(gaps.map(({ openedAtMs, closedAtMs }) => `${openedAtMs} ${closedAtMs}`))).toEqual(
      new Set([`${START_MS + 10 * MINUTE_MS} ${START_MS + 30 * HOUR_MS}`]),
    );
    restored.clock.nowMs += MINUTE_MS;
    await restored.charge();
    const wrong = await wrongBooks(store);
    expect(wrong.filter((text) => !text.includes('events tell'))).toEqual([]);
    expect((await booksOf(store)).entries.length).toBeGreaterThan(entries.length);
  });

  test(`${SPENDS} spends at once never take an account below its floor`, async () => {
    const store = await open();
    const other = open.kind === 'postgres' ? await open.again(store) : store;
    await seedVolumes(store, { ...seeded, accounts: 1, periods: 3 });
    await store.write((tx) => tx.updateTable('account').set({ overdraftMicros: 50_000 }).execute());
    const amount = 1_700n;
    const purchase = { regionId: 'here', instanceTypeId: '', meter: 'compute' as const };
    const pay = (on: Store) =>
      on.write(async (tx) => {
        const before = await lockWallets(tx, ['account-0']);
        const wallet = before.get('account-0');
        if (!wallet) throw new Error('the account is gone');
        const { payments, unpaidMicros, purse } = spend(wallet.purse, amount, purchase, START_MS);
        if (unpaidMicros > 0n) return 0;
        const common = { ...plainEntry, accountId: 'account-0', atMs: START_MS, kind: 'charge', toLedger: 'revenue' };
        await writeEntries(
          tx,
          payments.map(({ ledger, grantId, amountMicros }) => ({
            ...common,
            fromLedger: ledger,
            grantId,
            amountMicros: Number(amountMicros),
          })),
        );
        await saveWallets(tx, before, [{ ...wallet, purse }]);
        return 1;
      });
    const most = Math.floor((seeded.micros * 1.1 + 50_000) / Number(amount));
    const wanted = Math.max(SPENDS, 400);
    const charging = chargingAt(other, START_MS + MINUTE_MS);
    const paid = await Promise.all([
      ...Array.from({ length: wanted }, (_, at) => pay(at % 2 === 0 ? store : other)),
      charging.charge().then(() => 0),
    ]);
    const wrong = await wrongBooks(store);
    expect(wrong.filter((text) => !text.includes('events tell'))).toEqual([]);
    const [account] = (await booksOf(store)).accounts;
    expect(account?.balanceMicros).toBeGreaterThanOrEqual(-50_000);
    expect(account?.balanceMicros).toBeLessThan(-50_000 + Number(amount));
    const count = paid.reduce<number>((sum, one) => sum + one, 0);
    expect(count).toBeLessThanOrEqual(most);
    expect(count).toBeGreaterThan(most - 20);
  });
});
