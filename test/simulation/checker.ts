/**
 * Checks the database after each commit, through a connection of its own. Reads only changed
 * tables.
 */
import { DatabaseSync } from 'node:sqlite';
import { transitions, type InstanceStatus } from '../../src/domain/compute/instance-states.ts';
import { instanceFromRow, type InstanceRow } from '../../src/store/tables/instances.ts';
import { SqliteConnection } from '../../src/store/db/sqlite-kysely.ts';
import type { SnapshotRow } from '../../src/store/tables/snapshots.ts';
import type { VolumeRow } from '../../src/store/tables/volumes.ts';
import { Books, type SeenTimes } from './books.ts';
import {
  ownersOfChanges,
  supersededEntries,
  unjustifiedStop,
  wrongPlaces,
  wrongQueue,
  type OpenRegion,
} from './fairness.ts';
import {
  overbooked,
  wrongActs,
  wrongCounts,
  wrongDisks,
  wrongPools,
  wrongPorts,
  wrongSnapshotText,
  wrongText,
  wrongTotals,
  wrongUsage,
  wrongVolumeText,
  type AccountCounts,
  type ActRow,
  type DiskRow,
  type PoolRow,
  type StoredInstance,
  type PortRow,
} from './invariants.ts';
import type { GpuCounts } from '../../src/domain/regions/catalog.ts';
import type { Model } from './model.ts';
import { MoneyBooks, type Dates } from './money-books.ts';
import { nameOf } from './storage.ts';
import { regions } from './template.ts';

interface RegionRow extends OpenRegion {
  cpuMilliUsed: number;
  memoryMiBUsed: number;
  gpusUsed: string;
  nodePortsUsed: number;
  cpuMilliTotal: number;
  memoryMiBTotal: number;
  gpusTotal: string;
  nodePortsTotal: number;
}

interface AccountRow extends AccountCounts {
  usage: string;
  eventSeq: number;
  version: number;
}

const ofResources = [
  'instance',
  'volume',
  'snapshot',
  'disk',
  'pool',
  'account',
  'event',
  'nodePort',
  'region',
  'dueAct',
];
const ofBooks = ['usagePeriod', 'entry', 'creditGrant', 'instanceType', 'paidTime'];

export const LISTED_FOR_MS = 3_600_000;

/** Allows one event, or two at once for a missing image: Starting, then failed permanently. */
const moves = (from: InstanceStatus, to: InstanceStatus): boolean =>
  from === to ||
  Object.values(transitions[from]).includes(to) ||
  (to === 'StartingFailed' && transitions[from].imageFails === 'Starting');

export class Checker {
  readonly #model: Model;
  #database: DatabaseSync | null = null;
  #connection: SqliteConnection | null = null;
  #writer: SqliteConnection | null = null;
  instances = new Map<string, StoredInstance>();
  volumes = new Map<string, VolumeRow>();
  snapshots = new Map<string, SnapshotRow>();
  /** Source of each copied disk, deleted ones included. */
  readonly #copyOf = new Map<string, string>();
  #accounts: AccountRow[] = [];
  #regions: RegionRow[] = [];
  #lastEvent = 0;
  readonly #seq = new Map<string, number>();
  readonly dirty = new Set<string>();
  readonly #books = new Books();
  readonly money = new MoneyBooks();
  readonly #times: () => SeenTimes;
  /** Statuses in the open transaction, and at the last commit. */
  #statuses = new Map<string, InstanceStatus>();
  #pending: Map<string, InstanceStatus> | null = null;

  constructor(model: Model, times: () => SeenTimes) {
    this.#model = model;
    this.#times = times;
  }

  /** Reads everything again after a restart. Earlier events must be unchanged; more may follow. */
  open(file: string): string[] {
    this.close();
    this.#database = new DatabaseSync(file, { readOnly: true });
    this.#connection = new SqliteConnection(this.#database);
    for (const table of [...ofResources, ...ofBooks]) this.dirty.add(table);
    this.#books.forget();
    this.#pending = null;
    const wrong = this.#read();
    this.#statuses = new Map([...this.instances].map(([id, { instance }]) => [id, instance.observed.status]));
    return wrong;
  }

  close(): void {
    this.#database?.close();
    this.#database = this.#connection = null;
  }

