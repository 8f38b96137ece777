/**
 * Model of the clients: every acknowledged request must stay in the database. A request without an
 * answer may have been executed; the next server run shows which.
 */
import type { StoredInstance } from './invariants.ts';

type DesiredState = StoredInstance['instance']['desired'];

type DiskRows = ReadonlyMap<string, { ownerId: string; status: string }>;

interface KnownInstance {
  ownerId: string;
  acknowledged: DesiredState;
  /** Desired states sent but not answered. */
  maybe: DesiredState[];
}

export interface KnownDisk {
  ownerId: string;
  there: boolean;
  maybeDeleted: boolean;
}

/** A reconcile may fail permanently, and reports why. */
const failedPermanently = ({ row, instance }: StoredInstance): boolean =>
  row.status === 'StartingFailed' ||
  row.status === 'InitializationFailed' ||
  endedByItself.has(instance.operation.cause);
const archiveFailed = ({ instance: { operation } }: StoredInstance): boolean =>
  operation.kind === 'archive' && operation.state === 'Failed';
const endedByItself = new Set<string>([
  'ScheduledStop',
  'MaxRunTime',
  'IdleStop',
  'PaidTimeEnded',
  'OffPeakEnded',
  'SpotReclaimed',
  'NoMoney',
  'BudgetReached',
  // A drain that stops what runs.
  'operator',
]);
const archivedForMoney = ({ instance: { operation, desired } }: StoredInstance): boolean =>
  desired === 'archived' && operation.cause === 'NoMoney';

export class Model {
  readonly instances = new Map<string, KnownInstance>();
  readonly volumes = new Map<string, KnownDisk>();
  readonly snapshots = new Map<string, KnownDisk>();
  /** Outcome of launches by name. Each is sent once, or with one key. */
  readonly launches = new Map<string, 'sent' | 'refused'>();
  readonly #answers = new Map<string, string>();

  requested(id: string, desire: DesiredState): void {
    this.instances.get(id)?.maybe.push(desire);
  }

  refused(id: string, desire: DesiredState): void {
    const known = this.instances.get(id);
    const at = known?.maybe.indexOf(desire) ?? -1;
    if (at >= 0) known?.maybe.splice(at, 1);
  }

  acknowledged(id: string, desire: DesiredState): void {
    this.refused(id, desire);
    const known = this.instances.get(id);
    // A released instance has no other desired state; a stored answer may arrive late.
    if (known && known.acknowledged !== 'released') known.acknowledged = desire;
  }

  /** Idempotency: the same key always gets the same answer. */
  answered(key: string | null, answer: unknown): string[] {
    if (key === null) return [];
    const text = JSON.stringify(answer) ?? 'nothing';
    const first = this.#answers.get(key) ?? text;
    this.#answers.set(key, first);
    return first === text ? [] : [`the key ${key} was answered with ${first}, and then with ${text}`];
  }

  wasAnswered(key: string | null): boolean {
    return key !== null && this.#answers.has(key);
  }

  wrong(all: ReadonlyMap<string, StoredInstance>, latestDateMs: number, listedForMs: number): string[] {
    const wrong: string[] = [];
    for (const [id, known] of this.instances) {
      const stored = all.get(id);
      if (!stored) {
        wrong.push(`${id} was acknowledged, and there is no such row`);
        continue;
      }
      const { row, instance } = stored;
      const may = [known.acknowledged, ...known.maybe];
      const asDesired = may.includes(instance.desired);
      const ended =
        instance.desired === 'stopped' &&
        ((may.includes('running') && failedPermanently(stored)) || (may.includes('archived') && archiveFailed(stored)));
      if (!asDesired && !ended && !archivedForMoney(stored))
        wrong.push(`the desired state of ${id} is ${instance.desired}, and acknowledged was ${may.join(' or ')}`);
      if (row.ownerId !== known.ownerId) wrong.push(`${id} is another's`);
      const seenLongEnough = row.releasedAtMs !== null && latestDateMs - row.releasedAtMs >= listedForMs;
      if (row.listed === 0 && !seenLongEnough) wrong.push(`${id} is not listed any more`);
    }
    const names = new Map<string, number>();
    for (const { instance } of all.values()) {
      const { name } = instance.spec;
      names.set(name, (names.get(name) ?? 0) + 1);
    }
    for (const [name, count] of names) {
      if (count > 1) wrong.push(`the launch ${name} made ${count} instances`);
      if (this.launches.get(name) === 'refused')
        wrong.push(`the launch ${name} was refused, and there is its instance`);
    }
    return wrong;
  }

  /** Records a volume or snapshot from an answer. */
  isThere(disks: 'volumes' | 'snapshots', id: string, ownerId: string): void {
    if (!this[disks].has(id)) this[disks].set(id, { ownerId, there: true, maybeDeleted: false });
  }

  wrongDisks(volumes: DiskRows, snapshots: DiskRows): string[] {
    const wrong = (what: string, all: ReadonlyMap<string, KnownDisk>, rows: DiskRows): string[] =>
      [...all].flatMap(([id, { there, maybeDeleted }]) => {
        const row = rows.get(id);
        const isActive = row !== undefined && row.status !== 'Terminating';
        if (there && !maybeDeleted && !isActive)
          return [`${what} ${id} was acknowledged, and it is ${row?.status ?? 'gone'}`];
        if (!there && isActive) return [`${what} ${id} was deleted, and it is ${row.status}`];
        return [];
      });
    return [...wrong('volume', this.volumes, volumes), ...wrong('snapshot', this.snapshots, snapshots)];
  }

  /**
   * After a restart no earlier request can still be executed: unanswered ones are resolved from the
   * rows. A stop that nobody requested resolves none: the instance may resume.
   */
  settle(all: ReadonlyMap<string, StoredInstance>, volumes: DiskRows, snapshots: DiskRows): void {
    for (const [id, known] of this.instances) {
      const stored = all.get(id);
      if (
        stored &&
        known.maybe.includes(stored.instance.desired) &&
        !endedByItself.has(stored.instance.operation.cause)
      )
        known.acknowledged = stored.instance.desired;
      known.maybe = [];
    }
    for (const [disks, rows] of [
      [this.volumes, volumes],
      [this.snapshots, snapshots],
    ] as const)
      for (const [id, known] of disks) {
        if (!known.maybeDeleted) continue;
        const row = rows.get(id);
        known.there = row !== undefined && row.status !== 'Terminating';
        known.maybeDeleted = false;
      }
    this.adopt(all, volumes, snapshots);
  }

  adopt(all: ReadonlyMap<string, StoredInstance>, volumes: DiskRows, snapshots: DiskRows): void {
    // A client without an answer finds the created object in its lists.
    for (const [id, { row, instance }] of all)
      if (!this.instances.has(id))
        this.instances.set(id, { ownerId: row.ownerId, acknowledged: instance.desired, maybe: [] });
    for (const [disks, rows] of [
      [this.volumes, volumes],
      [this.snapshots, snapshots],
    ] as const)
      for (const [id, { ownerId, status }] of rows)
        if (!disks.has(id)) disks.set(id, { ownerId, there: status !== 'Terminating', maybeDeleted: false });
  }
}
