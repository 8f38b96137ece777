/**
 * The pure functions of billing, driven by the facts of a life as control drives them, with the
 * store's rows in memory.
 */
import { makeMeterClock } from '../../../src/control/money/meter-clock.ts';
import { bookUsage, endOf } from '../../../src/control/money/book-usage.ts';
import { makeSeenRuns } from '../../../src/control/money/seen-runs.ts';
import { lastFullMinute } from '../../../src/domain/money/charge.ts';
import type { Instance } from '../../../src/domain/compute/instance.ts';
import {
  isSameRate,
  rateOfInstance,
  rateOfSnapshot,
  rateOfVolume,
  type Rate,
} from '../../../src/domain/money/meter.ts';
import { creditKinds, type CreditGrant } from '../../../src/domain/money/purse.ts';
import { refundTo } from '../../../src/domain/money/refund.ts';
import { endingOf, runChange } from '../../../src/domain/compute/start-outcomes.ts';
import type { Snapshot } from '../../../src/domain/storage/snapshot.ts';
import type { Volume } from '../../../src/domain/storage/volume.ts';
import type { Wallet } from '../../../src/store/tables/ledger.ts';
import type { PeriodRow } from '../../../src/store/tables/usage-periods.ts';
import type { Fact } from '../../oracle/calculator.ts';
import { anInstance } from './instance-fixture.ts';

export const ACCOUNT = 'account';
export const REGION = 'region';

interface Move {
  fromLedger: string;
  toLedger: string;
  amountMicros: number;
  /** Subject and meter of metered use. */
  line?: string;
  periodId?: number;
  grantId?: string;
}

type Resource =
  { kind: 'instance'; row: Instance } | { kind: 'volume'; row: Volume } | { kind: 'snapshot'; row: Snapshot };

const rateOf = (resource: Resource): Rate | null => {
  if (resource.kind === 'instance') return rateOfInstance(resource.row);
  return resource.kind === 'volume' ? rateOfVolume(resource.row) : rateOfSnapshot(resource.row);
};

interface ChargedLife {
  periods: PeriodRow[];
  entries: Move[];
  wallet: Wallet;
}

