/**
 * Reconcile loop: leases due rows, passes each to its reconciler, and sleeps until the next is due
 * or a wake-up comes. A wake-up carries no data: timers, use cases and engine hints all lead to the
 * same query of due rows.
 *
 * A heartbeat extends the leases in hand (owner, token, expiry). When a request moves a leased
 * row's generation, the loop aborts its reconcile; the guard of its writes drops late results.
 * While the hold of the database is lost, another server may reconcile the same rows: the loop
 * aborts all.
 */
import { makeBackOff, type BackOff } from '../../async/retry.ts';
import type { Hold } from '../../store/db/database-lock.ts';
import type { LeaseRow, LeaseTable } from '../../store/db/leases.ts';
import { claimDue, makeAllDue, heartbeat, leasedGenerations, nextDueAt, releaseLease } from '../../store/db/leases.ts';
import type { TaskDeps } from './deps.ts';

const LEASE_MS = 30_000;
const HEARTBEAT_MS = 5_000;
const LONGEST_SLEEP_MS = 30_000;
/** More than a host has instances: pulls must not delay a terminate. A slot costs a few KB. */
const SLOTS = 4_096;
const CLAIM_PER_OWNER = 64;
const RETRY_AFTER_FAULT_MS = 5_000;
/** A row whose reconciles fail again and again is retried after 5, 10, 20 … s. */
const LONGEST_RETRY_MS = 60_000;
/** Largest share of time for checks of up to half a second: each reconcile asks for one. */
const CHECK_SHARE = 0.1;
/** Smaller corrections of the date delay nothing that matters. */
const SLACK_MS = 1_000;

/** A leased row. The signal aborts when the lease or its generation is gone. */
export interface LeasedRow<Row> {
  row: Row;
  leaseToken: string;
  signal: AbortSignal;
}

/** When to reconcile again; null: after the next change; 'gone': the row was deleted. */
export type ReconcileResult = { dueAtMs: number | null } | 'gone';

export interface ReconcileLoopDeps<Table extends LeaseTable> extends Pick<TaskDeps, 'store' | 'time' | 'log'> {
  hold: Hold;
  table: Table;
  leaseOwner: string;
  randomUuid: () => string;
  reconcile: (held: LeasedRow<LeaseRow<Table>>) => Promise<ReconcileResult>;
}

export interface ReconcileLoop {
  wake(): void;
  /** Aborts running reconciles, releases the leases, and resolves when none is left. */
  stop(): Promise<void>;
}

interface InHand {
  leaseToken: string;
  generation: number;
  abort: AbortController;
  done: Promise<void>;
}

export function startReconcileLoop<Table extends LeaseTable>(deps: ReconcileLoopDeps<Table>): ReconcileLoop {
  const { table, store, time, log, hold, leaseOwner } = deps;
  const { now } = time;
  const inHand = new Map<string, InHand>();
  /** By ID of rows whose last reconcile failed. */
  const backOffs = new Map<string, BackOff>();
  const stopping = new AbortController();
  let stopped = false;
  let woken = false;
  let running: Promise<void> | null = null;
  let cancelSleep = (): void => {};
  const superseded = makeSupersededCheck(deps, inHand);
  const checkDate = makeDateCheck(deps);

  const startReconcile = (row: LeaseRow<Table>, leaseToken: string): void => {
    const abort = new AbortController();
    // Still running here although the lease expired: this process was suspended.
    const before = inHand.get(row.id);
    before?.abort.abort();
    const done = Promise.resolve(before?.done)
      .then(() => reconcileAndRelease(deps, { row, leaseToken, signal: abort.signal }, backOffs, stopping.signal))
      .finally(() => {
        if (inHand.get(row.id) === mine) inHand.delete(row.id);
        wake();
      });
    const mine: InHand = { leaseToken, generation: row.generation, abort, done };
    inHand.set(row.id, mine);
  };

  const claimAll = async (): Promise<void> => {
    await checkDate();
    await superseded.abortAll();
    while (!stopped && inHand.size < SLOTS) {
      const leaseToken = deps.randomUuid();
      const limit = Math.min(64, SLOTS - inHand.size);
      const nowMs = now();
      const rows = await store.write((tx) =>
        claimDue(tx, table, {
          owner: leaseOwner,
          token: leaseToken,
          nowMs,
          untilMs: nowMs + LEASE_MS,
          limit,
          perOwner: CLAIM_PER_OWNER,
        }),
      );
      for (const row of rows) startReconcile(row, leaseToken);
      if (rows.length < limit) return;
    }
  };

  const sleep = async (): Promise<void> => {
    // All slots taken: the next finished reconcile wakes the loop.
    const dueAtMs = inHand.size < SLOTS ? await nextDueAt(store.read, table) : null;
    const dueMs = dueAtMs === null ? LONGEST_SLEEP_MS : dueAtMs - now();
    const waitMs = Math.min(LONGEST_SLEEP_MS, Math.max(5, Math.min(dueMs, superseded.nextCheckMs())));
    if (!stopped) cancelSleep = time.after(waitMs, wake);
  };

  const abortAll = (): void => {
    for (const { abort } of inHand.values()) abort.abort();
  };

  const run = async (): Promise<void> => {
    while (woken && !stopped) {
      woken = false;
      cancelSleep();
      try {
        if (!hold.isHeld()) return abortAll();
        await claimAll();
        if (!woken) await sleep();
      } catch (error) {
        log.error({ table, err: error }, 'the store did not answer the reconcile loop; Berth retries');
        if (!stopped) cancelSleep = time.after(RETRY_AFTER_FAULT_MS, wake);
      }
    }
  };

  const wake = (): void => {
    woken = true;
    if (stopped || running) return;
    running = run().finally(() => {
      running = null;
      if (woken && !stopped) wake();
    });
  };

  // One at a time: on PostgreSQL heartbeats deadlock each other, and many take all connections.
  let isBeating = false;
  const stopBeating = time.every(HEARTBEAT_MS, () => {
    if (inHand.size === 0 || isBeating) return;
    isBeating = true;
    const tokens = new Set([...inHand.values()].map(({ leaseToken }) => leaseToken));
    store
      .write((tx) => heartbeat(tx, table, { owner: leaseOwner, tokens, untilMs: now() + LEASE_MS }))
      .then(wake, (error: unknown) => log.warn({ table, err: error }, 'could not extend leases'))
      .finally(() => (isBeating = false));
  });
  hold.onChange(wake);
  wake();

  return {
    wake,
    async stop() {
      stopped = true;
      stopping.abort();
      cancelSleep();
      stopBeating();
      await running;
      abortAll();
      await Promise.all([...inHand.values()].map(({ done }) => done));
    },
  };
}

