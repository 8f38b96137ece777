/** Operations of an account: status, history, cancellation. */
import {
  planCancellation,
  subjectKinds,
  supersedeOperation,
  type SubjectKind,
} from '../../../domain/compute/operation.ts';
import { publicOperation, type PublicOperation } from '../../../domain/compute/public-operation.ts';
import { instanceNotFound, Refusal, volumeNotFound } from '../../../domain/kernel/refusal.ts';
import { lockInstance } from '../../../store/tables/instances.ts';
import {
  countPastOperations,
  pastOperation,
  pastOperations,
  currentOperation,
  type SubjectOperation,
} from '../../../store/tables/operations.ts';
import type { Db } from '../../../store/store.ts';
import { writeAction } from './actions.ts';
import { type Caller, type LongRunning, type Pager, requestReconcile } from '../../kernel/ports.ts';
import type { MeteredDeps } from '../../money/ports.ts';

export type OperationSubject = { [Kind in SubjectKind as `${Kind}Id`]?: string | undefined };

export interface Operations {
  read(caller: Caller, body: { operationId: string }): Promise<PublicOperation>;
  /** Newest first. */
  list(
    caller: Caller,
    subject: OperationSubject,
    pager: Pager,
  ): Promise<{ operations: PublicOperation[]; totalEntries: number }>;
  /** Writes the opposite desired state. Returns the operation as Cancelled. Throws `not_now`. */
  cancel: LongRunning<{ operationId: string }, { operation: PublicOperation }>;
}

const shown = ({ subjectId, generation, operation }: SubjectOperation): PublicOperation =>
  publicOperation(subjectId, generation, operation);

const unknownOperation = (id: string): Refusal =>
  new Refusal(
    'not_found',
    `operation ${id} not found; POST /api/operation/list lists the operations of an instance or a volume`,
  );

/** Parses `<subjectId>.<generation>`; null for other texts. */
function parsed(id: string): { subjectId: string; generation: number } | null {
  const match = /^(.+)\.([1-9]\d{0,14})$/.exec(id);
  return match?.[1] === undefined ? null : { subjectId: match[1], generation: Number(match[2]) };
}

/** Reads rows before the history: operations move only that way. */
async function find(db: Db, accountId: string, id: string): Promise<SubjectOperation> {
  const asked = parsed(id);
  if (!asked) throw unknownOperation(id);
  for (const kind of subjectKinds) {
    const present = await currentOperation(db, kind, accountId, asked.subjectId);
    if (present?.generation === asked.generation) return present;
    if (present) break;
  }
  const past = await pastOperation(db, accountId, id);
  if (!past) throw unknownOperation(id);
  return past;
}

const notFound: Readonly<Record<SubjectKind, (id: string) => Refusal>> = {
  instance: instanceNotFound,
  volume: volumeNotFound,
  snapshot: (id) => new Refusal('not_found', `snapshot ${id} not found; POST /api/storage/snapshot/list lists yours`),
  image: (id) => new Refusal('not_found', `image ${id} not found; POST /api/image/list lists yours`),
};

function subjectOf(subject: OperationSubject): { kind: SubjectKind; id: string } {
  const given = subjectKinds.flatMap((kind) => {
    const id = subject[`${kind}Id`];
    return id === undefined ? [] : [{ kind, id }];
  });
  const [one] = given;
  if (one === undefined)
    throw new Refusal('field_missing', 'field "instanceId" is not set; or send "volumeId", "snapshotId" or "imageId"');
  if (given.length > 1)
    throw new Refusal(
      'field_value',
      '"instanceId", "volumeId", "snapshotId" and "imageId" exclude each other; send only one of them',
    );
  return one;
}

export function makeOperations(deps: MeteredDeps): Operations {
  const { store } = deps;
  return {
    read: async (caller, { operationId: id }) => shown(await find(store.read, caller.accountId, id)),

    async list({ accountId }, subject, { currentPage, pageSize }) {
      const { kind, id } = subjectOf(subject);
      const present = await currentOperation(store.read, kind, accountId, id);
      const past = await countPastOperations(store.read, accountId, id);
      if (!present && past === 0) throw notFound[kind](id);
      const before = present ? 1 : 0;
      const offset = (currentPage - 1) * pageSize;
      const first = present && offset === 0 ? [present] : [];
      const from = Math.max(0, offset - before);
      const rest = await pastOperations(store.read, accountId, id, from, pageSize - first.length);
      // Drops an operation that became history between the two reads.
      const others = rest.filter(({ generation }) => generation !== first[0]?.generation);
      return { operations: [...first, ...others].map(shown), totalEntries: past + before };
    },

    async cancel({ accountId }, { operationId: id }, idempotency) {
      const catalog = await deps.readCatalog();
      const subjectId = parsed(id)?.subjectId ?? '';
      const change = { subject: 'instance', id: subjectId } as const;
      return requestReconcile(deps, change, accountId, idempotency, async (tx, nowMs) => {
        // Locks first: the operation must not change before the write.
        const row = await lockInstance(tx, accountId, subjectId);
        const current = await find(tx, accountId, id);
        const how = planCancellation(current.operation);
        if ('why' in how) throw new Refusal('not_now', `cannot cancel operation ${id}: ${how.why}`);
        // Only the current operation of an existing instance can be canceled.
        if (!row) throw unknownOperation(id);
        const canceling = await writeAction(tx, row, {
          action: how.action,
          cause: 'user',
          catalog,
          metering: deps.metering,
          nowMs,
        });
        const operation = supersedeOperation(current.operation, nowMs);
        return { operation: shown({ ...current, operation }), operationId: canceling };
      });
    },
  };
}