/** Returns periods, entries and wallet after the facts. Launches are by the hour. */
export function chargeLife(
  facts: readonly Fact[],
  { origin, overdraft }: { origin: number; overdraft: number },
): ChargedLife {
  let at = 0;
  let steps = 0;
  let answers = true;
  const time = { now: () => origin + at + steps, elapsed: () => at };
  const clock = makeMeterClock(time);
  const runs = makeSeenRuns(clock, () => answers);
  runs.saw(REGION, clock.now());
  const prices = new Map<string, number>();
  const resources = new Map<string, Resource>();
  const periods: PeriodRow[] = [];
  const entries: Move[] = [];
  let wallet: Wallet = {
    accountId: ACCOUNT,
    purse: { cashMicros: 0n, floorMicros: -BigInt(overdraft), grants: [] },
  };
  let grantCount = 0;
  let seq = 0;

  function book(due: { period: PeriodRow; untilMs: number }[]): void {
    const booking = bookUsage(due, new Map([[ACCOUNT, wallet]]), time.now());
    for (const { periodId, fromLedger, grantId, amountMicros } of booking.entries) {
      const { subjectId, meter } = periods[periodId] as PeriodRow;
      const line = `${subjectId} ${meter}`;
      entries.push({ fromLedger, toLedger: 'revenue', amountMicros, line, periodId, grantId });
    }
    wallet = booking.wallets.get(ACCOUNT) ?? wallet;
    for (const { id, chargedUntilMs, chargedMicros, carry } of booking.charged)
      Object.assign(periods[id] as PeriodRow, { chargedUntilMs, chargedMicros, carry });
    for (const gap of booking.gaps) split(periods[gap.id] as PeriodRow, gap.nextAtMs);
  }

  /** As the store splits an open period. */
  function split(period: PeriodRow, nextAtMs: number): void {
    const next = { ...period, id: periods.length, openedAtMs: nextAtMs, chargedUntilMs: nextAtMs, chargedMicros: 0 };
    Object.assign(period, { closedAtMs: period.chargedUntilMs, isCharging: 0 });
    periods.push(next);
  }

  function close(period: PeriodRow, untilMs = Infinity): number {
    const nowMs = Math.min(clock.now(), untilMs - clock.stepMs());
    const { closedAtMs, nextAtMs } = endOf(period, { nowMs, isKnown: runs.isKnown(period) });
    if (period.isCharging === 1) book([{ period, untilMs: closedAtMs }]);
    Object.assign(period, { closedAtMs, isCharging: 0 });
    return nextAtMs;
  }

  /** As the ledger refunds a run. */
  function refund(runSeq: number, isDue: boolean): void {
    const isOfRun = ({ periodId }: Move) => periodId !== undefined && periods[periodId]?.openSeq === runSeq;
    for (const { fromLedger, grantId = '', amountMicros } of isDue ? entries.filter(isOfRun) : []) {
      entries.push({ fromLedger: 'revenue', toLedger: fromLedger, amountMicros });
      const ledger = creditKinds.find((kind) => kind === fromLedger);
      const payments = ledger ? [{ ledger, grantId, amountMicros: BigInt(amountMicros) }] : [];
      wallet = { ...wallet, purse: refundTo(wallet.purse, [], payments) };
    }
  }

  function change(id: string, resource: Resource): void {
    const before = resources.get(id);
    resources.set(id, resource);
    const [was, is] = [before ? rateOf(before) : null, rateOf(resource)];
    if (isSameRate(was, is)) return;
    const open = periods.find((one) => one.subjectId === id && one.closedAtMs === null);
    const run =
      before?.kind === 'instance' && resource.kind === 'instance'
        ? runChange(before.row, resource.row, clock.now())
        : {};
    const openedAtMs = open ? close(open, run.untilMs) : clock.now();
    seq += 1;
    if (open) refund(open.openSeq, run.refundFor !== undefined);
    if (is === null) return;
    const last = periods.findLast((one) => one.subjectId === id && one.meter === is.meter && one.state === 'charged');
    const kept = is.meter === 'volume' && last?.quantity === is.quantity ? last.priceMicros : undefined;
    const price = typeof is.price === 'bigint' ? Number(is.price) : (kept ?? prices.get(is.price) ?? 0);
    periods.push({
      id: periods.length,
      accountId: ACCOUNT,
      subjectId: id,
      subjectName: id,
      meter: is.meter,
      state: is.state,
      regionId: REGION,
      typeId: resource.kind === 'instance' ? resource.row.spec.type.id : '',
      priceMicros: price,
      quantity: is.quantity,
      unitMs: is.unitMs,
      openedAtMs,
      chargedUntilMs: openedAtMs,
      closedAtMs: null,
      openSeq: seq,
      closeSeq: null,
      chargedMicros: 0,
      carry: is.state === 'charged' ? (last?.carry ?? 0) : 0,
      isCharging: is.state === 'charged' && price > 0 ? 1 : 0,
      labels: null,
    });
  }

  function sweep(): void {
    const stepMs = clock.stepMs();
    if (stepMs !== 0) {
      for (const period of periods.filter(({ isCharging }) => isCharging === 1))
        split(period, period.chargedUntilMs + stepMs);
      clock.applyStep(stepMs);
    }
    if (!answers) runs.lost(REGION);
    const seenAtMs = runs.seenAtMs(REGION);
    const seenUntilMs = seenAtMs === null ? null : lastFullMinute(Math.min(seenAtMs, clock.now()));
    const untilOf = ({ meter }: PeriodRow) => (meter === 'compute' ? seenUntilMs : lastFullMinute(clock.now()));
    const isEnding = ({ subjectId }: PeriodRow): boolean => {
      const resource = resources.get(subjectId);
      return resource?.kind === 'instance' && resource.row.observed.ending !== null;
    };
    const due = periods.filter((period) => period.isCharging === 1 && !isEnding(period));
    const [compute = [], storage = []] = [true, false].map((is) =>
      due.filter(({ meter }) => (meter === 'compute') === is),
    );
    for (const period of [...compute, ...storage]) {
      const untilMs = untilOf(period);
      if (untilMs !== null) book([{ period, untilMs }]);
    }
  }

  function expire(): void {
    const { purse } = wallet;
    const isOver = ({ leftMicros, expiresAtMs }: CreditGrant) =>
      leftMicros > 0n && expiresAtMs !== null && expiresAtMs <= time.now();
    for (const { kind, leftMicros } of purse.grants.filter(isOver))
      entries.push({ fromLedger: kind, toLedger: 'expired', amountMicros: Number(leftMicros) });
    wallet = {
      ...wallet,
      purse: { ...purse, grants: purse.grants.map((one) => (isOver(one) ? { ...one, leftMicros: 0n } : one)) },
    };
  }

  function give(fact: Extract<Fact, { fact: 'give' }>): void {
    const { kind, amount, expiresAt, scope } = fact.given;
    const grant = {
      id: `g${++grantCount}`,
      kind,
      leftMicros: BigInt(amount),
      expiresAtMs: expiresAt ?? null,
      scope: {
        regionId: scope?.region,
        instanceTypeId: scope?.instanceType,
        meter: scope?.meter as CreditGrant['scope']['meter'],
      },
      createdAtMs: grantCount,
    };
    wallet = { ...wallet, purse: { ...wallet.purse, grants: [...wallet.purse.grants, grant] } };
    entries.push({ fromLedger: 'grants', toLedger: kind, amountMicros: amount });
  }

  const statusAfter = {
    container: 'Starting',
    running: 'Running',
    ended: 'Restarting',
    evicted: 'Starting',
    lost: 'Starting',
    start: 'Starting',
    stop: 'Stopping',
    restart: 'Restarting',
    halted: 'Stopped',
  } as const;

  function act(what: keyof typeof statusAfter | 'terminate', id: string): void {
    const resource = resources.get(id);
    if (resource?.kind !== 'instance') throw new Error(`no instance ${id}`);
    const { row } = resource;
    const desired = { stop: 'stopped', start: 'running', terminate: 'released' } as const;
    const status = what === 'terminate' ? 'Released' : statusAfter[what];
    const open = periods.find((one) => one.subjectId === id && one.closedAtMs === null);
    const isEnding = (what === 'stop' || what === 'restart') && open !== undefined && runs.isKnown(open);
    const next: Instance = {
      ...row,
      desired: what in desired ? desired[what as keyof typeof desired] : row.desired,
      observed: {
        ...row.observed,
        status: status as Instance['observed']['status'],
        phase: what === 'container' ? 'WaitReady' : 'Queued',
        diagnosis: what === 'evicted' ? 'Evicted' : what === 'lost' ? 'EngineUnreachable' : '',
        ending: isEnding ? endingOf(row, '', time.now()) : null,
      },
    };
    change(id, { kind: 'instance', row: next });
  }

  for (const fact of facts) {
    ({ at } = fact);
    switch (fact.fact) {
      case 'price':
        prices.set(fact.of, fact.price);
        break;
      case 'step':
        steps += fact.byMs;
        break;
      case 'deposit':
        wallet = { ...wallet, purse: { ...wallet.purse, cashMicros: wallet.purse.cashMicros + BigInt(fact.amount) } };
        entries.push({ fromLedger: 'deposits', toLedger: 'cash', amountMicros: fact.amount });
        break;
      case 'give':
        give(fact);
        break;
      case 'booked':
        expire();
        sweep();
        break;
      case 'away':
        answers = false;
        runs.lost(REGION);
        break;
      case 'answers':
        answers = true;
        break;
      case 'saw':
        runs.saw(REGION, clock.now());
        break;
      case 'launch': {
        const { spec, ...base } = anInstance();
        const type = {
          ...spec.type,
          id: (fact.scope?.instanceType ?? '') as typeof spec.type.id,
          dataDiskGB: fact.diskGB,
        };
        change(fact.id, {
          kind: 'instance',
          row: { ...base, spec: { ...spec, type }, priceMicros: BigInt(fact.hourly ?? 0) },
        });
        break;
      }
      case 'repriced': {
        const resource = resources.get(fact.id);
        if (resource?.kind === 'instance')
          change(fact.id, { ...resource, row: { ...resource.row, priceMicros: BigInt(fact.hourly) } });
        break;
      }
      case 'volume':
        change(fact.id, { kind: 'volume', row: { status: 'Pending', type: fact.of, sizeGB: fact.sizeGB } as Volume });
        break;
      case 'snapshot':
        change(fact.id, { kind: 'snapshot', row: { status: 'Pending', sizeGB: fact.sizeGB } as unknown as Snapshot });
        break;
      case 'expanded':
      case 'failed':
      case 'recovered':
      case 'deleted': {
        const resource = resources.get(fact.id);
        if (resource === undefined || resource.kind === 'instance') throw new Error(`no volume or snapshot ${fact.id}`);
        const status = { failed: 'Lost', recovered: 'Bound', deleted: 'Terminating', expanded: resource.row.status }[
          fact.fact
        ];
        const sizeGB = fact.fact === 'expanded' ? fact.sizeGB : resource.row.sizeGB;
        change(fact.id, { kind: resource.kind, row: { ...resource.row, status, sizeGB } } as Resource);
        break;
      }
      case 'renew':
      case 'rate':
        throw new Error('lives here are by the hour');
      default:
        act(fact.fact, fact.id);
    }
  }
  return { periods, entries, wallet };
}
