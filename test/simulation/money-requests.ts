/** Requests about money: credits, prices, windows, budgets, and how a launch is charged. */
import type { Caller, Control } from '../../src/control/index.ts';
import type { LaunchInput } from '../../src/control/compute/instances/instances.ts';
import {
  chargeModes,
  defaultStoragePrices,
  mapPrices,
  mapStoragePrices,
  toDollars,
} from '../../src/domain/regions/catalog.ts';
import { weekdays } from '../../src/domain/regions/off-peak.ts';
import { pricesOf } from '../../src/main/first-run.ts';
import { MINUTE, wallOf, zones } from '../oracle/zones.ts';
import { sendRequest, type Request } from './client.ts';
import { administrator, callers, typesOf } from './template.ts';
import type { World } from './world.ts';

const request = (caller: Caller, text: string, send: (control: Control) => Promise<unknown>): Request => ({
  text,
  caller,
  key: null,
  send,
  sent: () => {},
  answered: () => {},
  refused: () => {},
});

export interface ChargeChoice {
  billing: LaunchInput['billing'];
  isSpot: boolean;
}

export function drawCharge({ schedule }: World): ChargeChoice {
  const isSpot = schedule.chance(0.3);
  const chargeMode = isSpot ? schedule.oneOf(['perHour', 'tidePerHour'] as const) : schedule.oneOf(chargeModes);
  const isByHour = chargeMode === 'perHour' || chargeMode === 'tidePerHour';
  const option = schedule.chance(0.5);
  return {
    isSpot,
    billing: {
      chargeMode,
      duration: isByHour ? 1 : schedule.between(1, 3),
      ...(isByHour ? { resume: option && (isSpot || chargeMode === 'tidePerHour') } : { autoRenew: option }),
    },
  };
}

function credit(caller: Caller, amount: number, more: { expiresAt?: number; kind?: 'voucher' | 'credit' }) {
  const input = { username: caller.username, amount, kind: more.kind ?? 'cash', reason: 'simulated', ...more } as const;
  return request(administrator, `give $${amount} of ${input.kind} to ${caller.username}`, (control) =>
    control.credits.give(administrator, input, null),
  );
}

function drawCredit({ schedule, wallClock }: World, caller: Caller): Request {
  const amount = schedule.oneOf([0.02, 0.2, 3, 20, 60]);
  const kind = schedule.oneOf(['cash', 'cash', 'voucher', 'credit'] as const);
  if (kind === 'cash') return credit(caller, amount, {});
  return credit(caller, amount, { kind, expiresAt: wallClock.now() + schedule.spread(MINUTE, 40 * MINUTE) });
}

/** Takes back a deposit, a voucher or a credit; at first the larger deposit. */
function takeBack({ checker, schedule }: World, caller: Caller): Request {
  const isFirst = schedule.chance(0.4);
  const share = schedule.random();
  return request(administrator, `take back from ${caller.username}`, (control) => {
    const given = checker.rows<{ id: number }>(
      `select id from entry where accountId = ? and fromLedger in ('deposits', 'grants')
        and id not in (select reversesId from entry where reversesId is not null) order by amountMicros desc`,
      caller.accountId,
    );
    const entry = given[isFirst ? 0 : Math.floor(share * given.length)];
    return control.credits.reverse(administrator, { entryId: String(entry?.id), reason: 'simulated' }, null);
  });
}

/** Leaves the accounts little money, or vouchers that end soon. */
export function impoverish(world: World): void {
  const { schedule } = world;
  for (const caller of callers)
    for (const draw of [takeBack, takeBack, drawCredit])
      if (schedule.chance(0.8))
        schedule.later(schedule.spread(200, 30_000), () => sendRequest(world, draw(world, caller)));
}

/** Only raised: a lowered overdraft leaves a balance below its floor. */
const raiseOverdraft = ({ checker }: World, caller: Caller): Request =>
  request(administrator, `raise the overdraft of ${caller.username}`, (control) => {
    const sql = 'select overdraftMicros from account where id = ?';
    const [row] = checker.rows<{ overdraftMicros: number }>(sql, caller.accountId);
    const overdraft = (row?.overdraftMicros ?? 0) / 1e6 + 0.05;
    return control.credits.setOverdraft(administrator, { username: caller.username, overdraft }, null);
  });

