/**
 * Accounts with volumes: one volume each is created through the API and stays Pending, as the loop
 * is idle; the rest are SQL copies with their own ids, names and times. No disks are created.
 */
import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { makeClient } from '../../src/contract/client.ts';
import { startServer } from '../../src/main/server.ts';
import type { Store } from '../../src/store/store.ts';
import { configOf, PASSWORD, quietLog, simulated } from './settings.ts';

/** Fills the data folder with accounts, with the benches' password and this many volumes each. */
export async function seedVolumes(dataFolder: string, accounts: Record<string, number>): Promise<void> {
  const server = await startServer({ config: configOf(simulated(dataFolder)), log: quietLog });
  try {
    const { drivers } = server.drivers;
    while (!drivers.health.answers) await new Promise((resolve) => setTimeout(resolve, 5));
    await server.running.stop();
    const baseUrl = `${server.apiUrl}/api`;
    const signedIn = async (username: string) => {
      const { accessToken } = await makeClient({ baseUrl }).login({ username, password: PASSWORD });
      return makeClient({ baseUrl, credential: { kind: 'token', token: accessToken } });
    };
    const admin = await signedIn('admin');
    for (const [username, count] of Object.entries(accounts)) {
      await admin.createUser({ username, email: `${username}@bench.test`, password: PASSWORD, balance: 1_000 });
      const owner = await signedIn(username);
      const name = `volume-of-${randomUUID()}`;
      const { region } = server.example;
      const { volume } = await owner.createVolume({ name, sizeGB: 1, region, volumeType: 'filesystem' });
      await copyVolume(server.store, { id: volume.id, name, count });
    }
  } finally {
    await server.stop();
  }
}

async function copyVolume(store: Store, { id, name, count }: { id: string; name: string; count: number }) {
  const columns = await sql<{ name: string }>`select name from pragma_table_info('volume')`.execute(store.read);
  const numbered = sql`printf('-%05d', i)`;
  const values = columns.rows.map((column) => {
    if (column.name === 'id') return sql`uuid`;
    if (column.name === 'name' || column.name === 'liveName') return sql`${sql.ref(column.name)} || ${numbered}`;
    if (column.name === 'createdAtMs') return sql`"createdAtMs" + i`;
    if (column.name === 'dueAtMs') return sql`null`;
    if (column.name !== 'publicText') return sql.ref(column.name);
    return sql`replace(replace("publicText", ${id}, uuid), ${name}, ${name} || ${numbered})`;
  });
  const hex = (bytes: number) => sql`lower(hex(randomblob(${bytes})))`;
  const uuid = sql`${hex(4)} || '-' || ${hex(2)} || '-4' || substr(${hex(2)}, 2) || '-a' || substr(${hex(2)}, 2) || '-' || ${hex(6)}`;
  await store.write(async (tx) => {
    await sql`
      with recursive n(i) as (select 1 where ${count} > 1 union all select i + 1 from n where i + 1 < ${count}),
        fresh as materialized (select i, ${uuid} as uuid from n)
      insert into volume (${sql.join(columns.rows.map((column) => sql.ref(column.name)))})
      select ${sql.join(values)} from fresh cross join volume where volume.id = ${id}`.execute(tx);
    await sql`
      update account set "volumeCount" = ${count}, version = version + 1
      where id = (select "ownerId" from volume where id = ${id})`.execute(tx);
  });
}
