/**
 * # The loop
 *
 * Leases due rows, hands each to its pass, and sleeps until the next is due or somebody wakes it. A wake carries nothing: timer,
 * use-case and engine hint all reach this same code, which asks the store again what is due.
 *
 * A row is held by a lease (owner, token, expiry) that a heartbeat prolongs. When a wish moves the generation of a held row, the
 * pass that works on the old one is aborted; what it still finds is dropped by the guard of its write.
 */
import type { LeaseRow, LeaseTable } from '../../store/db/leases.ts';
import { claimDue, makeAllDue, heartbeat, leasedGenerations, nextDueAt, releaseLease } from '../../store/db/leases.ts';
import type { Store } from '../../store/store.ts';
import type { Log } from './log.ts';
import type { Time } from './time.ts';

const LEASE_MS = 30_000;
const HEARTBEAT_MS = 5_000;
const LONGEST_SLEEP_MS = 30_000;
/** More than a host has instances: those that wait for an image must not keep a terminate from its turn. One costs a few KB. */
const SLOTS = 4_096;
const CLAIM_PER_OWNER = 64;
const RETRY_AFTER_FAULT_MS = 5_000;
/** Of the time, at most, goes into looking for what was overtaken: each pass that ends asks for a look at all that are in hand. */
const LOOKS_SHARE = 0.1;
/** A date that is set right by less than this makes nobody late that matters. */
const SLACK_MS = 1_000;

/** A row in the hands of a pass, until the signal says that it is no longer. */
export interface LeasedRow<Row> {
  row: Row;
  leaseToken: string;
  signal: AbortSignal;
}

/** What a pass answers: when to look at the row again; null: not until something makes it due; 'gone': the row is no more. */
export type ReconcileResult = { dueAtMs: number | null } | 'gone';

export interface ReconcileLoopDeps<Table extends LeaseTable> {
  table: Table;
  store: Store;
  time: Time;
  log: Log;
  /** This process, as leases name it. */
  leaseOwner: string;
  randomUuid: () => string;
  /** Works on a row until nothing more can be done now. */
  reconcile: (held: LeasedRow<LeaseRow<Table>>) => Promise<ReconcileResult>;
}

export interface ReconcileLoop {
  wake(): void;
  /** Aborts what runs, gives the leases back, and answers when all is quiet. */
  stop(): Promise<void>;
}

interface InHand {
  generation: number;
  abort: AbortController;
  done: Promise<void>;
}

