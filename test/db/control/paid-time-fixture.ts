/** A world whose types are paid ahead, with an account that has 100 dollars, and its books. */
import { expect } from 'vitest';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { Caller } from '../../../src/control/index.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import type { InstanceType } from '../../../src/domain/regions/catalog.ts';
import { paidTimeOf } from '../../../src/store/tables/paid-times.ts';
import { replaceTypes } from '../../fixtures/catalog.ts';
import { hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import type { Store } from '../../../src/store/store.ts';
import { settled } from './consistency.ts';

export const ZONE = 'Europe/Berlin';
const TASKS_FASTER = 20;
export const DAY_MS = 86_400_000;
export const prices = {
  tidePerHour: 50_000n,
  perHour: 100_000n,
  perDay: 2_000_000n,
  perWeek: 12_000_000n,
  perMonth: 40_000_000n,
};
const dearer = { ...prices, perHour: 300_000n, perDay: 5_000_000n, perWeek: 30_000_000n, perMonth: 90_000_000n };

export async function openPaidWorld(open: () => Promise<Store>, options: WorldOptions = {}) {
  const clock = { aheadMs: 0 };
  const every = (ms: number, fn: () => void) => realTime.every(ms / TASKS_FASTER, fn);
  const world = await makeWorld(await open(), { clock, time: { every }, ...options });
  const { regionId } = world.drivers;
  const offPeak = { timeZone: ZONE, windows: [{ days: ['mon'], start: '22:00', end: '23:00' }] };
  await world.store.write((tx) =>
    tx
      .updateTable('region')
      .set({ offPeak: JSON.stringify(offPeak) })
      .where('id', '=', regionId)
      .execute(),
  );
  const [base] = world.types;
  const type = (name: string, over: Partial<InstanceType>) => {
    const { id: _id, regionId: _regionId, ...rest } = base as InstanceType;
    return { ...rest, cpuCores: 1, memoryGB: 1, name, pricesMicros: prices, ...over };
  };
  const [small, large, spot, free] = (await replaceTypes(world.store, regionId, [
    type('small', {}),
    type('large', { cpuCores: 2, pricesMicros: dearer }),
    type('spot', { isSpot: true }),
    type('free', { pricesMicros: { tidePerHour: 0n, perHour: 0n, perDay: 0n, perWeek: 0n, perMonth: 0n } }),
  ])) as [InstanceType, InstanceType, InstanceType, InstanceType];
  clock.aheadMs += 2_000;
  const ann = await world.account('ann', 100);
  const { instances, credits, access } = world.running.control;
  const launch = async (
    billing: LaunchInput['billing'],
    over: Partial<LaunchInput> = {},
    caller: Caller = ann,
  ): Promise<string> => {
    const input = world.launchInput({ instanceTypeId: small.id, billing, ...over });
    return (await instances.launch(caller, input, null)).instanceId;
  };
  return {
    world,
    clock,
    ann,
    types: { small, large, spot, free },
    instances,
    launch,
    nowMs: () => Date.now() + clock.aheadMs,
    paid: async (id: string) => (await paidTimeOf(world.store.read, id)) ?? null,
    give: (kind: 'cash' | 'voucher' | 'credit', amount: number, more: object = {}) =>
      credits.give(world.caller, { username: 'ann', amount, kind, reason: 'test', ...more }, null),
    balance: async () => {
      const { balance, availableVoucherAmount: voucher, availableCreditAmount: credit } = await access.balance(ann);
      return { cash: balance, voucher, credit };
    },
    async running(id: string): Promise<number> {
      await world.until(id, hasStatus('Running'));
      await settled(world);
      return (await paidTimeOf(world.store.read, id))?.endsAtMs ?? 0;
    },
    passTo(ms: number): void {
      clock.aheadMs = ms - Date.now();
    },
  };
}

export const entriesOf = async ({ store }: World, id: string) =>
  (await store.read.selectFrom('entry').selectAll().where('subjectId', '=', id).orderBy('id').execute()).filter(
    ({ kind }) => kind !== 'charge',
  );
export const moved = async (world: World, id: string) =>
  (await entriesOf(world, id)).map(
    ({ kind, fromLedger, toLedger, amountMicros }) => `${kind} ${fromLedger} ${toLedger} ${amountMicros / 1e6}`,
  );

export async function eventsOf({ store }: World, id: string, kind: string): Promise<Record<string, unknown>[]> {
  const events = await store.read
    .selectFrom('event')
    .select('data')
    .where('subjectId', '=', id)
    .where('kind', '=', kind)
    .orderBy('seq')
    .execute();
  return events.map(({ data }) => JSON.parse(data));
}

/** The columns of each account are the sums of its entries, and none is below its floor. */
export async function expectBalanced({ store }: World): Promise<void> {
  const entries = await store.read.selectFrom('entry').selectAll().execute();
  for (const account of await store.read.selectFrom('account').selectAll().execute()) {
    const own = entries.filter(({ accountId }) => accountId === account.id);
    const sum = (ledger: string): number =>
      own.reduce(
        (total, { fromLedger, toLedger, amountMicros }) =>
          total + (toLedger === ledger ? amountMicros : 0) - (fromLedger === ledger ? amountMicros : 0),
        0,
      );
    expect([sum('cash'), sum('voucher'), sum('credit')]).toEqual([
      account.balanceMicros,
      account.voucherMicros,
      account.creditMicros,
    ]);
    expect(account.balanceMicros).toBeGreaterThanOrEqual(-account.overdraftMicros);
    expect(own.every(({ amountMicros }) => amountMicros > 0)).toBe(true);
  }
}
