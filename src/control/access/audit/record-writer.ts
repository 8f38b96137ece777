/**
 * Stores audit records. One that the store does not take waits in memory for `writeRetained`: it
 * never becomes the answer of a request that is done (decision 78).
 */
import { AUDIT_OK, subjectsOf, type AuditCredential, type AuditFields } from '../../../domain/access/audit.ts';
import { accountByLogin } from '../../../store/tables/accounts.ts';
import { insertPendingAudit } from '../../../store/tables/audit.ts';
import type { Db } from '../../../store/store.ts';
import type { Caller, TaskDeps } from '../../kernel/ports.ts';

export interface AuditedRequest {
  route: string;
  outcome: string;
  caller: Pick<Caller, 'accountId' | 'username' | 'sessionId' | 'apiKeyId'> | null;
  /** Name of a login; null: another request. Recorded only if the account exists. */
  loginName: string | null;
  address: string;
  userAgent: string;
  /** Values of fields for ids; those without the form of an id are left out. */
  subjects: readonly unknown[];
  requestId: string;
  credential?: AuditCredential;
  /** Default: ID of the caller's API key or login. */
  credentialId?: string;
  /** Default: now. */
  atMs?: number;
}

interface UnwrittenRecord {
  request: AuditedRequest;
  count: number;
  atMs: number;
}

export interface RecordWriter {
  /** Resolves once durable, or once the record waits. */
  write(request: AuditedRequest): Promise<void>;
  retain(request: AuditedRequest, count: number): void;
  /** Throws while the store fails. */
  writeRetained(): Promise<void>;
  unwritten(): number;
}

interface RecordWriterDeps extends Pick<TaskDeps, 'store' | 'time' | 'log'> {
  onWritten: () => void;
}

/** About 10 MB. */
const MAX_UNWRITTEN = 10_000;
const WRITTEN_AT_ONCE = 100;
const MAX_USER_AGENT = 200;
/** HTTP allows U+0080 to U+009F, which end lines and steer terminals that show an export. */
const CONTROL = /\p{Cc}/gu;

export function makeRecordWriter({ store, time, log, onWritten }: RecordWriterDeps): RecordWriter {
  /** Oldest first. */
  const unwritten: UnwrittenRecord[] = [];
  let dropped = 0;
  let isFailing = false;
  let batch: { rows: AuditFields[]; stored: Promise<void> } | null = null;

  const insert = async (rows: readonly AuditFields[], begin: () => void = () => {}): Promise<void> =>
    store.write(async (tx) => {
      begin();
      for (const row of rows) await insertPendingAudit(tx, row);
    });

  /** Records of one turn share a transaction: rows may join until the store begins. */
  const join = (row: AuditFields): Promise<void> => {
    if (batch === null) {
      const rows: AuditFields[] = [];
      const end = (): void => void (batch = null);
      batch = { rows, stored: insert(rows, end).finally(end) };
    }
    batch.rows.push(row);
    return batch.stored;
  };

  const attempt = async (write: () => Promise<void>): Promise<void> => {
    try {
      await write();
    } catch (error) {
      if (!isFailing) log.error({ err: error }, 'the audit log cannot be written; Berth retries');
      isFailing = true;
      throw error;
    }
    onWritten();
    if (isFailing) log.warn({ dropped }, 'the audit log is written again');
    isFailing = false;
    dropped = 0;
  };

  const retain = (record: UnwrittenRecord): void => {
    if (unwritten.length < MAX_UNWRITTEN) unwritten.push(record);
    else dropped += 1;
    // A refusal changed nothing, and may name what a person typed.
    if (record.request.outcome === AUDIT_OK)
      log.error({ record }, 'an audit record waits in memory; until it is stored, this line is its only copy');
  };

  return {
    async write(request) {
      const record = { request, count: 1, atMs: request.atMs ?? time.now() };
      // While the store fails, no answer waits for another failure.
      if (isFailing) return retain(record);
      await attempt(async () => join(await fieldsOf(store.read, record))).catch(() => retain(record));
    },
    retain: (request, count) => retain({ request, count, atMs: request.atMs ?? time.now() }),
    async writeRetained() {
      while (unwritten.length > 0) {
        const some = unwritten.slice(0, WRITTEN_AT_ONCE);
        await attempt(async () => insert(await Promise.all(some.map((record) => fieldsOf(store.read, record)))));
        unwritten.splice(0, some.length);
      }
    },
    unwritten: () => unwritten.length,
  };
}

async function fieldsOf(db: Db, { request, count, atMs }: UnwrittenRecord): Promise<AuditFields> {
  const { route, outcome, caller, loginName, address, userAgent, subjects, requestId, ...given } = request;
  // People type passwords into the wrong field: an unknown name is not stored.
  const named = caller === null && loginName !== null ? await accountByLogin(db, loginName) : undefined;
  const credential = caller === null ? 'none' : caller.apiKeyId === undefined ? 'login' : 'apiKey';
  return {
    atMs,
    accountId: caller?.accountId ?? named?.id ?? '',
    username: caller?.username ?? named?.username ?? '',
    credential: given.credential ?? credential,
    credentialId: given.credentialId ?? caller?.apiKeyId ?? caller?.sessionId ?? '',
    address,
    userAgent: userAgent.slice(0, MAX_USER_AGENT).replaceAll(CONTROL, ' '),
    route,
    subjects: JSON.stringify(subjectsOf(subjects)),
    outcome,
    count,
    requestId,
  };
}
