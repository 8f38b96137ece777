/** Records of the audit log, and their chain of hashes (docs/security.md). */

export const auditCredentials = ['login', 'apiKey', 'sshKey', 'link', 'signature', 'host', 'none'] as const;
export type AuditCredential = (typeof auditCredentials)[number];

export interface AuditRecord {
  atMs: number;
  /** Empty without a known account. */
  accountId: string;
  username: string;
  credential: AuditCredential;
  /** ID of a login or API key, fingerprint of an ssh key, or empty; never a secret. */
  credentialId: string;
  address: string;
  userAgent: string;
  /** Name in the route table, of a page such as `loginPage`, `sshLogin`, or `hostReset…`. */
  route: string;
  subjects: readonly string[];
  /** `ok` or the code of the refusal. */
  outcome: string;
  /** Above 1: equal refusals of one minute in one record. */
  count: number;
  requestId: string;
}

export const AUDIT_OK = 'ok';

export interface ChainLink {
  /** From 1, without gaps; 0: the beginning. */
  position: number;
  hash: string;
}

export const CHAIN_START: ChainLink = { position: 0, hash: '' };

/** Stored form: `subjects` is JSON. */
export type AuditFields = Omit<AuditRecord, 'subjects' | 'credential'> & { subjects: string; credential: string };

/** Bytes that the hash of a record covers: the hash before it, its position, all fields. */
export const auditText = (record: AuditFields, position: number, hashBefore: string): string =>
  JSON.stringify([
    hashBefore,
    position,
    record.atMs,
    record.accountId,
    record.username,
    record.credential,
    record.credentialId,
    record.address,
    record.userAgent,
    record.route,
    record.subjects,
    record.outcome,
    record.count,
    record.requestId,
  ]);

const MAX_SUBJECTS = 20;
/** A UUID, or an instance's id: secrets that a caller sends for an id have another form. */
const SUBJECT = /^(?:[a-z]{1,20}-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Distinct values that have the form of an id. */
export const subjectsOf = (values: readonly unknown[]): string[] =>
  [...new Set(values.filter((value): value is string => typeof value === 'string' && SUBJECT.test(value)))].slice(
    0,
    MAX_SUBJECTS,
  );
