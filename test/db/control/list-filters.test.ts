/** Filters of lists, by names, labels and statuses, and the labels themselves. */
import { expect, test } from 'vitest';
import type { Labels } from '../../../src/domain/kernel/resource-labels.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, textOf, type World } from '../../fixtures/control.ts';
import { volumeOf } from './capacity-fixture.ts';
import { settled } from './consistency.ts';

const roomy = { cpuCores: 40, memoryMiB: 200 * 1024, architecture: 'amd64', gpus: [] };
const ALL = { currentPage: 1, pageSize: 100 };
const NAMES = ['100% GPU', 'under_score', 'Ünïcode Ñame', 'plain', 'PLAIN two'];

type Shown = PublicInstance & { labels?: Labels };
type Filter = Parameters<World['running']['control']['instances']['list']>[2];

async function found(world: World, filter?: Filter, pager = ALL): Promise<{ names: string[]; total: number }> {
  const { texts, totalEntries } = await world.running.control.instances.list(world.caller, pager, filter);
  const instances: Shown[] = JSON.parse(`[${texts.map(textOf).join(',')}]`);
  return { names: instances.map(({ instanceSpecInfo }) => instanceSpecInfo.name), total: totalEntries };
}

/** A world with an instance of each name, each launched later than the one before. */
async function openPopulated(open: Open) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(await open(), { machine: roomy, clock });
  const ids = new Map<string, string>();
  for (const [at, name] of NAMES.entries()) {
    const labels = { parity: at % 2 === 0 ? 'even' : 'odd', 'example.org/name': '', n: String(at) };
    const launched = await world.running.control.instances.launch(
      world.caller,
      world.launchInput({ name, ...(at === 0 ? {} : { labels }) }),
      null,
    );
    ids.set(name, launched.instanceId);
    clock.aheadMs += 1;
  }
  for (const id of ids.values()) await world.until(id, hasStatus('Running'));
  return { world, clock, ids };
}

