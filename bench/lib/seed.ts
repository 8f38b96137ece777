/**
 * Data folders with many rows: one account and one instance written by the store's functions, then
 * copied in SQL with their own ids, owners and times. A million rows take minutes and equal a
 * million launches. Rows of different owners interleave.
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeNotebookTokens } from '../../src/control/access/routing/notebook-tokens.ts';
import { settingOfTexts } from '../../src/control/regions/region-texts.ts';
import { makeSeal } from '../../src/control/kernel/seal.ts';
import { noUsage } from '../../src/domain/storage/disk.ts';
import { sql } from 'kysely';
import { startServer } from '../../src/main/server.ts';
import { insertAccount } from '../../src/store/tables/accounts.ts';
import { insertInstance } from '../../src/store/tables/instances.ts';
import { catalogImages, catalogInstanceTypes, regionsWithUsage, saveSetting } from '../../src/store/tables/catalog.ts';
import { instanceIdOf, userId } from '../../src/domain/kernel/ids.ts';
import { noStopPolicy } from '../../src/domain/compute/stop-policy.ts';
import { beginOperation, endOperation } from '../../src/domain/compute/operation.ts';
import type { Instance } from '../../src/domain/compute/instance.ts';
import type { Store } from '../../src/store/store.ts';
import { configOf, quietLog, simulated } from './settings.ts';

const EACH = 100;
const AT_ONCE = 20_000;
const FIRST_LAUNCH_MS = 1_780_000_000_000;
const TEMPLATE_OWNER = 'bench-template-owner-0000';
const TEMPLATE_UUID = '00000000-0000-4000-a000-000000000000';

export const ownerName = (index: number): string => `owner-${index}`;

/** Creates `rows` stopped instances, `each` per owner. */
export async function seed(
  dataFolder: string,
  rows: number,
  say: (text: string) => void,
  { each = EACH, gatewayPort = 0 }: { each?: number; gatewayPort?: number } = {},
): Promise<void> {
  const server = await startServer({ config: configOf(simulated(dataFolder, { gatewayPort })), log: quietLog });
  try {
    const owners = Math.ceil(rows / each);
    await seedOwners(server.store, owners, each);
    await seedTemplate(server.store);
    for (let from = 0; from < rows; from += AT_ONCE) {
      await copyTemplate(server.store, from, Math.min(rows, from + AT_ONCE), owners);
      if (from > 0 && from % (10 * AT_ONCE) === 0) say(`  ${from.toLocaleString('en')} rows`);
    }
    await server.store.write(async (tx) => {
      await sql`delete from instance where "ownerId" = ${TEMPLATE_OWNER}`.execute(tx);
      await sql`delete from account where id = ${TEMPLATE_OWNER}`.execute(tx);
    });
    await sealTokens(server.store, dataFolder);
    // The copies have the facts of now: a server that compares them all would do so while measured.
    for (const { region } of await regionsWithUsage(server.store.read)) {
      const { name, current } = settingOfTexts(region);
      await server.store.write((tx) => saveSetting(tx, name, current));
    }
  } finally {
    await server.stop();
  }
}

/** Seals the copies of the template's token, each for its row, as a launch does. */
async function sealTokens(store: Store, dataFolder: string): Promise<void> {
  const seal = makeSeal({ key: await readFile(join(dataFolder, 'secrets.key')), randomBytes });
  const tokens = makeNotebookTokens({ seal, randomBytes });
  const rows = await store.read.selectFrom('instance').select(['id', 'notebookToken']).execute();
  await store.write(async (tx) => {
    for (const { id, notebookToken } of rows)
      await tx
        .updateTable('instance')
        .set({ notebookToken: tokens.seal(id, notebookToken) })
        .where('id', '=', id)
        .execute();
  });
}

/** Same password as the admin. */
async function seedOwners(store: Store, owners: number, each: number): Promise<void> {
  await store.write(async (tx) => {
    const admin = await tx.selectFrom('account').selectAll().where('username', '=', 'admin').executeTakeFirstOrThrow();
    const { passwordHash, createdAtMs } = admin;
    const row = { passwordHash, createdAtMs, email: '', roles: '["user"]', disabled: 0 as const };
    await insertAccount(tx, { id: TEMPLATE_OWNER, username: TEMPLATE_OWNER, ...row });
    await sql`
      with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${owners})
      insert into account (id, username, email, "passwordHash", roles, "createdAtMs", disabled, "instanceCount", version)
      select ${idOf(sql`i`)}, 'owner-' || i, '', ${passwordHash}, '["user"]', ${createdAtMs}, 0, ${each}, 1 from n`.execute(
      tx,
    );
  });
}

export const idOf = (i: ReturnType<typeof sql>) => sql`printf('0ba5e000-0000-4000-a000-%012d', ${i})`;

