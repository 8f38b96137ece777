/**
 * # Idempotency keys
 *
 * A request sent twice with one key runs once and has one answer. `claimIdempotencyKey` inserts
 * the key without an answer, the request runs, `storeAnswer` fills the answer in: all in one
 * transaction. Inserting first is safe for two at once on PostgreSQL: the second insert waits on
 * the unique key until the first transaction ends, then reads the committed answer or, after a
 * rollback, runs the request. (An advisory lock on a hash of the key would also serialize
 * unrelated requests with colliding hashes; select-then-insert would run the request twice and
 * fail at the end.) SQLite has one writer, and the same statements hold there.
 */
import { z } from 'zod';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { parseJson } from '../db/columns.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';

export interface KeyedRequest {
  key: string;
  route: string;
  bodyHash: string;
}

interface Filled extends KeyedRequest {
  accountId: string;
  answer: string;
  nowMs: number;
}

/** `''` until `storeAnswer` fills it, and for a request without an answer. */
const NO_ANSWER = '';

const claimKey = prepared<KeyedRequest & { accountId: string }>()((db, p) =>
  db
    .insertInto('idempotency')
    .values({
      accountId: p('accountId'),
      key: p('key'),
      route: p('route'),
      bodyHash: p('bodyHash'),
      answer: NO_ANSWER,
      createdAtMs: 0,
    })
    .onConflict((conflict) => conflict.columns(['accountId', 'key']).doNothing())
    .returning('key'),
);

const firstRequest = prepared<{ accountId: string; key: string }>()((db, p) =>
  db
    .selectFrom('idempotency')
    .select(['route', 'bodyHash', 'answer'])
    .where('accountId', '=', p('accountId'))
    .where('key', '=', p('key')),
);

const fillAnswer = prepared<Pick<Filled, 'accountId' | 'key' | 'answer' | 'nowMs'>>()((db, p) =>
  db
    .updateTable('idempotency')
    .set({ answer: p('answer'), createdAtMs: p('nowMs') })
    .where('accountId', '=', p('accountId'))
    .where('key', '=', p('key')),
);

/**
 * Returns null the first time: run the request, then `storeAnswer`. Later returns the first answer.
 * Throws `idempotency_mismatch` for another route or body.
 */
export async function claimIdempotencyKey(
  tx: Db,
  accountId: string,
  { key, route, bodyHash }: KeyedRequest,
): Promise<{ answer: unknown } | null> {
  const [claimed] = await claimKey(tx, { accountId, key, route, bodyHash });
  if (claimed) return null;
  const [first] = await firstRequest(tx, { accountId, key });
  // Deleted between the two statements, as only an old key is.
  if (!first) return claimIdempotencyKey(tx, accountId, { key, route, bodyHash });
  if (first.route !== route) {
    throw mismatch(`Idempotency-Key "${key}" was already used with ${first.route}; send another key with ${route}`);
  }
  if (first.bodyHash !== bodyHash) {
    throw mismatch(`Idempotency-Key "${key}" was already used with another body; send another key, or the same body`);
  }
  if (first.answer === NO_ANSWER) return { answer: undefined };
  return { answer: parseJson(z.unknown(), first.answer, { table: 'idempotency', id: key, column: 'answer' }) };
}

const mismatch = (message: string): Refusal => new Refusal('idempotency_mismatch', message);

export async function storeAnswer(
  tx: Db,
  accountId: string,
  request: KeyedRequest,
  answer: unknown,
  nowMs: number,
): Promise<void> {
  const text = answer === undefined ? NO_ANSWER : JSON.stringify(answer);
  await fillAnswer(tx, { accountId, key: request.key, answer: text, nowMs });
}

/** Deletes the oldest keys before `beforeMs`, at most `limit`; returns how many. */
export async function deleteAnswersBefore(tx: Db, beforeMs: number, limit: number): Promise<number> {
  const gone = await tx
    .deleteFrom('idempotency')
    .where(({ eb, refTuple, selectFrom }) =>
      eb(
        refTuple('accountId', 'key'),
        'in',
        selectFrom('idempotency')
          .select(['accountId', 'key'])
          .where('createdAtMs', '<', beforeMs)
          .orderBy('createdAtMs')
          .limit(limit)
          .$asTuple('accountId', 'key'),
      ),
    )
    .executeTakeFirst();
  return Number(gone.numDeletedRows);
}
