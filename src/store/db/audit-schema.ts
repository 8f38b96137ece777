import type { Generated } from 'kysely';

interface AuditPendingTable {
  id: Generated<number>;
  record: string;
}

/** Records by position, without gaps from the anchor of the retention on. */
export interface AuditTable {
  position: number;
  hash: string;
  atMs: number;
  accountId: string;
  username: string;
  credential: string;
  credentialId: string;
  address: string;
  userAgent: string;
  route: string;
  subjects: string;
  outcome: string;
  count: number;
  requestId: string;
}

/** Index of `audit.subjects`, for filters only. */
interface AuditSubjectTable {
  subjectId: string;
  position: number;
}

export interface AuditSchema {
  audit: AuditTable;
  auditPending: AuditPendingTable;
  auditSubject: AuditSubjectTable;
}
