/**
 * A database of the first version, with rows in every state that it knew, is opened by this one: nothing is wrong in the lists at any
 * moment, each row has the operation that its wish would have, and passes go on with it as if nothing had been.
 */
import { expect, test } from 'vitest';
import { instance as instanceSchema } from '../../../src/contract/instance.ts';
import { operation as operationSchema } from '../../../src/contract/operation.ts';
import { nextStopPolicy } from '../../../src/domain/stop-policy.ts';
import { defaultLimits } from '../../../src/domain/instance-states.ts';
import type { Operation } from '../../../src/domain/operation.ts';
import { plan } from '../../../src/domain/plan.ts';
import { publicInstance } from '../../../src/domain/public-instance.ts';
import { publicOperation } from '../../../src/domain/public-operation.ts';
import { nodePortAddressOf } from '../../../src/main/addresses.ts';
import { readConfig } from '../../../src/main/config.ts';
import { refreshPublicTexts, keepNodePortAddress } from '../../../src/main/first-run.ts';
import { diskKey } from '../../../src/domain/disk.ts';
import { disksOfRegion } from '../../../src/store/tables/disks.ts';
import { sessionGrantsOf } from '../../../src/store/tables/gateway-grants.ts';
import { portAccessOf } from '../../../src/store/tables/port-access.ts';
import { poolsOf } from '../../../src/store/tables/pools.ts';
import { instanceFromRow, type InstanceRow } from '../../../src/store/tables/instances.ts';
import type { Store } from '../../../src/store/store.ts';
import { volumeFromRow } from '../../../src/store/tables/volumes.ts';
import { onBothEngines } from '../../fixtures/store.ts';

import {
  CREATED_MS,
  MESSAGE,
  NOW_MS,
  region,
  spec,
  upgraded,
  volumeOperations,
  WISHED_MS,
  olds,
  oldSessions,
  oldText,
  type Old,
} from './first-version.ts';

const rowsOf = async (store: Store): Promise<(readonly [Old, InstanceRow])[]> => {
  const rows = await store.read.selectFrom('instance').selectAll().execute();
  expect(rows.map(({ id }) => id).toSorted()).toEqual(Object.keys(olds).toSorted());
  return rows.flatMap((row) => {
    const old = olds[row.id];
    return old ? [[old, row] as const] : [];
  });
};

const rewrite = (store: Store): Promise<void> => refreshPublicTexts(store, region, new AbortController().signal);

const wholeOperation = (
  { kind, state, stage }: Old['operation'],
  atMs: number,
  error: Operation['error'] = null,
): Operation => ({
  kind,
  cause: 'user',
  startedAtMs: atMs,
  endedAtMs: stage === undefined ? atMs : null,
  state,
  stages: stage === undefined ? [] : [{ name: stage, startedAtMs: atMs, endedAtMs: null, progress: null }],
  error,
});