  rows<Row>(sql: string, ...given: unknown[]): Row[] {
    if (!this.#connection) throw new Error('no database is open');
    return this.#connection.run<Row>(sql, given).rows;
  }

  /** Follows copies back to the disk that was created empty. */
  originOf(disk: string): string {
    const from = this.#copyOf.get(disk);
    return from === undefined ? disk : this.originOf(from);
  }

  /** Copies of the disk in progress. */
  copiesOf(from: { kind: string; id: string }): string[] {
    const copies = [...this.volumes.values()].filter(
      ({ id, status }) => status === 'Pending' && this.#copyOf.get(`volume/${id}`) === `${from.kind}/${from.id}`,
    );
    const snapshots = [...this.snapshots.values()].filter(
      ({ volumeId, status }) => status === 'Pending' && from.kind === 'volume' && volumeId === from.id,
    );
    return [...copies, ...snapshots].map(({ id }) => id);
  }

  /**
   * Called inside the transaction, after each operation: every status change is one legal
   * transition.
   */
  released(writer: DatabaseSync): string[] {
    if (!this.dirty.has('instance')) return [];
    const wrong: string[] = [];
    const before = this.#pending ?? this.#statuses;
    const now = new Map<string, InstanceStatus>();
    for (const { id, status } of this.#writing(writer).run<InstanceRow>('select id, status from instance', []).rows) {
      const to = isStatus(status) ? status : null;
      const from = before.get(id);
      if (to === null) wrong.push(`${id} has the status ${status}`);
      else {
        if (from === undefined && to !== 'Initializing' && !this.#isAdopted(writer, id))
          wrong.push(`${id} began as ${to}`);
        if (from !== undefined && !moves(from, to)) wrong.push(`${id} went from ${from} to ${to}`);
        now.set(id, to);
      }
    }
    for (const id of before.keys()) if (!now.has(id)) wrong.push(`${id} was forgotten`);
    this.#pending = now;
    return wrong;
  }

  /** An adopted instance starts in the state that the engine reports. */
  #isAdopted(writer: DatabaseSync, id: string): boolean {
    const sql = 'select operation from instance where id = ?';
    return this.#writing(writer)
      .run<{ operation: string }>(sql, [id])
      .rows.some(({ operation }) => {
        const { cause }: { cause: string } = JSON.parse(operation);
        return cause === 'operator';
      });
  }

  /** Writing connection of the current server, the only one that sees uncommitted rows. */
  #writing(writer: DatabaseSync): SqliteConnection {
    if (this.#writer?.database !== writer) this.#writer = new SqliteConnection(writer);
    return this.#writer;
  }

  rolledBack(): void {
    this.#pending = null;
  }

  committed(latestDateMs: number, dates: Dates): string[] {
    if (this.#pending) this.#statuses = this.#pending;
    this.#pending = null;
    const wrong = this.#read(dates);
    return [
      ...wrong,
      ...this.#model.wrong(this.instances, latestDateMs, LISTED_FOR_MS),
      ...this.#model.wrongDisks(this.volumes, this.snapshots),
    ];
  }

  /**
   * Without a date, after a restart, nothing is compared with a commit before. One transaction:
   * each statement of its own would lock the file twice.
   */
  #read(dates: Dates | null = null): string[] {
    this.#database?.exec('begin');
    try {
      return this.#compare(dates);
    } finally {
      this.#database?.exec('commit');
    }
  }

  #compare(dates: Dates | null): string[] {
    const { dirty } = this;
    const wrong: string[] = [];
    const before = {
      instances: this.instances,
      volumes: this.volumes,
      snapshots: this.snapshots,
      accounts: this.#accounts,
    };
    if (dirty.has('instance')) wrong.push(...this.#readInstances());
    if (dirty.has('volume')) {
      const rows = this.rows<VolumeRow>('select * from volume');
      for (const row of rows)
        if (this.volumes.get(row.id)?.publicText !== row.publicText) wrong.push(...wrongVolumeText(row));
      this.volumes = new Map(rows.map((row) => [row.id, row]));
      for (const { id, source } of rows)
        if (source !== null) this.#copyOf.set(`volume/${id}`, nameOf(JSON.parse(source)));
    }
    if (dirty.has('snapshot')) {
      const rows = this.rows<SnapshotRow>('select * from snapshot');
      for (const row of rows)
        if (this.snapshots.get(row.id)?.publicText !== row.publicText) wrong.push(...wrongSnapshotText(row));
      this.snapshots = new Map(rows.map((row) => [row.id, row]));
      for (const { id, volumeId } of rows) this.#copyOf.set(`snapshot/${id}`, `volume/${volumeId}`);
    }
    if (dirty.has('disk') || dirty.has('pool') || dirty.has('volume') || dirty.has('snapshot')) {
      const disks = this.rows<DiskRow>('select id, regionId, pool, sizeGB, promisedGB, bestEffortGB from disk');
      wrong.push(...wrongPools(this.rows<PoolRow>('select id, usedGB, bestEffortGB, limitGB from pool'), disks));
      wrong.push(...wrongDisks(disks, [...this.volumes.values()], [...this.snapshots.values()]));
    }
    if (dirty.has('account'))
      this.#accounts = this.rows<AccountRow>(
        'select id, eventSeq, version, instanceCount, volumeCount, usage from account',
      );
    const all = [...this.instances.values()];
    if (dirty.has('instance') || dirty.has('region')) {
      const rows = this.rows<RegionRow>('select * from region');
      const regions = rows.map(countsOf);
      wrong.push(...wrongCounts(regions, all), ...overbooked(regions));
      wrong.push(...supersededEntries(before.instances, all, regions), ...wrongQueue(all));
      if (dates) wrong.push(...wrongPlaces(before.instances, all, [this.#regions, rows]));
      this.#regions = rows;
    }
    if (dirty.has('instance') || dirty.has('dueAct'))
      wrong.push(...wrongActs(this.rows<ActRow>('select * from dueAct'), all));
    if (dirty.has('instance') || dirty.has('nodePort'))
      wrong.push(...wrongPorts(this.rows<PortRow>('select regionId, nodePort, instanceId, port from nodePort'), all));
    if (dirty.has('instance') || dirty.has('volume') || dirty.has('snapshot') || dirty.has('account')) {
      const rows = all.map(({ row }) => row);
      wrong.push(...wrongTotals(this.#accounts, rows, [...this.volumes.values()]));
      wrong.push(...wrongUsage(this.#accounts, all, [...this.volumes.values()], [...this.snapshots.values()]));
      const changed = [
        ...ownersOfChanges(
          [...before.instances.values()].map(({ row }) => row),
          rows,
        ),
        ...ownersOfChanges([...before.volumes.values()], [...this.volumes.values()]),
        ...ownersOfChanges([...before.snapshots.values()], [...this.snapshots.values()]),
      ];
      wrong.push(...this.#unmovedVersions(before.accounts, changed));
    }
    if (dirty.has('event') || dirty.has('account')) wrong.push(...this.#readEvents());
    const resources = { instances: this.instances, volumes: this.volumes, snapshots: this.snapshots };
    wrong.push(...this.#books.wrong((sql, ...given) => this.rows(sql, ...given), dirty, resources, this.#times()));
    const change = { ...this.#times(), dirty, before: before.instances, after: this.instances };
    wrong.push(...this.money.wrong((sql, ...given) => this.rows(sql, ...given), { ...change, dates }));
    dirty.clear();
    return wrong;
  }

  #readInstances(): string[] {
    const wrong: string[] = [];
    const next = new Map<string, StoredInstance>();
    for (const row of this.rows<InstanceRow>('select * from instance')) {
      const before = this.instances.get(row.id);
      const same = before !== undefined && isSame(before.row, row);
      const stored = { row, instance: same ? before.instance : instanceFromRow(row) };
      if (!same)
        wrong.push(
          ...wrongText(
            stored,
            regions.find(({ id }) => id === row.regionId),
          ),
        );
      if (before && row.generation < before.row.generation) wrong.push(`the generation of ${row.id} went back`);
      if (before?.instance.desired === 'released' && row.desired !== 'released')
        wrong.push(`${row.id} was released, and its desired state is ${row.desired}`);
      if (before) wrong.push(...unjustifiedStop(before, stored));
      next.set(row.id, stored);
    }
    this.instances = next;
    return wrong;
  }

  /** Clients reload a list only when the version of the account changes. */
  #unmovedVersions(before: readonly AccountRow[], changed: readonly string[]): string[] {
    return before
      .filter(({ id, version }) => {
        const now = this.#accounts.find((account) => account.id === id);
        return changed.includes(id) && now?.version === version;
      })
      .map(({ id }) => `something that ${id} lists has changed, and its version has not`);
  }

  /** Event numbers increase by one and never change. */
  #readEvents(): string[] {
    const wrong: string[] = [];
    const fresh = this.rows<{ id: number; accountId: string; seq: number }>(
      'select id, accountId, seq from event where id > ? order by id',
      this.#lastEvent,
    );
    for (const { id, accountId, seq } of fresh) {
      const last = this.#seq.get(accountId) ?? 0;
      if (seq !== last + 1) wrong.push(`event ${seq} of ${accountId} follows on event ${last}`);
      this.#seq.set(accountId, seq);
      this.#lastEvent = id;
    }
    for (const { id, eventSeq } of this.#accounts) {
      if (eventSeq !== (this.#seq.get(id) ?? 0))
        wrong.push(`${id} counts ${eventSeq} events, there are ${this.#seq.get(id) ?? 0}`);
    }
    return wrong;
  }
}

/** Ignores leases and due times. */
const isSame = (one: InstanceRow, other: InstanceRow): boolean =>
  one.publicText === other.publicText &&
  one.observed === other.observed &&
  one.operation === other.operation &&
  one.archive === other.archive &&
  one.nodePorts === other.nodePorts &&
  one.stopPolicy === other.stopPolicy &&
  one.desired === other.desired &&
  one.generation === other.generation &&
  one.revision === other.revision &&
  one.notBeforeMs === other.notBeforeMs &&
  one.waitsSinceMs === other.waitsSinceMs &&
  one.mustHalt === other.mustHalt;

const isStatus = (text: string): text is InstanceStatus => text in transitions;

const gpusIn = (text: string): GpuCounts => JSON.parse(text) as GpuCounts;

const countsOf = (row: RegionRow) => ({
  id: row.id,
  used: {
    cpuMilli: row.cpuMilliUsed,
    memoryMiB: row.memoryMiBUsed,
    gpus: gpusIn(row.gpusUsed),
    nodePorts: row.nodePortsUsed,
  },
  total: {
    cpuMilli: row.cpuMilliTotal,
    memoryMiB: row.memoryMiBTotal,
    gpus: gpusIn(row.gpusTotal),
    nodePorts: row.nodePortsTotal,
  },
});