export function startReconcileLoop<Table extends LeaseTable>(deps: ReconcileLoopDeps<Table>): ReconcileLoop {
  const { table, store, time, log, leaseOwner } = deps;
  const { now } = time;
  const inHand = new Map<string, InHand>();
  const ending = new AbortController();
  let stopped = false;
  let woken = false;
  let turning: Promise<void> | null = null;
  let callOff = (): void => {};
  /** When what was overtaken may be looked for again, in `elapsed`, and whether somebody waits for that. */
  const look = { fromMs: 0, isWanted: false };
  /** What the date said when it was last looked at; at the start nobody knows what it said before. */
  let latestMs = Infinity;

  const hold = (row: LeaseRow<Table>, leaseToken: string): void => {
    const abort = new AbortController();
    // Still in hand, although the lease could be had: it had expired while this process stood still (a laptop that slept).
    const before = inHand.get(row.id);
    before?.abort.abort();
    const done = Promise.resolve(before?.done)
      .then(() => work({ row, leaseToken, signal: abort.signal }))
      .finally(() => {
        if (inHand.get(row.id) === mine) inHand.delete(row.id);
        wake();
      });
    const mine: InHand = { generation: row.generation, abort, done };
    inHand.set(row.id, mine);
  };

  const work = async (held: LeasedRow<LeaseRow<Table>>): Promise<void> => {
    let reconciled: ReconcileResult;
    try {
      reconciled = await deps.reconcile(held);
    } catch (error) {
      if (!held.signal.aborted) log.error({ table, id: held.row.id, err: error }, 'a pass failed; it is tried again');
      reconciled = { dueAtMs: held.signal.aborted ? now() : now() + RETRY_AFTER_FAULT_MS };
    }
    if (reconciled === 'gone') return;
    // A share of a time is seldom whole, and PostgreSQL takes nothing else for a bigint.
    const dueAtMs = reconciled.dueAtMs === null ? null : Math.ceil(reconciled.dueAtMs);
    // Until it is given back it stays in hand: the heartbeat prolongs all that this process has, and so it would never be free.
    for (;;) {
      try {
        await store.write((tx) => releaseLease(tx, table, held.row.id, held.leaseToken, { dueAtMs }));
        return;
      } catch (error) {
        log.error({ table, id: held.row.id, err: error }, 'a lease could not be given back; it is tried again');
      }
      if (stopped) return;
      await time.sleep(RETRY_AFTER_FAULT_MS, ending.signal).catch(() => {});
    }
  };

  /** Passes whose row was moved on by a wish, or taken by another process, work for nothing. */
  const abortSuperseded = async (): Promise<void> => {
    look.isWanted = inHand.size > 0 && time.elapsed() < look.fromMs;
    if (inHand.size === 0 || look.isWanted) return;
    const beganMs = time.elapsed();
    const held = new Map(
      (await leasedGenerations(store.read, table, leaseOwner)).map(({ id, generation }) => [id, generation]),
    );
    for (const [id, { generation, abort }] of inHand) if (held.get(id) !== generation) abort.abort();
    const endedMs = time.elapsed();
    look.fromMs = endedMs + (endedMs - beganMs) * (1 / LOOKS_SHARE - 1);
  };

  /** Times were written down by another date: whoever waits for one of them could wait for days. */
  const mindTheDate = async (): Promise<void> => {
    const nowMs = now();
    if (nowMs < latestMs - SLACK_MS) await store.write((tx) => makeAllDue(tx, table, nowMs));
    latestMs = nowMs;
  };

  const turn = async (): Promise<void> => {
    await mindTheDate();
    await abortSuperseded();
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
      for (const row of rows) hold(row, leaseToken);
      if (rows.length < limit) return;
    }
  };

  const sleep = async (): Promise<void> => {
    // With all slots taken, what is due has to wait for a pass that ends, and that one wakes.
    const dueAtMs = inHand.size < SLOTS ? await nextDueAt(store.read, table) : null;
    const dueMs = dueAtMs === null ? LONGEST_SLEEP_MS : dueAtMs - now();
    const lookMs = look.isWanted ? look.fromMs - time.elapsed() : LONGEST_SLEEP_MS;
    const waitMs = Math.min(LONGEST_SLEEP_MS, Math.max(5, Math.min(dueMs, lookMs)));
    if (!stopped) callOff = time.after(waitMs, wake);
  };

  const run = async (): Promise<void> => {
    while (woken && !stopped) {
      woken = false;
      callOff();
      try {
        await turn();
        if (!woken) await sleep();
      } catch (error) {
        log.error({ table, err: error }, 'the store did not answer the loop; it is asked again');
        if (!stopped) callOff = time.after(RETRY_AFTER_FAULT_MS, wake);
      }
    }
  };

  const wake = (): void => {
    woken = true;
    if (stopped || turning) return;
    turning = run().finally(() => {
      turning = null;
      if (woken && !stopped) wake();
    });
  };

  const stopBeating = time.every(HEARTBEAT_MS, () => {
    if (inHand.size === 0) return;
    const untilMs = now() + LEASE_MS;
    store
      .write((tx) => heartbeat(tx, table, leaseOwner, { untilMs }))
      .then(wake, (error: unknown) => log.warn({ table, err: error }, 'leases could not be prolonged'));
  });
  wake();

  return {
    wake,
    async stop() {
      stopped = true;
      ending.abort();
      callOff();
      stopBeating();
      await turning;
      for (const { abort } of inHand.values()) abort.abort();
      await Promise.all([...inHand.values()].map(({ done }) => done));
    },
  };
}
