/** Checks the books after each commit that changes them, by the periods that changed. */
import type { StoredInstance } from './invariants.ts';
import {
  ENTRY_SUMS,
  GRANT_SUMS,
  paidMs,
  wrongBalances,
  wrongPeriods,
  wrongRateOfDisk,
  wrongRateOfInstance,
  wrongRefunds,
  wrongReplay,
  type AccountMoney,
  type EntrySum,
  type GrantSum,
  type Period,
  type RateEvent,
} from './wrong-books.ts';

type Rows = <Row>(sql: string, ...given: unknown[]) => Row[];

export interface Resources {
  instances: ReadonlyMap<string, StoredInstance>;
  volumes: ReadonlyMap<string, { id: string; status: string; sizeGB: number }>;
  snapshots: ReadonlyMap<string, { id: string; status: string; sizeGB: number }>;
}

export interface SeenTimes {
  /** Time that really passed. */
  nowMs: number;
  /** Begin of the last sweep that the region's engine answered. */
  sweptAtMs: (regionId: string) => number;
  /** Clock steps that no server could see, because none ran. */
  unseenStepsMs: number;
  spotGraceMs: number;
}

/** Differences of the clocks that are not a step, and the way from a decision to its commit. */
const SLACK_MS = 5_000;

/** A container that runs for longer when it is seen costs from then on. */
const SEEN_LATE_MS = 60_000;

const hourly: readonly string[] = ['perHour', 'tidePerHour'];

export const stateOfInstance = ({ row, instance: { spec, desired, observed } }: StoredInstance) => ({
  id: row.id,
  desired,
  status: row.status,
  phase: observed.phase,
  isEnding: observed.ending !== null,
  isHourly: hourly.includes(spec.chargeMode),
  diskGB:
    spec.type.dataDiskGB + spec.extraDataDiskGB + (spec.enableDocker ? spec.dockerStorageGB || DOCKER_DISK_GB : 0),
});

/** Docker's disk of an instance that names no size. */
const DOCKER_DISK_GB = 20;

export class Books {
  readonly #open = new Map<string, Period>();
  /** True time at which the first period of an event was seen. */
  readonly #since = new Map<string, number>();
  #lastId = 0;

  /** The database may have lost its last commits. */
  forget(): void {
    this.#open.clear();
    this.#lastId = 0;
  }

  wrong(rows: Rows, dirty: ReadonlySet<string>, resources: Resources, times: SeenTimes): string[] {
    const wrong: string[] = [];
    if (dirty.has('entry') || dirty.has('creditGrant') || dirty.has('account'))
      wrong.push(...this.#wrongMoney(rows, dirty));
    if (dirty.has('usagePeriod')) wrong.push(...this.#wrongChanges(rows, times));
    const isChanged = ['usagePeriod', 'instance', 'volume', 'snapshot'].some((table) => dirty.has(table));
    if (isChanged) wrong.push(...this.#wrongRates(resources));
    return wrong;
  }

  #wrongMoney(rows: Rows, dirty: ReadonlySet<string>): string[] {
    if (!dirty.has('entry') && !dirty.has('creditGrant')) return [];
    const accounts = rows<AccountMoney>(
      'select id, balanceMicros, voucherMicros, creditMicros, overdraftMicros from account',
    );
    return wrongBalances(accounts, rows<EntrySum>(ENTRY_SUMS), rows<GrantSum>(GRANT_SUMS));
  }

  #wrongChanges(rows: Rows, times: SeenTimes): string[] {
    const fresh = rows<Period>('select * from usagePeriod where closedAtMs is null or id > ?', this.#lastId);
    const changed = new Set([...this.#open.keys(), ...fresh.map(({ subjectId }) => subjectId)]);
    const wrong: string[] = [];
    const before = new Map(this.#open);
    this.#open.clear();
    for (const period of fresh) {
      this.#lastId = Math.max(this.#lastId, period.id);
      if (period.closedAtMs === null) this.#open.set(period.subjectId, period);
    }
    for (const subjectId of changed) {
      const [was, is] = [before.get(subjectId), this.#open.get(subjectId)];
      if (was !== undefined && was.id === is?.id && was.chargedUntilMs === is.chargedUntilMs) continue;
      wrong.push(...this.#wrongSubject(rows, subjectId, times));
    }
    return wrong;
  }

  #wrongSubject(rows: Rows, subjectId: string, times: SeenTimes): string[] {
    const periods = rows<Period>('select * from usagePeriod where subjectId = ? order by id', subjectId);
    const sums = rows<{ periodId: number; kind: string; micros: number }>(
      `select periodId, kind, sum(amountMicros) as micros from entry where periodId in
        (select id from usagePeriod where subjectId = ?) group by periodId, kind`,
      subjectId,
    );
    const sumsOf = (wanted: string) =>
      new Map(sums.flatMap(({ periodId, kind, micros }) => (kind === wanted ? [[periodId, micros] as const] : [])));
    const events = rows<RateEvent>(
      'select accountId, subjectId, seq, kind, data from event where accountId = ? and subjectId = ? order by seq',
      periods[0]?.accountId,
      subjectId,
    );
    return [
      ...wrongPeriods(periods, sumsOf('charge')),
      ...wrongRefunds(events, periods, sumsOf('refund')),
      ...wrongReplay(events, periods),
      ...[...Map.groupBy(periods, ({ openSeq }) => openSeq).values()].flatMap((parts, at, all) =>
        this.#wrongTime(parts, this.#sinceOf(all[at - 1], times), times),
      ),
    ];
  }

  #sinceOf([period]: readonly Period[] = [], { nowMs }: SeenTimes): number {
    if (!period) return -Infinity;
    const key = `${period.subjectId} ${period.openSeq}`;
    const since = this.#since.get(key) ?? nowMs;
    this.#since.set(key, since);
    return since;
  }

  /**
   * Nobody pays for more time than has passed, nor for a run after the last look at it. `parts` are
   * the periods that one event opened: gaps and new labels split it. A run begins with its
   * container, which the server may see late, but not before the free time that came before.
   */
  #wrongTime(parts: readonly Period[], formerSince: number, times: SeenTimes): string[] {
    const { nowMs, sweptAtMs, unseenStepsMs } = times;
    const seen = this.#sinceOf(parts, times);
    const last = parts.findLast(({ state }) => state === 'charged');
    if (!last) return [];
    // Kept disks follow the run, whose end the server may see late.
    const earliest = { compute: seen - SEEN_LATE_MS, disks: -Infinity }[last.meter] ?? seen;
    const since = Math.max(formerSince, earliest);
    const isSwept = last.meter === 'compute' && last.closedAtMs === null;
    const most = (isSwept ? Math.max(sweptAtMs(last.regionId), since) : nowMs) - since + SLACK_MS + unseenStepsMs;
    const paid = parts.reduce((sum, part) => (part.state === 'charged' ? sum + paidMs(part) : sum), 0);
    return paid <= most
      ? []
      : [`the period ${last.id} of ${last.subjectId} is charged for ${paid} ms, of at most ${most}`];
  }

  #wrongRates({ instances, volumes, snapshots }: Resources): string[] {
    const periodsOf = (id: string): Period[] => [this.#open.get(id)].filter((one) => one !== undefined);
    return [
      ...[...instances.values()].flatMap((one) => wrongRateOfInstance(stateOfInstance(one), periodsOf(one.row.id))),
      ...[...volumes.values()].flatMap((one) => wrongRateOfDisk('volume', one, periodsOf(one.id))),
      ...[...snapshots.values()].flatMap((one) => wrongRateOfDisk('snapshot', one, periodsOf(one.id))),
    ];
  }
}
