/** Verifies the audit log against its keys and its two heads, also while a server writes to it. */
import type { ChainLink } from '../../../domain/access/audit.ts';
import { auditAfter, auditAnchor, auditHead } from '../../../store/tables/audit.ts';
import type { Db } from '../../../store/store.ts';
import type { AuditChain } from './chain.ts';

export type AuditVerdict =
  { ok: true; records: number; first: number; last: number } | { ok: false; position: number; problem: string };

const PAGE = 1_000;

/** `fileHead`: the head that the data folder holds; null: none. Read it before the call. */
export async function verifyAudit(db: Db, chain: AuditChain, fileHead: ChainLink | null): Promise<AuditVerdict> {
  const wrong = (position: number, problem: string): AuditVerdict => ({ ok: false, position, problem });
  // Read first: a running server only moves the end of the chain on.
  const heads = [await auditHead(db), ...(fileHead === null ? [] : [fileHead])];
  const anchor = await auditAnchor(db);
  if (anchor.position > 0 && chain.anchorMac(anchor) !== anchor.mac)
    return wrong(anchor.position, 'the anchor of the retention was changed');
  let { position, hash } = anchor;
  for (;;) {
    const rows = await auditAfter(db, position, PAGE);
    for (const row of rows) {
      if (row.position !== position + 1) {
        // The retention may have deleted records since the anchor was read.
        if (position === anchor.position && (await auditAnchor(db)).position > anchor.position)
          return verifyAudit(db, chain, fileHead);
        return wrong(position + 1, 'this record was removed');
      }
      if (chain.hashOf(row, row.position, hash) !== row.hash)
        return wrong(row.position, 'this record was changed, or is not the one written at this position');
      ({ position, hash } = row);
      if (heads.some((head) => head.position === position && head.hash !== hash))
        return wrong(position, 'this record is not the one that the head of the log names');
    }
    if (rows.length < PAGE) break;
  }
  const lastPosition = Math.max(...heads.map((head) => head.position));
  if (position < lastPosition)
    return wrong(position + 1, `the records up to ${lastPosition} were removed from the end`);
  return { ok: true, records: position - anchor.position, first: anchor.position + 1, last: position };
}
