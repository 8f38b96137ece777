/** A PostgreSQL of one test, which may be stopped. */
import { onTestFinished } from 'vitest';
import { freePort } from '../../fixtures/free-port.ts';
import { startPostgres, type PostgresOptions } from '../../fixtures/postgres-server.ts';
import { administer } from '../../fixtures/postgres-template.ts';

export async function ownServer(options: PostgresOptions = {}) {
  const server = await startPostgres(options);
  onTestFinished(() => server.stop());
  return server;
}

/** Listens on the loopback address, too, by a password. */
export async function tcpServer(options: PostgresOptions = {}) {
  const port = await freePort();
  const hba = 'local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n';
  const server = await ownServer({
    ...options,
    settings: {
      listen_addresses: '127.0.0.1',
      port: String(port),
      // Not the default of PostgreSQL 13.
      password_encryption: 'scram-sha-256',
      ...options.settings,
    },
    files: { 'pg_hba.conf': hba, ...options.files },
  });
  const socket = server.urlOf('postgres').replace(':5432', `:${port}`);
  if (options.copyOf === undefined) await administer(socket, `alter user berth password 'sesame'`);
  return { ...server, port, socket, url: `postgres://berth:sesame@127.0.0.1:${port}/postgres` };
}
