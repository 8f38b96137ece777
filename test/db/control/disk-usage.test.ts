import { expect, test } from 'vitest';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { diskFixture, GB } from './disk-fixture.ts';
import { eventually } from '../../fixtures/control.ts';
import { measuring } from './measuring.ts';

onBothEngines('disk usage', (open) => {
  test('is shown on an instance and a volume without an event', async () => {
    const fixture = await diskFixture(await open());
    const volume = await fixture.volume('data', 10);
    const id = await fixture.running(volume);
    fixture.hold('data', id, 1.234);
    fixture.hold('volume', volume, 2.5);
    const { eventSeq } = await fixture.world.store.read
      .selectFrom('account')
      .select('eventSeq')
      .where('id', '=', fixture.world.caller.accountId)
      .executeTakeFirstOrThrow();
    const before = await fixture.world.store.versionOf(fixture.world.caller.accountId);
    await fixture.measuredUntil(id, ({ instanceDiskUsageInfo: { dataDiskUsedGi } }) => dataDiskUsedGi === 1.234);
    const { texts } = await fixture.world.running.control.volumes.list(fixture.world.caller, {
      currentPage: 1,
      pageSize: 9,
    });
    expect(JSON.parse(texts[0] ?? '')).toMatchObject({ usageGB: 2.5 });
    expect(await fixture.world.store.versionOf(fixture.world.caller.accountId)).toBeGreaterThan(before);
    const account = fixture.world.store.read.selectFrom('account').select('eventSeq');
    const now = await account.where('id', '=', fixture.world.caller.accountId).executeTakeFirstOrThrow();
    expect(now.eventSeq).toBe(eventSeq);
    await settled(fixture.world);
    await expectConsistent(fixture.world);
  });

  test('is published after a reconcile in progress, and after a killed server', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const { store } = fixture.world;
    const lease = (leaseOwner: string | null) =>
      store.write((tx) =>
        tx
          .updateTable('instance')
          .set({ leaseOwner, leaseToken: leaseOwner, leaseUntilMs: leaseOwner === null ? null : Date.now() + 60_000 })
          .where('id', '=', id)
          .execute(),
      );
    const shown = async () =>
      (await fixture.world.instance(id)).instanceRuntimeInfo.instanceDiskUsageInfo.dataDiskUsedGi;
    await lease('a pass');
    fixture.hold('data', id, 3);
    await fixture.measure();
    expect(await shown()).toBe(0);
    await lease(null);
    await fixture.measuredUntil(id, ({ instanceDiskUsageInfo: { dataDiskUsedGi } }) => dataDiskUsedGi === 3);

    await lease('a pass');
    fixture.hold('data', id, 4);
    await fixture.measure();
    await lease(null);
    expect(await shown()).toBe(3);
    const next = measuring(fixture.world);
    await eventually(async () => {
      await next.measure();
      return (await shown()) === 4;
    });
  });

  test('warns the owner once at 80 and once at 95 %, with the largest folders', async () => {
    const fixture = await diskFixture(await open());
    const volume = await fixture.volume('data', 10);
    await fixture.running(volume);
    const tellOf = async (gb: number, { tells }: { tells: boolean }): Promise<unknown[]> => {
      const before = (await fixture.publishedEvents()).length;
      fixture.hold('volume', volume, gb, [{ path: 'runs/one', bytes: 9 * GB }]);
      const percents = async (): Promise<unknown[]> =>
        (await fixture.publishedEvents()).slice(before).map(({ data }) => data['percent']);
      await fixture.measure();
      // The scan runs 1 % of the time, so the owner may be warned later.
      if (tells)
        await eventually(async () => {
          await fixture.measure();
          return (await percents()).length > 0;
        });
      await fixture.measure();
      return percents();
    };
    expect(await tellOf(7.9, { tells: false })).toEqual([]);
    expect(await tellOf(8, { tells: true })).toEqual([80]);
    expect(await tellOf(9.65, { tells: true })).toEqual([96]);
    expect(await tellOf(9.2, { tells: false })).toEqual([]);
    expect(await tellOf(9.7, { tells: false })).toEqual([]);
    expect(await tellOf(7.5, { tells: false })).toEqual([]);
    expect(await tellOf(10, { tells: true })).toEqual([100]);
    const [first, second] = await fixture.publishedEvents();
    const facts = { disk: 'volume', sizeGB: 10, sizeLimit: 'hard' };
    expect(first).toEqual({ subjectId: volume, data: { ...facts, percent: 80, usageGB: 8, biggest: [] } });
    const biggest = [{ path: 'runs/one', usageGB: 9 }];
    expect(second).toEqual({ subjectId: volume, data: { ...facts, percent: 96, usageGB: 9.65, biggest } });
  });

  test('shows a nearly full disk and its largest folders on the instance, across stop and start', async () => {
    const fixture = await diskFixture(await open());
    const volume = await fixture.volume('data', 10);
    const id = await fixture.running(volume);
    const sizeGB = (await fixture.get(id)).disks.find(({ disk }) => disk === 'data')?.sizeGB ?? 0;
    fixture.hold('data', id, sizeGB, [{ path: 'cache', bytes: 2 * GB }]);
    fixture.hold('volume', volume, 10, [{ path: 'set', bytes: GB }]);
    fixture.hold('shared', fixture.sharedId, 20, []);
    const text =
      'the data disk is 100 % full; its largest paths are /root/dataDisk/cache (2 GB). the shared disk is 100 % full. ' +
      'the volume on /root/v is 100 % full; its largest paths are /root/v/set (1 GB)';
    await fixture.measuredUntil(id, ({ message: shown }) => shown === text);
    const { disks } = await fixture.get(id);
    expect(disks.map(({ disk, percent, mountPath }) => [disk, percent, mountPath])).toEqual([
      ['root', 0, '/'],
      ['data', 100, '/root/dataDisk'],
      ['shared', 100, '/root/sharedDisk'],
      ['volume', 100, '/root/v'],
    ]);
    expect(disks[1]).toEqual({
      disk: 'data',
      id,
      mountPath: '/root/dataDisk',
      sizeGB,
      usageGB: sizeGB,
      percent: 100,
      sizeLimit: 'hard',
      biggest: [{ path: 'cache', usageGB: 2 }],
    });
    expect((await fixture.publishedEvents()).map(({ subjectId }) => subjectId).toSorted()).toEqual(
      [id, volume, fixture.sharedId].toSorted(),
    );

    await fixture.rest(id);
    await fixture.unmount();
    // Not mounted: the largest folders can't be scanned, and stay.
    await measuring(fixture.world).measure();
    await fixture.world.running.control.instances.start(fixture.world.caller, { instanceId: id }, null);
    const { instanceRuntimeInfo } = await fixture.world.until(
      id,
      (one) => one.instanceRuntimeInfo.status === 'Running',
    );
    expect(instanceRuntimeInfo.message).toBe(text);

    fixture.hold('data', id, 0.1);
    fixture.hold('volume', volume, 0.1);
    fixture.hold('shared', fixture.sharedId, 0.1);
    await fixture.measuredUntil(id, ({ message: shown }) => shown === '');
    await settled(fixture.world);
    await expectConsistent(fixture.world);
  });

  test('asks the engine for the root disk of a running instance', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const { world } = fixture;
    const rootGB = (await fixture.get(id)).disks[0]?.sizeGB ?? 0;
    let holdsGB = rootGB * 0.85;
    const { usage, exec } = world.engine;
    world.drivers.engine = {
      ...world.engine,
      async usage(ids, signal, more) {
        const found = await usage(ids, signal, more);
        for (const one of found.values()) one.rootDiskBytes = Math.round(holdsGB * GB);
        return found;
      },
      exec: async (of, command, signal) =>
        command.includes('du')
          ? { exitCode: 1, stdout: '9000\t/usr\n5000000\t/root/.cache\n5000100\t/root\n5100000\t/\n', stderr: '' }
          : exec(of, command, signal),
    };
    // A late hint may lease the instance just then: the next run measures it.
    const isShown = (): Promise<void> =>
      eventually(async () => {
        await fixture.measureRoots();
        return (await world.instance(id)).instanceRuntimeInfo.instanceDiskUsageInfo.rootDiskUsedGi === holdsGB;
      });
    await isShown();
    holdsGB = rootGB;
    await isShown();
    await fixture.measureRoots();
    expect((await world.instance(id)).instanceRuntimeInfo.message).toBe(
      'the root disk is 100 % full; its largest paths are /root/.cache (4.768 GB), /usr (0.009 GB)',
    );
    const publishedEvents = (await fixture.publishedEvents()).map(({ subjectId, data }) => [
      subjectId,
      data['disk'],
      data['percent'],
    ]);
    expect(publishedEvents).toEqual([
      [id, 'root', 85],
      [id, 'root', 100],
    ]);
    await fixture.rest(id);
    holdsGB = 0;
    await fixture.measureRoots();
    expect((await fixture.get(id)).disks[0]?.percent).toBe(100);
  });

  test("measures the other disks when one can't be measured", async () => {
    const fixture = await diskFixture(await open());
    const [broken, fine] = [await fixture.volume('broken', 10), await fixture.volume('fine', 10)];
    const { usage } = fixture.memory;
    fixture.memory.usage = async (disk, signal) => {
      if (disk.id === broken) throw new Error('it is broken');
      return usage(disk, signal);
    };
    fixture.hold('volume', fine, 9);
    await fixture.measure();
    expect(fixture.warned).toEqual(['could not measure a disk; Berth retries']);
    expect((await fixture.publishedEvents()).map(({ subjectId }) => subjectId)).toEqual([fine]);
  });
});

