/** Requests that wait in the queue of reports, and how many rows all others read at most. */
import { readFile } from 'node:fs/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { countingRows } from '../../../src/async/rows-read.ts';
import { MAX_PAGE_SIZE } from '../../../src/contract/common.ts';
import { exampleOf } from '../../../src/contract/examples.ts';
import { BASE_PATH, jsonRouteNames, jsonRouteOf } from '../../../src/contract/routes.ts';
import type { Caller, Control } from '../../../src/control/index.ts';
import { bodyOf, exampleRequest, fieldsOf } from '../server/route-requests.ts';
import { ids as catalogIds } from './control-fixture.ts';
import { fakeCaller, fakeControl } from './fake-control.ts';
import { launchRequest, startApi, startEdge, type Account, type TestApi } from './harness.ts';

const queuedFile = new URL('../../expected/queued-routes.txt', import.meta.url);
const ROWS = 3_000;
/** Reports of an account that may be under way. */
const UNDER_WAY = 16;
const closed = jsonRouteNames.filter((name) => jsonRouteOf(name).who !== 'anyone');
const reads = jsonRouteNames.filter((name) => jsonRouteOf(name).reads);

let api: TestApi;
let alice: Account;
let ids: Record<string, string>;

/** Copies a row of a table; `changed` are columns by `i`, '' for one that the database fills. */
async function multiply(table: string, changed: Record<string, string>): Promise<void> {
  await api.wired.store.write(async (tx) => {
    const { rows } = await sql<{ name: string }>`select name from pragma_table_info(${table})`.execute(tx);
    const columns = rows.map(({ name }) => name).filter((name) => changed[name] !== '');
    const values = columns.map((name) => (changed[name] === undefined ? sql.ref(name) : sql.raw(changed[name])));
    await sql`insert into ${sql.table(table)} (${sql.join(columns.map((name) => sql.ref(name)))})
      with recursive n(i) as (select 1 union all select i + 1 from n where i + 1 < ${sql.lit(ROWS)})
      select ${sql.join(values)} from n cross join (select * from ${sql.table(table)} limit 1)`.execute(tx);
  });
}

const numbered = (column: string): string => `substr("${column}", 1, length("${column}") - 6) || (100000 + i)`;

beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
  const { client } = alice;
  const { instanceId } = await client.launch(launchRequest());
  const volume = { name: 'v', sizeGB: 1, region: catalogIds.region, volumeType: 'filesystem' } as const;
  const { id: volumeId } = (await client.createVolume(volume)).volume;
  const { userId: accountId } = await client.userInfo({});
  ids = { instanceId, volumeId, accountId, username: alice.username };
  const { store } = api.wired;
  await store.write((tx) => tx.deleteFrom('event').where('subjectId', '<>', instanceId).execute());
  await store.write((tx) => tx.deleteFrom('session').where('accountId', '<>', accountId).execute());
  await multiply('event', { id: '', seq: '100 + i' });
  await multiply('entry', { id: '', accountId: `'${accountId}'`, kind: `'charge'`, atMs: String(Date.now() - 1) });
  await store.write((tx) =>
    tx
      .updateTable('account')
      .set({ eventSeq: ROWS + 100 })
      .execute(),
  );
  await multiply('session', { id: numbered('id') });
  await multiply('instance', { id: numbered('id') });
  await multiply('volume', { id: numbered('id'), liveName: "'v' || i" });
  await store.write((tx) =>
    sql`with recursive n(i) as (select 1 union all select i + 1 from n where i + 1 < ${sql.lit(ROWS)})
      insert into operation (id, "accountId", "subjectId", generation, kind, "archivedAtMs", operation)
      select ${instanceId} || '.' || (100 + i), ${accountId}, ${instanceId}, 100 + i, 'stop', 1, instance.operation
      from n join instance on instance.id = ${instanceId}`.execute(tx),
  );
});
afterAll(() => api.stop());

/** Questions to control, answered after `end`; `flooded` once more came than may be under way. */
function makeFlood() {
  let asked = 0;
  const { promise: flooded, resolve: flood } = Promise.withResolvers<null>();
  const { promise, resolve: end } = Promise.withResolvers<void>();
  const wait = async (): Promise<never> => {
    asked += 1;
    if (asked > UNDER_WAY) flood(null);
    await promise;
    throw new Error('asked');
  };
  return { wait, flooded, end };
}

