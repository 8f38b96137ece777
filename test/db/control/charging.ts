/** Charging without control: accounts with volumes, and the task with a clock that a test moves. */
import { makeChargeUsage } from '../../../src/control/money/charge-usage.ts';
import { makeMetering } from '../../../src/control/money/metering.ts';
import { regionId } from '../../../src/domain/kernel/ids.ts';
import { STORAGE_UNIT_MS } from '../../../src/domain/money/meter.ts';
import type { Store } from '../../../src/store/store.ts';
import { insertGrant, plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import { insertPeriod } from '../../../src/store/tables/usage-periods.ts';
import { accountRow } from '../store/rows.ts';

const ignore = () => {};
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore };

/** The task of one process, whose clock starts at `nowMs`. */
export function chargingAt(store: Store, nowMs: number) {
  const clock = { nowMs };
  const never = () => () => {};
  const time = {
    now: () => clock.nowMs,
    elapsed: () => clock.nowMs,
    sleep: async () => {},
    deadline: () => new AbortController().signal,
    after: never,
    every: never,
  };
  const region = { regionId: regionId('here'), health: { probe: null, answers: true, text: '' } };
  const regions = { all: () => [region], of: () => region };
  const metering = makeMetering({ time, regions, isBilled: true });
  return { clock, metering, charge: makeChargeUsage({ store, regions, metering, log: silent, time }) };
}

export interface Seeded {
  accounts: number;
  periods: number;
  atMs: number;
  micros: number;
}

/** Accounts with cash and a credit each, and volumes whose periods are open since `atMs`. */
export async function seedVolumes(store: Store, { accounts, periods, atMs, micros }: Seeded): Promise<void> {
  await store.write(async (tx) => {
    for (let at = 0; at < accounts; at++) {
      const accountId = `account-${at}`;
      const given = Math.floor(micros / 10);
      const row = accountRow({ id: accountId, balanceMicros: micros, creditMicros: given });
      await tx.insertInto('account').values(row).execute();
      const deposit = { kind: 'deposit', fromLedger: 'deposits', toLedger: 'cash', amountMicros: micros };
      const credit = { kind: 'credit', fromLedger: 'grants', toLedger: 'credit', amountMicros: given };
      const common = { ...plainEntry, accountId, atMs };
      await writeEntries(tx, [
        { ...common, ...deposit },
        { ...common, ...credit, grantId: `credit-${at}` },
      ]);
      await insertGrant(tx, {
        id: `credit-${at}`,
        accountId,
        kind: 'credit',
        amountMicros: given,
        leftMicros: given,
        expiresAtMs: null,
        scope: '{}',
        reason: '',
        createdAtMs: atMs,
      });
    }
    for (let at = 0; at < periods; at++)
      await insertPeriod(tx, {
        accountId: `account-${at % accounts}`,
        subjectId: `volume-${at}`,
        subjectName: '',
        meter: 'volume',
        state: 'charged',
        regionId: 'here',
        typeId: '',
        priceMicros: 100_000_007 + at,
        quantity: 13,
        unitMs: STORAGE_UNIT_MS,
        openedAtMs: atMs,
        closedAtMs: null,
        openSeq: 1,
        closeSeq: null,
        chargedUntilMs: atMs,
        carry: 0,
        isCharging: 1,
      });
  });
}