onEngine('sqlite', 'ten thousand disks', (open) => {
  test('measures all disks in linear time', async () => {
    const fixture = await diskFixture(await open(), { start: false });
    const { store, drivers, caller } = fixture.world;
    const of = { kind: 'snapshot', regionId: drivers.regionId, pool: 'default', ownerId: caller.accountId, sizeGB: 1 };
    const addThousand = async (from: number): Promise<void> => {
      const ids = Array.from({ length: 1_000 }, (_, at) => `disk-${from + at}`);
      const rows = ids.map((id) => ({ ...of, id: `snapshot/${id}`, subjectId: id }));
      await store.write((tx) => tx.insertInto('disk').values(rows).execute());
      for (const id of ids) {
        await fixture.memory.create({ kind: 'snapshot', id }, 1, new AbortController().signal);
        fixture.hold('snapshot', id, 0.5);
      }
    };
    const timeOf = async (fn: () => Promise<void>): Promise<number> => {
      const beganMs = performance.now();
      await fn();
      return performance.now() - beganMs;
    };
    await addThousand(0);
    const ofThousandMs = await timeOf(fixture.measure);
    for (let from = 1_000; from < 10_000; from += 1_000) await addThousand(from);
    expect(await timeOf(fixture.measure)).toBeLessThan(4 * 10 * ofThousandMs);
    const left = await store.read.selectFrom('disk').select('id').where('usageBytes', '=', 0).execute();
    expect(left).toEqual([]);
  });
});
