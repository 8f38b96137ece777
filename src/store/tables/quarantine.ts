/** GPUs without launches, a row for each reason. */
import type { CardFinding, Quarantine } from '../../domain/regions/card-health.ts';
import type { Db } from '../store.ts';

const idOf = (regionId: string, cardId: string, reason: string): string => `${regionId}/${cardId}/${reason}`;

export async function quarantinesOf(db: Db, regionId: string): Promise<Quarantine[]> {
  const rows = await db.selectFrom('quarantine').selectAll().where('regionId', '=', regionId).orderBy('id').execute();
  return rows.map(({ cardId, reason, evidence, sinceMs, isReturned }) => ({
    cardId,
    reason,
    evidence,
    sinceMs,
    isReturned: isReturned === 1,
  }));
}

export async function quarantinedCards(db: Db, regionId: string): Promise<Set<string>> {
  const all = await quarantinesOf(db, regionId);
  return new Set(all.filter(({ isReturned }) => !isReturned).map(({ cardId }) => cardId));
}

export async function saveQuarantine(
  tx: Db,
  { regionId, cardId }: { regionId: string; cardId: string },
  { reason, evidence }: CardFinding,
  sinceMs: number,
): Promise<void> {
  await tx
    .insertInto('quarantine')
    .values({ id: idOf(regionId, cardId, reason), regionId, cardId, reason, evidence, sinceMs })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ evidence, sinceMs, isReturned: 0 }))
    .execute();
}

export async function saveEvidence(
  tx: Db,
  { regionId, cardId }: { regionId: string; cardId: string },
  { reason, evidence }: CardFinding,
): Promise<void> {
  const id = idOf(regionId, cardId, reason);
  await tx.updateTable('quarantine').set({ evidence }).where('id', '=', id).execute();
}

export async function deleteQuarantine(
  tx: Db,
  { regionId, cardId }: { regionId: string; cardId: string },
  reasons: readonly string[],
): Promise<void> {
  if (reasons.length === 0) return;
  const ids = reasons.map((reason) => idOf(regionId, cardId, reason));
  await tx.deleteFrom('quarantine').where('id', 'in', ids).execute();
}

/** Returns the reasons in force before. */
export async function returnCard(
  tx: Db,
  { regionId, cardId }: { regionId: string; cardId: string },
): Promise<string[]> {
  const rows = await tx
    .updateTable('quarantine')
    .set({ isReturned: 1 })
    .where('regionId', '=', regionId)
    .where('cardId', '=', cardId)
    .where('isReturned', '=', 0)
    .returning('reason')
    .execute();
  return rows.map(({ reason }) => reason).toSorted();
}
