/** A server with one migrated database, of which the databases of tests are copies: a copy takes a tenth of the migrations' time. */
import pg from 'pg';
import { openStore } from '../../../src/store/open.ts';
import type { PostgresServer } from './postgres-server.ts';
import { startPostgres } from './postgres-server.ts';

export const TEMPLATE = 'berth_template';

export async function startWithTemplate(): Promise<PostgresServer> {
  const server = await startPostgres();
  try {
    await administer(server.urlOf('postgres'), `create database ${TEMPLATE}`);
    const store = await openStore({
      url: server.urlOf(TEMPLATE),
      log: { info: () => {}, warn: () => {}, error: () => {} },
    });
    await store.stop();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Runs one statement outside of any test's database. */
export async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