onBothEngines('filters of lists', { postgres: 'always' }, (open) => {
  test('find names by a part in any letter case, with % and _ as themselves', async () => {
    const { world } = await openPopulated(open);
    const named = async (name: string): Promise<string[]> => (await found(world, { name })).names.toSorted();
    expect(await named('plain')).toEqual(['PLAIN two', 'plain']);
    expect(await named('PLAIN')).toEqual(['PLAIN two', 'plain']);
    expect(await named('ÜNÏ')).toEqual(['Ünïcode Ñame']);
    expect(await named('u\u0308ni\u0308CODE')).toEqual(['Ünïcode Ñame']);
    expect(await named('%')).toEqual(['100% GPU']);
    expect(await named('_')).toEqual(['under_score']);
    expect(await named('d%e')).toEqual([]);
    expect(await named("'; drop table instance; --")).toEqual([]);
    expect(await named('')).toHaveLength(NAMES.length);
    // Of this account only.
    const ada = await world.account('ada');
    expect(await world.running.control.instances.list(ada, ALL, { name: 'plain' })).toEqual({
      texts: [],
      totalEntries: 0,
    });
  });

  test('find labels exactly, all of them, and totals and pages follow the filter', async () => {
    const { world, ids } = await openPopulated(open);
    expect((await found(world, { labels: { parity: 'odd' } })).names).toEqual(['plain', 'under_score']);
    expect((await found(world, { labels: { parity: 'even', n: '2' } })).names).toEqual(['Ünïcode Ñame']);
    expect((await found(world, { labels: { parity: 'Odd' } })).names).toEqual([]);
    expect((await found(world, { labels: { 'example.org/name': '' } })).total).toBe(4);
    const filter = { labels: { 'example.org/name': '' } };
    expect(await found(world, filter, { currentPage: 2, pageSize: 3 })).toEqual({ names: ['under_score'], total: 4 });
    expect(await found(world, filter, { currentPage: 9, pageSize: 3 })).toEqual({ names: [], total: 4 });
    expect(await found(world, undefined, { currentPage: 2, pageSize: 3 })).toMatchObject({ total: 5 });
    // Labels of another account are not found.
    const ada = await world.account('ada');
    const { totalEntries } = await world.running.control.instances.list(ada, ALL, { labels: { parity: 'odd' } });
    expect(totalEntries).toBe(0);
    expect(ids.size).toBe(5);
  });

  test('find the resource whose ID somebody pastes, and no other account’s', async () => {
    const { world, ids } = await openPopulated(open);
    const id = ids.get('plain') ?? '';
    expect((await found(world, { name: id })).names).toEqual(['plain']);
    expect((await found(world, { name: ` ${id.toUpperCase()} ` })).names).toEqual(['plain']);
    expect((await found(world, { name: id.replace('notebook-', '') })).names).toEqual(['plain']);
    const ada = await world.account('ada');
    const { instances, operator } = world.running.control;
    expect((await instances.list(ada, ALL, { name: id })).totalEntries).toBe(0);
    expect((await operator.instances({ name: id }, ALL)).totalEntries).toBe(1);
  });

  test('are sorted page by page, equal rows newest first', async () => {
    const { world, clock, ids } = await openPopulated(open);
    const { instances, operator, volumes, accounts } = world.running.control;
    await instances.stop(world.caller, { instanceId: ids.get('plain') ?? '' }, null);
    await world.until(ids.get('plain') ?? '', hasStatus('Stopped'));
    const prices = new Map(NAMES.map((name, at) => [ids.get(name) ?? '', [3, 1, 3, 2, 1][at] ?? 0]));
    await world.store.write(async (tx) => {
      for (const [id, priceMicros] of prices)
        await tx.updateTable('instance').set({ priceMicros }).where('id', '=', id).execute();
    });
    const newest = NAMES.toReversed();
    const sorted = async (sort: NonNullable<Filter>['sort'], pager = ALL) =>
      (await found(world, { sort }, pager)).names;
    expect(await sorted({ by: 'createdAt', order: 'desc' })).toEqual(newest);
    expect(await sorted({ by: 'createdAt', order: 'asc' })).toEqual(NAMES);
    const byName = ['100% GPU', 'plain', 'PLAIN two', 'under_score', 'Ünïcode Ñame'];
    expect(await sorted({ by: 'name', order: 'asc' })).toEqual(byName);
    expect(await sorted({ by: 'name', order: 'desc' })).toEqual(byName.toReversed());
    const byPrice = ['PLAIN two', 'under_score', 'plain', 'Ünïcode Ñame', '100% GPU'];
    expect(await sorted({ by: 'price', order: 'asc' })).toEqual(byPrice);
    expect((await sorted({ by: 'status', order: 'desc' }))[0]).toBe('plain');
    const pages = [1, 2, 3].map((currentPage) => sorted({ by: 'price', order: 'asc' }, { currentPage, pageSize: 2 }));
    expect((await Promise.all(pages)).flat()).toEqual(byPrice);
    expect(await found(world, { sort: { by: 'price', order: 'asc' }, name: 'plain' })).toEqual({
      names: ['PLAIN two', 'plain'],
      total: 2,
    });
    const all = await operator.instances({ sort: { by: 'price', order: 'asc' } }, { currentPage: 1, pageSize: 2 });
    expect(all.rows.map(({ publicText }) => JSON.parse(publicText).instanceSpecInfo.name)).toEqual(byPrice.slice(0, 2));
    for (const name of ['b', 'a', 'c']) {
      await volumeOf(world, world.caller, name);
      clock.aheadMs += 1;
    }
    const named = async (sort: { by: 'name' | 'size' | 'usage'; order: 'asc' | 'desc' }) =>
      (await volumes.list(world.caller, ALL, { sort })).texts.map((text) => JSON.parse(textOf(text)).volumeName);
    expect(await named({ by: 'name', order: 'asc' })).toEqual(['a', 'b', 'c']);
    expect(await named({ by: 'size', order: 'asc' })).toEqual(['c', 'a', 'b']);
    expect(await named({ by: 'usage', order: 'desc' })).toEqual(['c', 'a', 'b']);
    await world.account('zoe');
    await world.account('ada');
    const usernames = (await accounts.list({ sort: { by: 'username', order: 'desc' } }, ALL)).accounts.map(
      ({ username }) => username,
    );
    expect(usernames).toEqual(usernames.toSorted().toReversed());
    expect(usernames).toContain('zoe');
  });

  test('leave out released instances, and find statuses', async () => {
    const { world, ids } = await openPopulated(open);
    const { instances } = world.running.control;
    const [gone = '', stopped = ''] = ids.values();
    await instances.terminate(world.caller, { instanceId: gone }, null);
    await instances.stop(world.caller, { instanceId: stopped }, null);
    await world.until(gone, hasStatus('Released'));
    await world.until(stopped, hasStatus('Stopped'));
    expect((await found(world)).total).toBe(5);
    expect(await found(world, { withoutReleased: true })).toMatchObject({ total: 4 });
    expect((await found(world, { withoutReleased: true })).names).not.toContain('100% GPU');
    expect((await found(world, { withoutReleased: false })).total).toBe(5);
    expect((await found(world, { status: ['Stopped', 'Released'] })).names).toEqual(['under_score', '100% GPU']);
    expect((await found(world, { status: ['Stopped', 'Released'], withoutReleased: true, name: 'und' })).total).toBe(1);
  });

  test('labels change at once, outlive reconciles and actions, and are absent when there are none', async () => {
    const { world, ids } = await openPopulated(open);
    const [bare = '', id = ''] = ids.values();
    const { instances } = world.running.control;
    const shown = async (instanceId: string): Promise<Labels | undefined> => {
      const { instanceText } = await instances.get(world.caller, { instanceId });
      const instance: Shown = JSON.parse(instanceText);
      return instance.labels;
    };
    expect(await shown(bare)).toBeUndefined();
    expect(await shown(id)).toEqual({ 'example.org/name': '', n: '1', parity: 'odd' });
    const version = await world.store.versionOf(world.caller.accountId);
    await instances.update(world.caller, { instanceId: id, labels: { team: 'a' } }, null);
    expect(await world.store.versionOf(world.caller.accountId)).toBeGreaterThan(version);
    await instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    await instances.start(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    await settled(world);
    expect(await shown(id)).toEqual({ team: 'a' });
    expect((await found(world, { labels: { team: 'a' } })).total).toBe(1);
    expect((await found(world, { labels: { n: '1' } })).total).toBe(0);
    await instances.update(world.caller, { instanceId: id, labels: {}, name: 'renamed' }, null);
    expect((await found(world, { name: 'RENAMED' })).total).toBe(1);
    expect(await shown(id)).toBeUndefined();
    const ada = await world.account('ada');
    await expect(instances.update(ada, { instanceId: id, labels: { team: 'b' } }, null)).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  test('volumes have labels and are found by them and their names', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { machine: roomy, clock });
    const { volumes } = world.running.control;
    const body = { sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' } as const;
    const made = await volumes.create(world.caller, { ...body, name: 'Ärger_1', labels: { team: 'a' } }, null);
    const { id, labels }: { id: string; labels: Labels } = JSON.parse(made.volumeText);
    expect(labels).toEqual({ team: 'a' });
    clock.aheadMs += 1;
    const plain = await volumeOf(world, world.caller, 'plain');
    const listed = async (filter?: Parameters<typeof volumes.list>[2]): Promise<unknown[]> =>
      (await volumes.list(world.caller, ALL, filter)).texts.map((text) => {
        const volume: { id: string; labels?: Labels } = JSON.parse(text);
        return [volume.id, volume.labels];
      });
    expect(await listed()).toEqual([
      [plain, undefined],
      [id, { team: 'a' }],
    ]);
    expect(await listed({ name: 'äRGER_' })).toEqual([[id, { team: 'a' }]]);
    expect(await listed({ name: '%' })).toEqual([]);
    await volumes.setLabels(world.caller, { id: plain, labels: { team: 'a', x: '' } });
    const renamed = await volumes.rename(world.caller, { id: plain, name: 'other' }, null);
    await settled(world);
    const expanded = await volumes.expand(world.caller, { id: plain, sizeGB: 20 }, null);
    for (const { volumeText } of [renamed, expanded])
      expect(JSON.parse(volumeText)).toMatchObject({ labels: { team: 'a', x: '' } });
    expect(await listed({ labels: { team: 'a' }, name: 'OTHER' })).toEqual([[plain, { team: 'a', x: '' }]]);
    const { volumeText } = await volumes.get(world.caller, { id: plain });
    expect(JSON.parse(volumeText)).toMatchObject({ labels: { team: 'a', x: '' } });
    const ada = await world.account('ada');
    await expect(volumes.setLabels(ada, { id, labels: {} })).rejects.toMatchObject({ code: 'not_found' });
    await volumes.delete(world.caller, { id: plain }, null);
    await settled(world);
    const rows = await world.store.read.selectFrom('label').select('subjectId').execute();
    expect(rows).toEqual([{ subjectId: id }]);
  });
});