onBothEngines('an upgrade from the first version', { postgres: 'always' }, (open) => {
  test('leaves lists that keep the contract at once, and that say the same once all texts are written anew', async () => {
    const store = await upgraded(open);
    for (const [old, row] of await rowsOf(store)) {
      const text = instanceSchema.parse(JSON.parse(row.publicText));
      expect(text, row.id).toEqual({ ...JSON.parse(oldText(row.id, old)), actions: old.actions });
    }
    await rewrite(store);
    for (const [, row] of await rowsOf(store)) {
      const text = instanceSchema.parse(JSON.parse(row.publicText));
      expect(text, row.id).toEqual(publicInstance(instanceFromRow(row), region));
    }
    await store.stop();
  });

  test('writes the texts of another shape anew though the region is as it was, and once', async () => {
    const store = await upgraded(open);
    const spoil = () => store.write((tx) => tx.updateTable('instance').set({ publicText: '{}' }).execute());
    const spoilt = async () => (await rowsOf(store)).filter(([, { publicText }]) => publicText === '{}').length;
    await spoil();
    await rewrite(store);
    expect(await spoilt()).toBe(0);
    await spoil();
    await rewrite(store);
    expect(await spoilt()).toBe(Object.keys(olds).length);
    await store.stop();
  });

  test('gives each instance the operation that its wish would have, which passes go on with', async () => {
    const store = await upgraded(open);
    for (const [old, row] of await rowsOf(store)) {
      const instance = instanceFromRow(row);
      const error =
        old.operation.state === 'Failed'
          ? { reason: old.diagnosis ?? '', message: MESSAGE, whatToDo: expect.stringContaining('Start it again') }
          : null;
      expect(instance.operation, row.id).toEqual(wholeOperation(old.operation, WISHED_MS, error));
      operationSchema.parse(publicOperation(row.id, row.generation, instance.operation));
      expect(plan(instance, old.seen, NOW_MS, defaultLimits), row.id).toMatchObject({ do: old.step });
    }
    await store.stop();
  });

  test('gives each volume the operation that it would have', async () => {
    const store = await upgraded(open);
    const rows = await store.read.selectFrom('volume').selectAll().execute();
    const found = Object.fromEntries(rows.map((row) => [row.status, volumeFromRow(row).operation]));
    const should = Object.entries(volumeOperations).map(([status, told]) => [status, wholeOperation(told, CREATED_MS)]);
    expect(found).toEqual(Object.fromEntries(should));
    await store.stop();
  });

  test('writes down each disk, in the pool for all, which counts them', async () => {
    const store = await upgraded(open);
    const disks = await disksOfRegion(store.read, region.id, '', 1_000);
    const keys = disks.map(diskKey).toSorted();
    const data = (await rowsOf(store)).filter(([old]) => old.phase !== 'Cleaned').map(([, { id }]) => `data/${id}`);
    const volumes = Object.keys(volumeOperations).map((status) => `volume/volume-${status}`);
    expect(keys).toEqual([...data, ...volumes, `shared/ann/${region.id}`].toSorted());
    const sizes = new Map(disks.map((disk) => [disk.kind, disk.sizeGB]));
    expect(sizes).toEqual(
      new Map([
        ['data', spec.type.dataDiskGB + spec.extraDataDiskGB],
        ['shared', spec.type.dataDiskGB],
        ['volume', 1],
      ]),
    );
    const usedGB = disks.reduce((sum, { sizeGB }) => sum + sizeGB, 0);
    expect(await poolsOf(store.read, region.id)).toMatchObject([{ name: 'default', usedGB }]);
    expect(disks.every(({ pool, ownerId }) => pool === 'default' && ownerId === 'ann')).toBe(true);
    await store.stop();
  });

  test('gives sessions of the gateway ids to end them by, opened at the latest when they were last used; no port is set', async () => {
    const store = await upgraded(open);
    const found = await sessionGrantsOf(store.read, 'ann', WISHED_MS - 1);
    expect(found.map(({ hash, openedAtMs }) => ({ hash, openedAtMs }))).toEqual(
      oldSessions.map((hash) => ({ hash, openedAtMs: WISHED_MS - 24 * 3_600_000 })),
    );
    const ids = found.map(({ id }) => id);
    expect(new Set(ids).size).toBe(oldSessions.length);
    expect(ids.every((id) => id.length === 32)).toBe(true);
    for (const [, row] of await rowsOf(store)) expect(portAccessOf(row)).toEqual(new Map());
    await store.stop();
  });

  test('keeps node ports where they are, on the host of the API, unless they are told to be elsewhere', async () => {
    const store = await upgraded(open);
    const old = readConfig({ BERTH_PUBLIC_ADDRESS: region.sshAddress });
    const today = { ...readConfig({}), publicAddress: region.sshAddress };
    const addressOf = async (config: typeof today): Promise<string> =>
      nodePortAddressOf(await keepNodePortAddress(config, store, region.id));
    expect(await addressOf({ ...today, loopbackNodePortAddress: '127.0.0.2' })).toBe(await nodePortAddressOf(old));
    expect(await addressOf({ ...today, nodePortAddress: '127.0.0.3' })).toBe('127.0.0.3');
    const fresh = await keepNodePortAddress({ ...today, loopbackNodePortAddress: '127.0.0.2' }, store, 'none yet');
    expect(await nodePortAddressOf(fresh)).toBe('127.0.0.2');
  });

  test('lets the longest run be set on an instance that runs since before it, counted from its wish', async () => {
    const store = await upgraded(open);
    for (const [old, row] of await rowsOf(store)) {
      const { stopPolicy, observed } = instanceFromRow(row);
      expect(observed.runningSinceMs, row.id).toBe(old.status === 'Running' ? WISHED_MS : 0);
      const wish = { maxRunMs: 3_600_000 };
      expect(nextStopPolicy(stopPolicy, wish, observed, { capRunMs: null, idle: null }, NOW_MS), row.id).toEqual({
        ...stopPolicy,
        ...wish,
      });
    }
    await store.stop();
  });
});
