/** Two PostgreSQL servers of one test, a primary and its standby, under load. */
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { onTestFinished } from 'vitest';
import { lockDatabase } from '../../../src/store/db/database-lock.ts';
import { openStore } from '../../../src/store/open.ts';
import { eventually } from '../../fixtures/eventually.ts';
import type { PostgresOptions } from '../../fixtures/postgres-server.ts';
import { administer } from '../../fixtures/postgres-template.ts';
import { quietLog } from '../../fixtures/store.ts';
import { tcpServer } from './own-server.ts';
import { accountRow } from './rows.ts';

const hba = 'local all,replication all trust\nhost all all 127.0.0.1/32 scram-sha-256\n';

/** A primary, and a standby that confirms each commit. */
export async function makePair(options: Pick<PostgresOptions, 'native'> = {}) {
  const primary = await tcpServer({ ...options, files: { 'pg_hba.conf': hba } });
  await primary.halt();
  const conninfo = `host=${primary.folder} port=${primary.port} user=berth application_name=standby`;
  const standby = await tcpServer({
    ...options,
    copyOf: primary.data,
    files: { 'pg_hba.conf': hba, 'standby.signal': '' },
    settings: { primary_conninfo: conninfo },
  });
  await primary.restart();
  await administer(primary.socket, `alter system set synchronous_standby_names = 'standby'`);
  await administer(primary.socket, 'select pg_reload_conf()');
  return { primary, standby };
}

/** Writes accounts at both servers, by eight writers. */
export async function makeWriters({ primary, standby }: Awaited<ReturnType<typeof makePair>>) {
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  const url = `postgres://berth:sesame@${hosts}/postgres?target_session_attrs=read-write`;
  const store = await openStore({ url, log: quietLog, connectTimeoutMs: 2_000 });
  onTestFinished(() => store.stop());
  const lockOptions = { url, log: quietLog, onLost: () => {}, checkEveryMs: 2_000 };
  const lock = await lockDatabase({ ...lockOptions, onSilence: () => store.dropConnections?.() });
  onTestFinished(() => lock.release());
  const held: boolean[] = [];
  lock.onChange(() => held.push(lock.isHeld()));
  const isSynchronous = sql<{ state: string }>`select sync_state as state from pg_stat_replication`;
  await eventually(async () => (await isSynchronous.execute(store.read)).rows[0]?.state === 'sync');

  const answered: string[] = [];
  const errors: unknown[] = [];
  let next = 0;
  let isWriting = true;
  const writer = async (): Promise<void> => {
    while (isWriting) {
      const id = `a${next++}`;
      const write = store.write((tx) => tx.insertInto('account').values(accountRow({ id })).execute());
      await write.then(
        () => void answered.push(id),
        async (error: unknown) => {
          errors.push(error);
          await sleep(20);
        },
      );
    }
  };
  const writers = Array.from({ length: 8 }, writer);
  await eventually(() => answered.length > 50);
  return {
    store,
    held,
    errors,
    lockAgain: () => lockDatabase(lockOptions),
    goesOn: async () => {
      const before = answered.length;
      await eventually(() => answered.length > before + 50);
      await eventually(() => held.at(-1) === true);
    },
    /** Answered writes that are not stored. */
    lost: async () => {
      isWriting = false;
      await Promise.all(writers);
      const rows = await store.read.selectFrom('account').select('id').execute();
      const stored = new Set(rows.map(({ id }) => id));
      return answered.filter((id) => !stored.has(id));
    },
  };
}
