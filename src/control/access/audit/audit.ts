/**
 * # Audit log
 *
 *     request ──record──► auditPending ──seal, within a second──► audit (position, hash)
 *
 * The edge records each request of a route that changes something or needs a role, before the
 * answer. A record that can't be stored waits, and changes no answer (`record-writer.ts`). Sealing
 * gives positions in the order of insertion and chains the hashes. The head is stored twice: in the
 * database, with the records, and in the data folder, so that a database put back or cut at its end
 * is found.
 */
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { AUDIT_OK, type ChainLink } from '../../../domain/access/audit.ts';
import {
  auditAfter,
  auditHead,
  auditPage,
  deleteAuditBefore,
  insertSealedAudit,
  pendingAudit,
  saveAuditHead,
  subjectsOfRow,
  type AuditFilter,
  type AuditRow,
} from '../../../store/tables/audit.ts';
import type { Db } from '../../../store/store.ts';
import { addressBucket } from '../address-bucket.ts';
import { makeAuditChain } from './chain.ts';
import { makeRecordWriter, type AuditedRequest } from './record-writer.ts';
import { makeRefusalCounts } from './refusal-counts.ts';
import type { Pager, TaskDeps } from '../../kernel/ports.ts';

export interface Audit {
  /**
   * Resolves once durable, or once the record waits for a store that failed; never rejects. A flood
   * of refusals is counted, and recorded by the minute.
   */
  record(request: AuditedRequest): Promise<void>;
  list(
    filter: AuditFilter,
    pager: Pager,
  ): Promise<{ records: (Omit<AuditRow, 'subjects'> & { subjects: string[] })[]; totalEntries: number }>;
}

/** Head of the chain outside of the database. */
export interface AuditHeadFile {
  read(): Promise<ChainLink | null>;
  write(head: ChainLink): Promise<void>;
}

export interface AuditDeps extends Pick<TaskDeps, 'store' | 'time' | 'log'> {
  secretsKey: Uint8Array;
  auditHeadFile?: AuditHeadFile;
  /** Default: a year. */
  auditRetentionMs?: number;
  /** Whether the disk of the database is full; default no. */
  isFull?: () => boolean;
}

export interface RunningAudit extends Audit {
  seal(): Promise<void>;
  /** Call after a record was inserted without `record`. */
  noticePending(): void;
  /** Records that wait in memory, because the store failed. */
  unwritten(): number;
  deleteOld(): Promise<void>;
  /** Records what is counted, and seals all. */
  stop(): Promise<void>;
}

const YEAR_MS = 365 * 24 * 3_600_000;
const SEALED_AT_ONCE = 100;
const DELETED_AT_ONCE = 500;
/** A filter's count stops here. */
const MAX_TOTAL = 10_000;

export function makeAudit(deps: AuditDeps): RunningAudit {
  const { store, time, log, auditHeadFile, auditRetentionMs = YEAR_MS, isFull = () => false } = deps;
  const chain = makeAuditChain(deps.secretsKey);
  const counts = makeRefusalCounts<AuditedRequest>(time.elapsed);
  const writer = makeRecordWriter({ store, time, log, onWritten: () => void (hasPending = true) });
  /** Rows may wait since the last run of the server. */
  let hasPending = true;
  let isStopping = false;
  let fileState: 'unknown' | 'ours' | 'ahead' = 'unknown';

  const sealSome = (): Promise<{ sealed: number; head: ChainLink }> =>
    store.write(async (tx) => {
      const pending = await pendingAudit(tx, SEALED_AT_ONCE);
      let head = await auditHead(tx);
      if (pending.length === 0) return { sealed: 0, head };
      const rows = pending.map(({ record }) => {
        const position = head.position + 1;
        head = { position, hash: chain.hashOf(record, position, head.hash) };
        return { ...record, ...head };
      });
      await insertSealedAudit(tx, { pendingIds: pending.map(({ id }) => id), rows });
      await saveAuditHead(tx, head);
      return { sealed: pending.length, head };
    });

  /** Never overwrites the proof that records of the database are gone. */
  const checkHeadFile = async (): Promise<void> => {
    const head = await auditHeadFile?.read();
    if (!head) return void (fileState = 'ours');
    const [row] = await auditAfter(store.read, head.position - 1, 1);
    const { position } = await auditHead(store.read);
    const isGone = head.position > position || (row?.position === head.position && row.hash !== head.hash);
    fileState = isGone ? 'ahead' : 'ours';
    if (isGone)
      log.error(
        { position: head.position, found: position },
        'records of the audit log are missing or replaced: an older database was restored, or it was changed. `npm run audit -- verify` says more; remove audit-head of the data folder to accept this',
      );
  };

  const sealOnce = async (): Promise<void> => {
    for (const { entry, count } of counts.takeOver({ all: isStopping })) writer.retain(entry, count);
    await writer.writeRetained();
    if (!hasPending) return;
    hasPending = false;
    try {
      if (fileState === 'unknown') await checkHeadFile();
      let sealed;
      let total = 0;
      do {
        sealed = await sealSome();
        total += sealed.sealed;
      } while (sealed.sealed === SEALED_AT_ONCE);
      if (total > 0 && fileState === 'ours') await auditHeadFile?.write(sealed.head);
    } catch (error) {
      hasPending = true;
      throw error;
    }
  };

  // A seal at the end of the program waits for the one of the scheduler.
  const sealing = makeKeyedMutex<'seal'>();
  const seal = () => sealing.run('seal', sealOnce);

  return {
    async record(request) {
      // These alone would use up the reserve that they were refused for.
      if (request.outcome === 'storage_full') return;
      if (request.outcome !== AUDIT_OK) {
        // On a full disk strangers must not use up the reserve by refusals.
        const keys = keysOf(request);
        const own = isFull() ? keys.shared : keys.own;
        if (!counts.admits({ ...keys, own }, request, withoutNames(request))) return;
      }
      await writer.write(request);
    },
    async list(filter, { currentPage, pageSize }) {
      const span = { limit: pageSize, offset: (currentPage - 1) * pageSize, maxTotal: MAX_TOTAL };
      const { rows, total } = await auditPage(store.read, filter, span);
      return { records: rows.map((row) => ({ ...row, subjects: subjectsOfRow(row) })), totalEntries: total };
    },
    seal,
    noticePending() {
      hasPending = true;
    },
    unwritten: writer.unwritten,
    async deleteOld() {
      const some = (tx: Db): Promise<number> =>
        deleteAuditBefore(tx, time.now() - auditRetentionMs, { limit: DELETED_AT_ONCE, macOf: chain.anchorMac });
      while ((await store.write(some)) === DELETED_AT_ONCE);
    },
    async stop() {
      isStopping = true;
      try {
        await seal();
      } catch (error) {
        const facts = { err: error, unwritten: writer.unwritten() };
        log.warn(facts, 'the last records of the audit log were not sealed; the next start seals what is stored');
      }
    },
  };
}

function keysOf({ route, outcome, caller, loginName, address }: AuditedRequest): { own: string; shared: string } {
  const shared = `${route} ${outcome}`;
  const who = caller === null ? `${addressBucket(address)} ${loginName?.toLowerCase() ?? ''}` : caller.accountId;
  return { own: `${shared} ${who}`, shared };
}

const withoutNames = (request: AuditedRequest): AuditedRequest => ({
  ...request,
  caller: null,
  loginName: null,
  address: '',
  userAgent: '',
  subjects: [],
  requestId: '',
});
