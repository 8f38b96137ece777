/** Deletion of an account: what will be lost, the grace time, and that nothing is left. */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { accountTables } from '../../../src/store/tables/account-rows.ts';
import type { Store } from '../../../src/store/store.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';

const DAY_MS = 24 * 3_600_000;

/** Columns that name an account, as `table.column`. */
async function accountColumns(store: Store): Promise<string[]> {
  const query =
    store.kind === 'sqlite'
      ? sql<{ at: string }>`select m.name || '.' || p.name as at from sqlite_master m, pragma_table_info(m.name) p
          where m.type = 'table' and p.name in ('accountId', 'ownerId', 'holderId')`
      : sql<{ at: string }>`select table_name || '.' || column_name as at from information_schema.columns
          where table_schema = current_schema() and column_name in ('accountId', 'ownerId', 'holderId')`;
  return (await query.execute(store.read)).rows.map(({ at }) => at);
}

/** Not deleted with the account: the audit log, what engines have, and disks, deleted before. */
const retained = ['audit.accountId', 'orphan.ownerId', 'disk.ownerId'];
/** The books of the installation outlive the account. */
const books = ['amortization.accountId', 'usagePeriod.accountId', 'entry.accountId', 'payment.accountId'];

onBothEngines('deletion of an account', (open) => {
  test('covers every column that names an account', async () => {
    const columns = await accountColumns(await open());
    const deleted = accountTables.map(([table, column]) => `${table}.${column}`);
    expect([...deleted, ...retained, ...books].toSorted()).toEqual(columns.toSorted());
  });

  test('names what will be lost, can be taken back, and leaves nothing after the grace time', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock, hurry: 20 });
    const { store, storage, engine } = world;
    const { control } = world.running;
    const owner = await world.account('anna');
    const { accountId } = owner;
    const { instanceId } = await control.instances.launch(owner, world.launchInput({ name: 'train' }), null);
    await world.until(instanceId, hasStatus('Running'));
    const region = world.drivers.regionId;
    const body = { name: 'data', sizeGB: 3, region, volumeType: 'filesystem' as const };
    const volume: { id: string } = JSON.parse((await control.volumes.create(owner, body, null)).volumeText);
    const isBound = async () => (await control.volumes.get(owner, volume)).volumeText.includes('"Bound"');
    await eventually(isBound);
    await control.snapshots.create(owner, { volumeId: volume.id, name: 'kept' }, null);

    const { accounts } = control;
    const request = { accountId, reason: 'left' };
    const { account, lost } = await accounts.delete(world.caller, request, null);
    expect(account).toMatchObject({ state: 'deleting', deleteAtMs: expect.any(Number) });
    expect(lost).toMatchObject({
      counts: { instances: 1, volumes: 1, volumeGB: 3, snapshots: 1, images: 0 },
      instances: [{ id: instanceId, name: 'train' }],
      volumes: [{ id: volume.id, name: 'data', sizeGB: 3 }],
      snapshots: [{ name: 'kept' }],
    });
    await expectRefused(accounts.delete(world.caller, request, null), 'not_now', /account\/restore/);
    await expectRefused(accounts.enable(world.caller, request, null), 'not_now', /account\/restore/);
    const login = { username: 'anna', password: 'battery staple' };
    await expectRefused(control.access.login(login, '127.0.0.1'), 'forbidden', /being deleted/);
    await world.until(instanceId, hasStatus('Stopped'));

    expect((await accounts.restore(world.caller, { accountId }, null)).account).toMatchObject({ state: 'active' });
    await control.access.login(login, '127.0.0.1');
    await expectRefused(accounts.restore(world.caller, { accountId }, null), 'not_now', /not being deleted/);

    await accounts.delete(world.caller, request, null);
    clock.aheadMs += 7 * DAY_MS - 60_000;
    const act = () =>
      store.read.selectFrom('dueAct').selectAll().where('id', '=', `deleteAccount/${accountId}`).execute();
    expect(await act()).toMatchObject([{ leaseOwner: null, attempts: 0, error: null }]);
    const runs = async () => (await control.tasks.list()).find(({ name }) => name === 'due work')?.runs ?? 0;
    const before = await runs();
    await eventually(async () => (await runs()) >= before + 2);
    expect((await accounts.get(accountId)).holdings.counts).toMatchObject({ instances: 1, volumes: 1 });
    clock.aheadMs += 60_000;
    await expectRefused(accounts.restore(world.caller, { accountId }, null), 'not_now', /has begun/);
    await eventually(() =>
      accounts.get(accountId).then(
        () => false,
        () => true,
      ),
    );
    for (const column of (await accountColumns(store)).filter((name) => !books.includes(name))) {
      const [table = '', name = ''] = column.split('.');
      const { rows } = await sql`select 1 from ${sql.table(table)} where ${sql.ref(name)} = ${accountId}`.execute(
        store.read,
      );
      expect([column, rows]).toEqual([column, []]);
    }
    expect(await storage.listOwned()).toEqual([]);
    expect((await engine.listOwned(AbortSignal.timeout(10_000))).filter(({ id }) => id === instanceId)).toEqual([]);
    const [event] = await store.read.selectFrom('event').selectAll().where('kind', '=', 'account.deleted').execute();
    expect(event).toMatchObject({ accountId: world.caller.accountId, subjectId: accountId });
    expect((await world.account('anna')).accountId).not.toBe(accountId);
  });
});

onBothEngines('deletion of administrators', (open) => {
  test('is refused for the last one, and restores a disabled account as disabled', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { accounts } = world.running.control;
    const { accountId } = world.caller;
    const last = /last enabled administrator, and cannot be deleted/;
    await expectRefused(accounts.delete(world.caller, { accountId, reason: '' }, null), 'not_now', last);
    const anna = { accountId: (await world.account('anna')).accountId, reason: 'unpaid' };
    await accounts.disable(world.caller, anna, null);
    await accounts.delete(world.caller, anna, null);
    const { account } = await accounts.restore(world.caller, anna, null);
    expect(account).toMatchObject({ state: 'disabled', reason: 'unpaid' });
  });
});
