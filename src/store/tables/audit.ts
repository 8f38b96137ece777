/** The audit log: pending records, sealed records, and both ends of the chain. */
import { sql, type Selectable } from 'kysely';
import { z } from 'zod';
import { AUDIT_OK, CHAIN_START, type AuditFields, type ChainLink } from '../../domain/access/audit.ts';
import { keysOf, parseJson } from '../db/columns.ts';
import { newRows } from '../db/dialect.ts';
import { prepared } from '../db/prepared.ts';
import type { AuditTable } from '../db/audit-schema.ts';
import type { Db } from '../store.ts';
import { saveSetting, setting } from './catalog.ts';
import { texts } from './json-schemas.ts';
import { equalTo, pageInSlices, type PageSpan } from './sliced-page.ts';

export type AuditRow = Selectable<AuditTable>;

const insert = prepared<{ record: string }>()((db, p) => db.insertInto('auditPending').values({ record: p('record') }));

export async function insertPendingAudit(tx: Db, record: AuditFields): Promise<void> {
  await insert(tx, { record: JSON.stringify(record) });
}

const fields: z.ZodType<AuditFields> = z.object({
  atMs: z.number(),
  accountId: z.string(),
  username: z.string(),
  credential: z.string(),
  credentialId: z.string(),
  address: z.string(),
  userAgent: z.string(),
  route: z.string(),
  subjects: z.string(),
  outcome: z.string(),
  count: z.number(),
  requestId: z.string(),
});

/** Oldest pending records in order of their insertion. */
export async function pendingAudit(db: Db, limit: number): Promise<{ id: number; record: AuditFields }[]> {
  const rows = await db.selectFrom('auditPending').selectAll().orderBy('id').limit(limit).execute();
  return rows.map(({ id, record }) => {
    const where = { table: 'auditPending', id: String(id), column: 'record' };
    return { id, record: parseJson(fields, record, where) };
  });
}

const auditColumns = {
  position: 'bigint',
  hash: 'text',
  atMs: 'bigint',
  accountId: 'text',
  username: 'text',
  credential: 'text',
  credentialId: 'text',
  address: 'text',
  userAgent: 'text',
  route: 'text',
  subjects: 'text',
  outcome: 'text',
  count: 'bigint',
  requestId: 'text',
} as const satisfies Record<keyof AuditRow, string>;

/** Moves pending records into the chain. */
export async function insertSealedAudit(
  tx: Db,
  { pendingIds, rows }: { pendingIds: readonly number[]; rows: readonly AuditRow[] },
): Promise<void> {
  const names = sql.join(keysOf(auditColumns).map((name) => sql.ref(name)));
  await sql`insert into audit (${names}) select ${names} from ${newRows(tx, rows, auditColumns)}`.execute(tx);
  const subjects = rows.flatMap((row) =>
    subjectsOfRow(row).map((subjectId) => ({ subjectId, position: row.position })),
  );
  const named = newRows(tx, subjects, { subjectId: 'text', position: 'bigint' });
  await sql`insert into "auditSubject" ("subjectId", position) select "subjectId", position from ${named} where true
    on conflict do nothing`.execute(tx);
  const ids = newRows(
    tx,
    pendingIds.map((id) => ({ id })),
    { id: 'bigint' },
  );
  const { numAffectedRows } = await sql`delete from "auditPending" where id in (select id from ${ids})`.execute(tx);
  if (Number(numAffectedRows) < pendingIds.length) throw new Error('Another process seals the audit log.');
}

export const subjectsOfRow = ({ subjects, position }: AuditRow): string[] =>
  parseJson(texts, subjects, { table: 'audit', id: String(position), column: 'subjects' });

/** Sealed records after a position, in order. */
export const auditAfter = (db: Db, position: number, limit: number): Promise<AuditRow[]> =>
  db.selectFrom('audit').selectAll().where('position', '>', position).orderBy('position').limit(limit).execute();

export interface AuditFilter {
  accountId?: string | undefined;
  route?: string | undefined;
  subjectId?: string | undefined;
  outcome?: string | undefined;
  /** Routes of which only refusals are wanted. */
  onlyRefusedOf?: readonly string[] | undefined;
  fromMs?: number | undefined;
  toMs?: number | undefined;
}

/** Newest first. `total` counts at most `maxTotal`. */
export const auditPage = (
  db: Db,
  { accountId, route, outcome, subjectId, onlyRefusedOf = [], fromMs, toMs }: AuditFilter,
  span: PageSpan,
): Promise<{ rows: AuditRow[]; total: number }> => {
  const filter = equalTo({ accountId, route, outcome });
  if (onlyRefusedOf.length > 0) filter.push(sql`(route not in (${sql.join(onlyRefusedOf)}) or outcome <> ${AUDIT_OK})`);
  if (fromMs !== undefined) filter.push(sql`"atMs" >= ${fromMs}`);
  if (toMs !== undefined) filter.push(sql`"atMs" < ${toMs}`);
  if (subjectId !== undefined)
    filter.push(sql`exists (select 1 from "auditSubject" as subject
      where subject."subjectId" = ${subjectId} and subject.position = audit.position)`);
  return pageInSlices(db, { table: 'audit', by: ['position'], within: [], filter }, span);
};

const link: z.ZodType<ChainLink> = z.object({ position: z.number().int(), hash: z.string() });
const anchorShape = z.object({ position: z.number().int(), hash: z.string(), mac: z.string() });
const HEAD = 'auditHead';
const ANCHOR = 'auditAnchor';

/** Last sealed record. */
export async function auditHead(db: Db): Promise<ChainLink> {
  const stored = await setting(db, HEAD);
  return stored === undefined ? CHAIN_START : parseJson(link, stored, { table: 'setting', id: HEAD, column: 'value' });
}

export const saveAuditHead = (tx: Db, { position, hash }: ChainLink): Promise<void> =>
  saveSetting(tx, HEAD, JSON.stringify({ position, hash }));

/** Last record that the retention deleted, with its MAC. */
export async function auditAnchor(db: Db): Promise<ChainLink & { mac: string }> {
  const stored = await setting(db, ANCHOR);
  if (stored === undefined) return { ...CHAIN_START, mac: '' };
  return parseJson(anchorShape, stored, { table: 'setting', id: ANCHOR, column: 'value' });
}

/** Deletes records from the oldest on that are older than `beforeMs`. Returns how many. */
export async function deleteAuditBefore(
  tx: Db,
  beforeMs: number,
  { limit, macOf }: { limit: number; macOf: (anchor: ChainLink) => string },
): Promise<number> {
  const oldest = await tx
    .selectFrom('audit')
    .select(['position', 'hash', 'atMs'])
    .orderBy('position')
    .limit(limit)
    .execute();
  const firstRetained = oldest.findIndex(({ atMs }) => atMs >= beforeMs);
  const gone = firstRetained === -1 ? oldest : oldest.slice(0, firstRetained);
  const last = gone.at(-1);
  if (last === undefined) return 0;
  const { position, hash } = last;
  await tx.deleteFrom('auditSubject').where('position', '<=', position).execute();
  await tx.deleteFrom('audit').where('position', '<=', position).execute();
  await saveSetting(tx, ANCHOR, JSON.stringify({ position, hash, mac: macOf({ position, hash }) }));
  return gone.length;
}
