/** A deed with an `Idempotency-Key` is done once: the first answer is kept in the deed's own transaction and given again. */
import { remember, remembered } from '../store/idempotency.ts';
import type { Db } from '../store/store.ts';
import type { Idempotency } from './control.ts';

export async function once<Answer>(
  tx: Db,
  accountId: string,
  idempotency: Idempotency | null,
  nowMs: number,
  deed: () => Promise<Answer>,
): Promise<Answer> {
  if (!idempotency) return deed();
  const before = await remembered<Answer>(tx, accountId, idempotency);
  if (before) return before.answer;
  const answer = await deed();
  await remember(tx, accountId, idempotency, answer, nowMs);
  return answer;
}
