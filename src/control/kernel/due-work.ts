/**
 * Runs acts at their times: leases rows of `dueAct` and calls the handler of the kind, which reads
 * the subject again under lock. A row keeps the error of its last run.
 */
import { makeSemaphore } from '../../async/semaphore.ts';
import { actKinds, type ActKind } from '../../domain/kernel/due-act.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import { oneOf } from '../../store/db/columns.ts';
import { nextDueAt, type LeaseRow } from '../../store/db/leases.ts';
import { finishAct, noteAttempt } from '../../store/tables/due-acts.ts';
import {
  startReconcileLoop,
  type LeasedRow,
  type ReconcileLoop,
  type ReconcileLoopDeps,
  type ReconcileResult,
} from './reconcile-loop.ts';
import { task, type Task } from './scheduler.ts';

/** Returns the next time; null: the act is done. */
export type ActHandler = (of: { id: string; ownerId: string }) => Promise<number | null>;
export type ActHandlers = Readonly<Record<ActKind, ActHandler>>;

export const DUE_WORK = 'due work';
/** No change announces a row. */
const LOOK_INTERVAL_MS = 1_000;
/** A quarter of the connections to PostgreSQL: the requests of users have the rest. */
const AT_ONCE = 4;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
const ERROR_LENGTH = 500;

type WorkDeps = Omit<ReconcileLoopDeps<'dueAct'>, 'table' | 'leaseOwner' | 'reconcile'>;

export function makeDueWork(
  deps: WorkDeps,
  handlers: ActHandlers,
): { task: Task; start(leaseOwner: string): ReconcileLoop } {
  const { store, time } = deps;
  let loop: ReconcileLoop | undefined;
  return {
    task: task(DUE_WORK, LOOK_INTERVAL_MS, async () => {
      const atMs = await nextDueAt(store.read, 'dueAct');
      if (atMs !== null && atMs <= time.now()) loop?.wake();
    }),
    start: (leaseOwner) =>
      (loop = startReconcileLoop({ ...deps, leaseOwner, table: 'dueAct', reconcile: makeRun(deps, handlers) })),
  };
}

function makeRun({ store, time, log }: WorkDeps, handlers: ActHandlers) {
  const few = new Map(actKinds.map((kind) => [kind, makeSemaphore(AT_ONCE)]));
  return async ({ row, leaseToken, signal }: LeasedRow<LeaseRow<'dueAct'>>): Promise<ReconcileResult> => {
    const { id, subjectId, ownerId, attempts, error: known } = row;
    const held = { id, leaseToken };
    const kind = oneOf(actKinds, row.kind);
    const work = () => handlers[kind]({ id: subjectId, ownerId });
    try {
      const dueAtMs = await (few.get(kind)?.run(work, { owner: ownerId, signal }) ?? work());
      if (dueAtMs === null && (await store.write((tx) => finishAct(tx, held)))) return 'gone';
      if (known !== null) await store.write((tx) => noteAttempt(tx, held, null));
      return { dueAtMs: dueAtMs && Math.max(dueAtMs, time.now() + LOOK_INTERVAL_MS) };
    } catch (error) {
      if (signal.aborted) throw error;
      const text = errorText(error).slice(0, ERROR_LENGTH);
      if (text !== known) log.warn({ id, err: error }, 'an act that is due failed; Berth retries it');
      await store.write((tx) => noteAttempt(tx, held, text));
      return { dueAtMs: time.now() + Math.min(FIRST_PAUSE_MS * 2 ** attempts, LONGEST_PAUSE_MS) };
    }
  };
}