function changePrices(world: World): Request {
  const { schedule, checker } = world;
  const { region } = world.anyRegion();
  const { id } = schedule.oneOf([...typesOf(region), ...typesOf(region, true)]);
  const prices = mapPrices(pricesOf(schedule.spread(1, 600) / 100), toDollars);
  return request(administrator, `price of ${id}: ${prices.perHour}`, (control) => {
    const [row] = checker.rows<{ version: number }>('select version from instanceType where id = ?', id);
    const change = { instanceTypeId: id, version: row?.version ?? 1, dryRun: false, prices };
    return control.offeredTypes.update(administrator, change, null);
  });
}

function changeRegion(world: World, fields: Partial<Parameters<Control['regionAdministration']['update']>[1]>) {
  const { region } = world.anyRegion();
  return request(administrator, `change region ${region.name}: ${JSON.stringify(fields)}`, (control) => {
    const [row] = world.checker.rows<{ version: number }>('select version from region where id = ?', region.id);
    const change = { ...fields, regionId: region.id, version: row?.version ?? 1, dryRun: false };
    return control.regionAdministration.update(administrator, change, null);
  });
}

const clock = (minute: number): string => {
  const ofDay = ((minute % 1_440) + 1_440) % 1_440;
  return `${String(Math.floor(ofDay / 60)).padStart(2, '0')}:${String(ofDay % 60).padStart(2, '0')}`;
};

/** Windows whose edges are minutes away. */
function changeWindows(world: World): Request {
  const { schedule, wallClock } = world;
  const timeZone = schedule.oneOf(zones);
  if (schedule.chance(0.1)) return changeRegion(world, { offPeak: { timeZone, windows: [] } });
  let minute = Math.floor(wallOf(timeZone, wallClock.now()).ms / MINUTE) + schedule.between(-15, 5);
  const windows = Array.from({ length: schedule.between(1, 2) }, () => {
    const start = minute + schedule.between(1, 8);
    minute = start + schedule.between(2, 20);
    return { days: [...weekdays], start: clock(start), end: clock(minute) };
  });
  return changeRegion(world, { offPeak: { timeZone, windows } });
}

function changeStoragePrices(world: World): Request {
  const dollars = world.schedule.spread(1, 90_000) / 100;
  return changeRegion(world, { storagePrices: mapStoragePrices(defaultStoragePrices, () => dollars) });
}

function changeBudget({ schedule }: World, caller: Caller): Request {
  if (schedule.chance(0.3))
    return request(caller, 'delete the budget', (control) => control.budgets.delete(caller, { name: 'b' }, null));
  const hard = schedule.oneOf([0.001, 0.01, 1, 40]);
  return request(caller, `set a budget of ${hard}`, (control) =>
    control.budgets.set(caller, { name: 'b', hard }, null),
  );
}

function setBilling({ schedule, model }: World, caller: Caller): Request | null {
  const own = [...model.instances].filter(([, { ownerId }]) => ownerId === caller.accountId);
  if (own.length === 0) return null;
  const [instanceId] = schedule.oneOf(own);
  const option = schedule.oneOf(['autoRenew', 'resume'] as const);
  const input = { instanceId, [option]: schedule.chance(0.5) };
  return request(caller, `set ${JSON.stringify(input)}`, (control) =>
    control.instances.setBilling(caller, input, null),
  );
}

type Draw = (world: World, caller: Caller) => Request | null;
const kinds: readonly Draw[] = [
  drawCredit,
  drawCredit,
  takeBack,
  takeBack,
  takeBack,
  raiseOverdraft,
  changePrices,
  changePrices,
  changeWindows,
  changeStoragePrices,
  changeBudget,
  setBilling,
  setBilling,
];

export function drawMoneyRequest(world: World): Request | null {
  const { schedule } = world;
  return schedule.oneOf(kinds)(world, schedule.oneOf(callers));
}

/** What a launch by the hour needs: money, and no budget. */
export const supply = (caller: Caller): Request[] => [
  credit(caller, 1_000, {}),
  request(caller, 'delete the budget', async (control) => {
    const { budgets } = await control.budgets.list(caller);
    for (const { name } of budgets) await control.budgets.delete(caller, { name }, null);
  }),
];