/** Passes the row to its reconciler, and releases the lease, with retries until the loop stops. */
async function reconcileAndRelease<Table extends LeaseTable>(
  deps: ReconcileLoopDeps<Table>,
  held: LeasedRow<LeaseRow<Table>>,
  backOffs: Map<string, BackOff>,
  stopping: AbortSignal,
): Promise<void> {
  const { table, store, time, log } = deps;
  const { now } = time;
  const { id } = held.row;
  let reconciled: ReconcileResult;
  try {
    reconciled = await deps.reconcile(held);
    backOffs.delete(id);
  } catch (error) {
    if (held.signal.aborted) reconciled = { dueAtMs: now() };
    else {
      const backOff = backOffs.get(id) ?? makeBackOff({ firstMs: RETRY_AFTER_FAULT_MS, maxMs: LONGEST_RETRY_MS });
      backOffs.set(id, backOff);
      log.error({ table, id, err: error }, 'a reconcile failed; Berth retries it');
      reconciled = { dueAtMs: now() + backOff.next() };
    }
  }
  if (reconciled === 'gone') return;
  // PostgreSQL accepts only whole numbers for a bigint.
  const dueAtMs = reconciled.dueAtMs === null ? null : Math.ceil(reconciled.dueAtMs);
  // Stays in the map until released: the heartbeat extends the leases in it.
  for (;;) {
    try {
      await store.write((tx) => releaseLease(tx, table, id, held.leaseToken, { dueAtMs }));
      return;
    } catch (error) {
      log.error({ table, id, err: error }, 'could not release a lease; Berth retries');
    }
    if (stopping.aborted) return;
    await time.sleep(RETRY_AFTER_FAULT_MS, stopping).catch(() => {});
  }
}

interface SupersededCheck {
  abortAll(): Promise<void>;
  /** Milliseconds until a postponed check may run; infinite if none is. */
  nextCheckMs(): number;
}

/** Aborts reconciles whose row has a newer generation or another owner. */
function makeSupersededCheck<Table extends LeaseTable>(
  { table, store, time, leaseOwner }: ReconcileLoopDeps<Table>,
  inHand: ReadonlyMap<string, InHand>,
): SupersededCheck {
  let nextMs = 0;
  let isPostponed = false;
  return {
    async abortAll() {
      isPostponed = inHand.size > 0 && time.elapsed() < nextMs;
      if (inHand.size === 0 || isPostponed) return;
      const beganMs = time.elapsed();
      const leased = await leasedGenerations(store.read, table, leaseOwner);
      const held = new Map(leased.map(({ id, generation }) => [id, generation]));
      for (const [id, { generation, abort }] of inHand) if (held.get(id) !== generation) abort.abort();
      const endedMs = time.elapsed();
      // One slow answer must not delay a stop for minutes.
      nextMs = endedMs + Math.min(HEARTBEAT_MS, (endedMs - beganMs) * (1 / CHECK_SHARE - 1));
    },
    nextCheckMs: () => (isPostponed ? nextMs - time.elapsed() : Infinity),
  };
}

/** Makes all rows due after the date jumped back: their times come from the old date. */
function makeDateCheck<Table extends LeaseTable>({ table, store, time }: ReconcileLoopDeps<Table>) {
  /** Unknown at the start. */
  let latestMs = Infinity;
  return async (): Promise<void> => {
    const nowMs = time.now();
    if (nowMs < latestMs - SLACK_MS) await store.write((tx) => makeAllDue(tx, table, nowMs));
    latestMs = nowMs;
  };
}
