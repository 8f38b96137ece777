/**
 * Runs an operation with an `Idempotency-Key` once: its transaction stores the first answer, which
 * later requests get again.
 *
 * Stores the body's hash under a key outside of the database: a plain hash would let readers of the
 * database guess a secret in a body whose other members are known.
 */
import { createHmac, hkdfSync } from 'node:crypto';
import { storeAnswer, claimIdempotencyKey } from '../../store/tables/idempotency.ts';
import type { Db, Store } from '../../store/store.ts';
import type { Idempotency } from './caller.ts';
import type { Change, PublishChanges } from './changes.ts';
import type { Time } from './time.ts';

export type Idempotent = <Answer>(
  tx: Db,
  accountId: string,
  idempotency: Idempotency | null,
  nowMs: number,
  fn: () => Promise<Answer>,
) => Promise<Answer>;

const KEY_BYTES = 32;

/** Derives a key of its own from `secretsKey`, which also seals secrets (RFC 5869, 3.2). */
export function makeIdempotent(secretsKey: Uint8Array): Idempotent {
  const macKey = Buffer.from(hkdfSync('sha256', secretsKey, '', 'bodies of keyed requests', KEY_BYTES));
  const keyedHash = (accountId: string, { key, bodyHash }: Idempotency): string =>
    createHmac('sha256', macKey).update(`${accountId} ${key} ${bodyHash}`).digest('hex');
  return async (tx, accountId, idempotency, nowMs, fn) => {
    if (!idempotency) return fn();
    const record = { ...idempotency, bodyHash: keyedHash(accountId, idempotency) };
    const before = await claimIdempotencyKey(tx, accountId, record);
    // The claim refuses another route: the first answer has the type of this one.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    if (before) return before.answer as Awaited<ReturnType<typeof fn>>;
    const answer = await fn();
    await storeAnswer(tx, accountId, record, answer, nowMs);
    return answer;
  };
}

export interface WriteDeps {
  store: Store;
  time: Pick<Time, 'now'>;
  idempotent: Idempotent;
}

/** Runs `fn` in a transaction of its own, once for each idempotency key. */
export const idempotentWrite = <Answer>(
  { store, time, idempotent }: WriteDeps,
  accountId: string,
  idempotency: Idempotency | null,
  fn: (tx: Db, nowMs: number) => Promise<Answer>,
): Promise<Answer> =>
  store.write((tx) => {
    const nowMs = time.now();
    return idempotent(tx, accountId, idempotency, nowMs, () => fn(tx, nowMs));
  });

/** The same, for a write that makes rows of the subject due: wakes their reconcile loop. */
export async function requestReconcile<Answer>(
  deps: WriteDeps & { changes: PublishChanges },
  change: Pick<Change, 'subject' | 'id'>,
  accountId: string,
  idempotency: Idempotency | null,
  fn: (tx: Db, nowMs: number) => Promise<Answer>,
): Promise<Answer> {
  const answer = await idempotentWrite(deps, accountId, idempotency, fn);
  deps.changes.publish({ ...change, isDue: true });
  return answer;
}