/** A request is queued if one more than may be under way is refused while none is answered. */
test('the listed requests wait in the queue of reports', async () => {
  let flood = makeFlood();
  const given = { access: { authenticate: async (): Promise<Caller> => ({ ...fakeCaller, roles: ['admin'] }) } };
  const edge = await startEdge(fakeControl(given, () => () => flood.wait()));
  const queued: string[] = [];
  for (const name of closed) {
    flood = makeFlood();
    const { method, path, headers, body } = exampleRequest(name);
    const asked = Array.from({ length: UNDER_WAY + 1 }, () =>
      edge.send(path, { method, headers, body: body ?? undefined, token: 'any' }),
    );
    const answer = await Promise.race([...asked, flood.flooded]);
    if (answer?.status === 429) queued.push(name);
    flood.end();
    await Promise.all(asked);
  }
  await edge.stop();
  await expect(`${queued.join('\n')}\n`).toMatchFileSnapshot('../../expected/queued-routes.txt');
});

test('every other read reads 775 rows at most, of 3,000 of everything', async () => {
  const queued = new Set((await readFile(queuedFile, 'utf8')).split('\n'));
  const { control } = api.wired;
  const caller = await control.access.authenticate({ kind: 'token', token: alice.token });
  const access = { ...control.access, authenticate: async () => ({ ...caller, roles: ['admin' as const] }) };
  const quotas = { ...control.quotas, requestsPerSecond: () => 1 };
  const long: string[] = [];
  for (const name of reads.filter((one) => !queued.has(one))) {
    const { body: schema, path, method } = jsonRouteOf(name);
    const pager = { currentPage: 1, pageSize: MAX_PAGE_SIZE };
    const example = Object(exampleOf(schema));
    const body = {
      ...example,
      ...fieldsOf(name, { ...bodyOf(ids), source: 'events', tail: 5_000, pager }),
      ...(name === 'listOperations' ? { volumeId: undefined } : {}),
    };
    const edge = await startEdge({ ...control, access, quotas });
    const { status, headers } = await edge.send(BASE_PATH + path, {
      method,
      token: 'any',
      headers: method === 'POST' ? { 'content-type': 'application/json' } : {},
      body: method === 'POST' ? body : undefined,
    });
    await edge.stop();
    expect([200, 404, 409], `${name}: ${status}`).toContain(status);
    // Of 775 rows, 300 are free, and 25 each take one of ten requests and of ten that may be owed.
    if (headers.ratelimit === '"account";r=0;t=20') long.push(name);
  }
  // Has a limit of its own: most of its time is spent by engines, which must not hold up reports.
  expect(long).toEqual(['logs']);
});

test('a search by 32 labels takes three requests', async () => {
  const { control } = api.wired;
  const quotas = { ...control.quotas, requestsPerSecond: () => 1 };
  const edge = await startEdge({ ...control, quotas });
  const leftAfter = async (labels: object): Promise<unknown> => {
    const body = { pager: { currentPage: 1, pageSize: 10 }, labels };
    const { status, headers } = await edge.post('/instance/list', body, { token: alice.token });
    expect(status).toBe(200);
    return headers.ratelimit;
  };
  const labels = Object.fromEntries(Array.from({ length: 32 }, (_, index) => [`key-${index}`, 'value']));
  expect(await leftAfter(labels)).toBe('"account";r=7;t=3');
  await edge.stop();
});

/** Control that counts what its parts read, for `caller`. */
function countingControl(control: Control, caller: Caller, onRows: (rows: number) => void): Control {
  const counting = (methods: object): object =>
    Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [
        name,
        typeof method === 'function' ? (...args: unknown[]) => countingRows(onRows, () => method(...args)) : method,
      ]),
    );
  const parts = Object.entries(control).map(([name, part]) => [name, typeof part === 'object' ? counting(part) : part]);
  return { ...Object.fromEntries(parts), access: { ...control.access, authenticate: async () => caller } };
}

test('every other change of an account reads 150 rows at most before it writes', async () => {
  const queued = new Set((await readFile(queuedFile, 'utf8')).split('\n'));
  const { control } = api.wired;
  const caller = await control.access.authenticate({ kind: 'token', token: alice.token });
  let rows = 0;
  const edge = await startEdge(countingControl(control, caller, (more) => (rows += more)));
  const many: string[] = [];
  const failed: string[] = [];
  for (const name of closed.filter((one) => jsonRouteOf(one).who === 'account' && !queued.has(one))) {
    const { body: schema, path, method, reads: isRead } = jsonRouteOf(name);
    if (isRead) continue;
    rows = 0;
    const body = { ...Object(exampleOf(schema)), ...fieldsOf(name, bodyOf(ids)) };
    const { status } = await edge.send(BASE_PATH + path, {
      method,
      token: 'any',
      headers: { 'content-type': 'application/json' },
      body,
    });
    if (rows > 150) many.push(`${name}: ${rows}`);
    if (status >= 500) failed.push(`${name}: ${status}`);
  }
  await edge.stop();
  expect({ many, failed }).toEqual({ many: [], failed: [] });
});