async function seedTemplate(store: Store): Promise<void> {
  const [counted] = await regionsWithUsage(store.read);
  const [image] = await catalogImages(store.read);
  const [type] = await catalogInstanceTypes(store.read);
  if (!counted || !image || !type) throw new Error('the new installation has nothing on offer');
  const { regionId, pricesMicros, ...typed } = type;
  const instance: Instance = {
    id: instanceIdOf(TEMPLATE_UUID),
    ownerId: userId(TEMPLATE_OWNER),
    ownerName: TEMPLATE_OWNER,
    createdAtMs: FIRST_LAUNCH_MS,
    spec: {
      name: 'experiment with señor Bach',
      regionId,
      image,
      type: typed,
      chargeMode: 'perHour',
      duration: 1,
      autoRenew: false,
      resume: false,
      isSpot: false,
      mounts: [],
      extraDataDiskGB: 20,
      enableCommonData: true,
      enableDocker: false,
      dockerStorageGB: 0,
      initScript: 'pip install --user numpy pandas\n',
      cpuOnlyPriceMicros: null,
      startCommand: '',
      runImageCommand: false,
    },
    priceMicros: pricesMicros.perHour,
    nodePorts: [22, 8000, 8888].map((port) => ({ port, nodePort: 30_000 + port })),
    desired: 'stopped',
    generation: 2,
    mustHalt: false,
    everEnsured: true,
    rootDisk: 'none',
    filesStale: false,
    attempts: 0,
    requestedAtMs: FIRST_LAUNCH_MS,
    initExit: 0,
    waitsSinceMs: null,
    waitsUntilMs: null,
    notBeforeMs: null,
    windowEndsAtMs: null,
    reclaimAtMs: null,
    stopPolicy: noStopPolicy,
    archive: null,
    revision: 0,
    pending: null,
    oldContainer: null,
    unfinished: [],
    diskUsage: noUsage,
    operation: endOperation(beginOperation('stop', 'user', FIRST_LAUNCH_MS), 'Succeeded', FIRST_LAUNCH_MS),
    observed: {
      status: 'Stopped',
      phase: 'Stopped',
      diagnosis: '',
      diagnosisMessage: '',
      message: 'the init script ended with exit code 0',
      healthy: false,
      runningSinceMs: 0,
      runStartedAtMs: 0,
      ending: null,
      lostGpu: null,
      memoryKills: null,
      countedFromMs: 0,
      answersBy: 'ssh',
      sshFront: false,
      initFailure: '',
      startExit: null,
      startFailure: '',
      imageNote: '',
      notebook: null,
      progress: null,
      stoppedAtMs: FIRST_LAUNCH_MS + 3_600_000,
    },
  };
  await store.write((tx) => insertInstance(tx, instance, counted.region, { notebookToken: 'a secret', dueAtMs: null }));
}

async function copyTemplate(store: Store, from: number, to: number, owners: number): Promise<void> {
  const columns = await sql<{ name: string }>`select name from pragma_table_info('instance')`.execute(store.read);
  const names = columns.rows.map(({ name }) => name);
  const created = sql`(${FIRST_LAUNCH_MS} + i)`;
  const values = names.map((name) => {
    if (name === 'id') return sql`'notebook-' || uuid`;
    if (name === 'ownerId') return idOf(sql`(i % ${owners})`);
    if (name === 'ownerName') return sql`'owner-' || (i % ${owners})`;
    if (name === 'createdAtMs') return created;
    if (name === 'holdsCapacity') return sql`0`;
    if (name !== 'publicText') return sql.ref(`instance.${name}`);
    const owned = sql`replace(instance."publicText", ${TEMPLATE_OWNER}, ${idOf(sql`(i % ${owners})`)})`;
    const made = `"createAtUnixMs":${FIRST_LAUNCH_MS}`;
    return sql`replace(replace(${owned}, ${TEMPLATE_UUID}, uuid), ${made}, '"createAtUnixMs":' || ${created})`;
  });
  const hex = (bytes: number) => sql`lower(hex(randomblob(${bytes})))`;
  const uuid = sql`${hex(4)} || '-' || ${hex(2)} || '-4' || substr(${hex(2)}, 2) || '-a' || substr(${hex(2)}, 2) || '-' || ${hex(6)}`;
  await store.write(async (tx) => {
    await sql`
      with recursive n(i) as (select ${from} union all select i + 1 from n where i + 1 < ${to}),
        fresh as materialized (select i, ${uuid} as uuid from n)
      insert into instance (${sql.join(names.map((name) => sql.ref(name)))})
      select ${sql.join(values)} from fresh cross join instance where instance.id = ${`notebook-${TEMPLATE_UUID}`}`.execute(
      tx,
    );
  });
}
