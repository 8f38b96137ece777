import type { Operation } from '../../../domain/compute/operation.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { writeReconciledImage, type ImageRow } from '../../../store/tables/images.ts';
import { parseOperation } from '../../../store/tables/json-schemas.ts';
import type { LeasedRow, ReconcileResult, TaskDeps } from '../../kernel/ports.ts';

export const guardOf = ({ leased: { row, leaseToken } }: { leased: LeasedRow<ImageRow> }) => ({
  id: row.id,
  leaseToken,
  generation: row.generation,
});

type ReconciledImage = Parameters<typeof writeReconciledImage>[2];

export async function writeResult(
  work: Pick<TaskDeps, 'store' | 'time'> & { leased: LeasedRow<ImageRow> },
  kind: string,
  result: ReconciledImage,
  endOperationWith: (operation: Operation, nowMs: number) => Operation,
): Promise<ReconcileResult> {
  const { leased, store, time } = work;
  const { row } = leased;
  const nowMs = time.now();
  const operation = operationOf(row, (operation) => endOperationWith(operation, nowMs));
  const written = await store.write(async (tx) => {
    if (!(await writeReconciledImage(tx, guardOf(work), { ...result, operation }))) return false;
    if (row.ownerId === null) return true;
    const data = { name: row.name, ...(result.stateText === '' ? {} : { reason: result.stateText }) };
    await appendEvent(tx, { accountId: row.ownerId, atMs: nowMs, kind, subjectId: row.id, data });
    return true;
  });
  return { dueAtMs: written ? null : nowMs };
}

export const operationOf = (row: ImageRow, next: (operation: Operation) => Operation): string | null =>
  row.operation === null ? null : JSON.stringify(next(parseOperation(row.operation, 'image', row.id)));
