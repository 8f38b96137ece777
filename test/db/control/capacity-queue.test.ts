/** The capacity queue: first come, first served, across server crashes and departures. */
import { expect, test } from 'vitest';
import { realTime, type Time } from '../../../src/control/kernel/time.ts';
import type { Caller } from '../../../src/control/index.ts';
import { RESERVATION_MS } from '../../../src/domain/regions/placement.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { queueLength, queueEntries } from '../../../src/store/tables/capacity.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { A_DAY_MS, machineOf, makeSizedWorld, outcomesOf, volumeOf, type SizedWorld } from './capacity-fixture.ts';
import { becomesConsistent } from './consistency.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { atLevel } from '../../fixtures/level.ts';

const JOINS = atLevel({ short: 20, long: 40 });
const cpus = { 'cpu.1': { cpuCores: 1, memoryGB: 2 }, 'cpu.2': { cpuCores: 2, memoryGB: 4 } };
const withGpus = { ...cpus, 'gpu.1': { cpuCores: 2, memoryGB: 4, gpuCount: 1 } };

interface One {
  instanceId: string;
}

type Over = Parameters<SizedWorld['of']>[1];

const launch = (world: SizedWorld, type: string, over: Over = {}, by = world.caller): Promise<One> =>
  world.running.control.instances.launch(by, world.of(type, over), null);

const wait = (world: SizedWorld, type: string, over: Over = {}, waitMs = A_DAY_MS, by = world.caller): Promise<One> =>
  world.running.control.instances.launch(by, world.of(type, over), null, waitMs);

const running = (world: SizedWorld, type: string): Promise<One> => runningOf(world, world.caller, type);

async function runningOf(world: SizedWorld, by: Caller, type: string): Promise<One> {
  const one = await launch(world, type, {}, by);
  await world.until(one.instanceId, hasStatus('Running'));
  return one;
}

/** Creates one account each: a reservation is per account, and entries are limited. */
const accounts = async (world: SizedWorld, count: number): Promise<Caller[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => world.account(`account-${index}`)));

async function ownerOf(world: SizedWorld, { instanceId }: One): Promise<Caller> {
  const { ownerId: accountId } = await world.store.read
    .selectFrom('instance')
    .select('ownerId')
    .where('id', '=', instanceId)
    .executeTakeFirstOrThrow();
  return { ...world.caller, accountId };
}

const terminate = async (world: SizedWorld, one: One): Promise<One> =>
  world.running.control.instances.terminate(await ownerOf(world, one), one, null);

const stop = async (world: SizedWorld, one: One): Promise<One> =>
  world.running.control.instances.stop(await ownerOf(world, one), one, null);

const says =
  (reason: string, words: RegExp | string = '') =>
  ({ instanceRuntimeInfo: { diagnosisReason, diagnosisMessage } }: PublicInstance): boolean =>
    diagnosisReason === reason &&
    (typeof words === 'string' ? diagnosisMessage.includes(words) : words.test(diagnosisMessage));

onBothEngines('the capacity queue', (open) => {
  test("serves twenty in joining order across a killed server, and shows each one's position", async () => {
    const world = await makeSizedWorld(await open(), machineOf(2, 4), cpus);
    const holding = [await running(world, 'cpu.1'), await running(world, 'cpu.1')];
    const two = await accounts(world, 2);
    for (let count = 0; count < 20; count++) await wait(world, 'cpu.1', {}, A_DAY_MS, two[count % 2]);
    const order = await world.capacityQueue();
    expect(order).toHaveLength(20);
    const [first = '', , third = ''] = order;
    expect((await world.instance(first)).instanceRuntimeInfo).toMatchObject({
      status: 'Initializing',
      phase: 'Queued',
      diagnosisReason: 'NoCapacity',
    });
    await world.until(third, says('NoCapacity', 'waiting for capacity for cpu.1; instances ahead in the queue: 2'));
    expect((await world.counts()).used).toMatchObject({ cpuMilli: 2_000, nodePorts: 22 });

    for (const [index, next] of order.entries()) {
      const gone = holding.shift();
      if (!gone) throw new Error('nobody holds capacity');
      // Terminate frees capacity at once, stop once stopped.
      if (index % 2 === 0) await terminate(world, gone);
      else await stop(world, gone);
      if (index === 7 || index === 12) await world.again();
      await world.until(next, hasStatus('Running'));
      expect(await world.capacityQueue()).toEqual(order.slice(index + 1));
      const behind = order[index + 2];
      if (behind !== undefined) await world.until(behind, says('NoCapacity', 'ahead in the queue: 1'));
      holding.push({ instanceId: next });
    }
    await becomesConsistent(world);
  });

  test("reserves capacity for the head against newcomers and later entries, and admits entries that don't delay it", async () => {
    const world = await makeSizedWorld(await open(), machineOf(8, 16, 1), withGpus);
    const { instances } = world.running.control;
    const [other = world.caller] = await accounts(world, 1);
    const gpu = await running(world, 'gpu.1');
    const stopped = await running(world, 'cpu.1');
    await instances.stop(world.caller, stopped, null);
    await world.until(stopped.instanceId, hasStatus('Stopped'));
    const first = await wait(world, 'gpu.1', {}, A_DAY_MS, other);
    // Six cores are free, two of them reserved for the head.
    const passing = [await running(world, 'cpu.2'), await running(world, 'cpu.1')];
    const second = await wait(world, 'cpu.2');
    expect(await world.capacityQueue()).toEqual([first.instanceId, second.instanceId]);
    await expectRefused(
      launch(world, 'cpu.1'),
      'no_capacity',
      /no stock of cpu\.1 .*: the free capacity is reserved for the instances ahead in the queue, 2 in number, for at most 10 minutes; no type fits now.*X-Berth-Wait-For-Capacity/,
    );
    await expectRefused(
      instances.start(world.caller, stopped, null),
      'no_capacity',
      /reserved for the instances ahead in the queue, 2 in number, for at most 10 minutes/,
    );
    const stock = (await world.running.control.catalog.families()).flatMap(({ regionInfos }) =>
      regionInfos.flatMap(({ instanceTypeInfos }) => instanceTypeInfos.map(({ stockStatus }) => stockStatus)),
    );
    expect(stock).toEqual(['OutOfStock', 'OutOfStock', 'OutOfStock']);
    expect((await world.counts()).used).toMatchObject({ cpuMilli: 5_000, gpus: { A100: 1 } });
    // Free capacity beyond the head's two cores lets the second pass.
    for (const one of passing) await terminate(world, one);
    await world.until(second.instanceId, hasStatus('Running'));
    expect(await world.capacityQueue()).toEqual([first.instanceId]);
    await terminate(world, gpu);
    await world.until(first.instanceId, hasStatus('Running'));
    await instances.start(world.caller, stopped, null);
    await world.until(stopped.instanceId, hasStatus('Running'));
    await becomesConsistent(world);
  });

  test('a stop or terminate leaves the queue at once, releases nothing it never had, and moves the rest up', async () => {
    const world = await makeSizedWorld(await open(), machineOf(2, 4), cpus);
    const { instances } = world.running.control;
    const [other = world.caller] = await accounts(world, 1);
    const holding = await runningOf(world, other, 'cpu.1');
    const big = await wait(world, 'cpu.2');
    const middle = await wait(world, 'cpu.2');
    const small = await wait(world, 'cpu.1');
    const { used } = await world.counts();
    await world.until(small.instanceId, says('NoCapacity', 'ahead in the queue: 2'));
    await terminate(world, middle);
    expect(await world.capacityQueue()).toEqual([big.instanceId, small.instanceId]);
    expect((await world.counts()).used).toMatchObject({ cpuMilli: used.cpuMilli, memoryMiB: used.memoryMiB });
    await world.until(small.instanceId, says('NoCapacity', 'ahead in the queue: 1'));
    // A core was free all the time, reserved for the head.
    await instances.stop(world.caller, big, null);
    await world.until(small.instanceId, hasStatus('Running'));
    await world.until(big.instanceId, hasStatus('Stopped'));
    await becomesConsistent(world);
    await expectRefused(instances.start(world.caller, big, null), 'no_capacity', /short of 2 CPU cores/);
    for (const one of [holding, small]) await terminate(world, one);
    await instances.start(world.caller, big, null);
    await world.until(big.instanceId, hasStatus('Running'));
    await becomesConsistent(world);
  });

  test('moves up while the placed entry is still pulling', async () => {
    let beats = true;
    const every: Time['every'] = (ms, fn) => realTime.every(ms, () => beats && fn());
    const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus, {
      engine: { times: { pull: 3_600_000 } },
      time: { every },
    });
    await launch(world, 'cpu.1');
    for (let count = 0; count < 2; count++) await wait(world, 'cpu.1');
    const [first = '', next = ''] = await world.capacityQueue();
    await world.until(next, says('NoCapacity', 'ahead in the queue: 1'));
    const atRest = world.store.read
      .selectFrom('instance')
      .select('id')
      .where('waitsSinceMs', 'is not', null)
      .where('leaseOwner', 'is', null);
    await eventually(async () => (await atRest.execute()).length === 2);
    // A heartbeat would also move the queue.
    beats = false;
    // No reconcile ends by it, which would also wake the loop.
    await world.becomes({ cpuMilli: 2_000, memoryMiB: 5 * 1024 });
    await world.until(next, says('NoCapacity', 'ahead in the queue: 0'));
    await world.until(first, hasStatus('PullingImage'));
    expect(await world.capacityQueue()).toEqual([next]);
  });

  test('an entry leaves at its deadline with a permanent failure, and the next moves up', async () => {
    const world = await makeSizedWorld(await open(), machineOf(2, 4), cpus);
    const { instances } = world.running.control;
    const stopped = await running(world, 'cpu.2');
    await instances.stop(world.caller, stopped, null);
    await world.until(stopped.instanceId, hasStatus('Stopped'));
    const [other = world.caller] = await accounts(world, 1);
    await runningOf(world, other, 'cpu.1');
    const impatient = await wait(world, 'cpu.2', {}, 100);
    const small = await wait(world, 'cpu.1');
    const failed = await world.until(impatient.instanceId, hasStatus('InitializationFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      phase: 'Failed',
      diagnosisReason: 'CapacityTimeout',
      diagnosisMessage: 'no capacity became free within the waiting time',
    });
    await world.until(small.instanceId, hasStatus('Running'));
    await instances.start(world.caller, stopped, null, 100);
    const again = await world.until(stopped.instanceId, hasStatus('StartingFailed'));
    expect(again.instanceRuntimeInfo.diagnosisReason).toBe('CapacityTimeout');
    expect(await world.capacityQueue()).toEqual([]);
    await becomesConsistent(world);
  });

  test('queues a start of a stopped instance, which keeps its disks', async () => {
    const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus);
    const { instances } = world.running.control;
    const one = await running(world, 'cpu.1');
    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    const other = await running(world, 'cpu.1');
    await instances.start(world.caller, one, null, A_DAY_MS);
    expect((await world.instance(one.instanceId)).instanceRuntimeInfo).toMatchObject({
      status: 'Starting',
      phase: 'Queued',
      diagnosisReason: 'NoCapacity',
      diagnosisMessage: 'waiting for capacity for cpu.1; instances ahead in the queue: 0',
    });
    await expectRefused(instances.start(world.caller, one, null, A_DAY_MS), 'not_now', /desired state is running/);
    await terminate(world, other);
    await world.until(one.instanceId, hasStatus('Running'));
    await becomesConsistent(world);
  });

  test('reserves volumes and node ports of its entries, releases them, and admits none without ports', async () => {
    const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus, {
      nodePorts: { first: 30_000, last: 30_004 },
    });
    const { volumes } = world.running.control;
    const remoteStorageId = await volumeOf(world, world.caller, 'data');
    const remoteStorages = [{ mountPath: '/root/v', remoteStorageName: 'v', remoteStorageId, type: 'filesystem' }];
    const holding = await running(world, 'cpu.1');
    const gone = await wait(world, 'cpu.1', { nodePorts: [8000] });
    expect((await world.counts()).used.nodePorts).toBe(3);
    await terminate(world, gone);
    await eventually(async () => (await world.counts()).used.nodePorts === 1);
    const one = await wait(world, 'cpu.1', { nodePorts: [8000, 9000], remoteStorages });
    await expectRefused(
      wait(world, 'cpu.1', { nodePorts: [8000] }),
      'no_capacity',
      /1 free node ports, and the launch needs 2/,
    );
    await expectRefused(
      volumes.delete(world.caller, { id: remoteStorageId }, null),
      'in_use',
      new RegExp(one.instanceId),
    );
    await terminate(world, holding);
    const up = await world.until(one.instanceId, hasStatus('Running'));
    const ports = up.instanceSpecInfo.nodePorts.map(({ nodePort }) => nodePort);
    expect(new Set(ports).size).toBe(3);
    for (const port of ports) expect(port).toBeGreaterThanOrEqual(30_000);
    await terminate(world, one);
    await becomesConsistent(world);
    await volumes.delete(world.caller, { id: remoteStorageId }, null);
    await becomesConsistent(world);
  });

  test('orders two of one millisecond by id, and loses neither', async () => {
    const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus, { start: false });
    const holding = await launch(world, 'cpu.1');
    const both = (await Promise.all([wait(world, 'cpu.1'), wait(world, 'cpu.1')])).map(({ instanceId }) => instanceId);
    const at = { waitsSinceMs: Date.now() };
    await world.store.write((tx) => tx.updateTable('instance').set(at).where('id', 'in', both).execute());
    await world.running.start();
    await world.until(holding.instanceId, hasStatus('Running'));
    const [first = '', second = ''] = both.toSorted();
    expect(await world.capacityQueue()).toEqual([first, second]);
    await terminate(world, holding);
    await world.until(first, hasStatus('Running'));
    expect(await world.capacityQueue()).toEqual([second]);
    await terminate(world, { instanceId: first });
    await world.until(second, hasStatus('Running'));
    await becomesConsistent(world);
  });

  test('reads to its end from any position, however long, with equal joining times', async () => {
    const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus, { start: false });
    await launch(world, 'cpu.1');
    const many = await accounts(world, 15);
    await Promise.all(Array.from({ length: 150 }, (_, index) => wait(world, 'cpu.1', {}, A_DAY_MS, many[index % 15])));
    await world.store.write((tx) =>
      tx.updateTable('instance').set({ waitsSinceMs: 5_000 }).where('waitsSinceMs', 'is not', null).execute(),
    );
    const order = await world.capacityQueue();
    expect(order).toEqual(order.toSorted());
    const read = async (behind: Parameters<typeof queueEntries>[2]): Promise<string[]> => {
      const found: string[] = [];
      for await (const { id } of queueEntries(world.store.read, world.drivers.regionId, behind)) found.push(id);
      return found;
    };
    expect(await read(null)).toEqual(order);
    for (const index of [0, 63, 64, 100, 149]) {
      const queuePosition = { waitsSinceMs: 5_000, id: order[index] ?? '' };
      expect(await read(queuePosition)).toEqual(order.slice(index + 1));
      expect(await queueLength(world.store.read, world.drivers.regionId, queuePosition)).toBe(index);
    }
    expect(await queueLength(world.store.read, world.drivers.regionId)).toBe(150);
  });

  test('keeps joining order, also for simultaneous entries and after a clock step back', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus, { start: false, clock });
    await launch(world, 'cpu.1');
    const came: string[] = [];
    for (const aheadMs of [0, -A_DAY_MS, 0, 2 * A_DAY_MS, 0]) {
      clock.aheadMs = aheadMs;
      const comes = (): Promise<unknown> => wait(world, 'cpu.1').then(({ instanceId }) => came.push(instanceId));
      if (aheadMs === 0) await comes();
      else for (const one of [comes(), comes()]) await one;
    }
    expect(await world.capacityQueue()).toHaveLength(7);
    if (open.kind === 'sqlite') expect(await world.capacityQueue()).toEqual(came);
    const since = await world.store.read
      .selectFrom('instance')
      .select('waitsSinceMs')
      .where('waitsSinceMs', 'is not', null)
      .execute();
    expect(new Set(since.map(({ waitsSinceMs }) => waitsSinceMs)).size).toBe(7);
    expect([came[0], came[3], came[6]]).toEqual((await world.capacityQueue()).filter((_, index) => index % 3 === 0));
  });

  test('moves at once when the region grows, past entries that exceed its total', async () => {
    const world = await makeSizedWorld(await open(), machineOf(4, 8, 1), withGpus);
    await running(world, 'gpu.1');
    const gpu = await wait(world, 'gpu.1');
    const lost = { gpus: {} };
    await world.becomes(lost);
    // No departure can free the head's GPU now, so its other needs aren't reserved.
    const cpu = await running(world, 'cpu.2');
    expect(await world.capacityQueue()).toEqual([gpu.instanceId]);
    await world.becomes({ gpus: { A100: 2 }, cpuMilli: 6_000, memoryMiB: 13 * 1024 });
    await world.until(gpu.instanceId, hasStatus('Running'));
    expect((await world.instance(cpu.instanceId)).instanceRuntimeInfo.status).toBe('Running');
    await becomesConsistent(world);
  });

  test("an entry that waits for its own account's capacity blocks no one, and others at most ten minutes", async () => {
    const clock = { aheadMs: 0 };
    const types = {
      ...cpus,
      'gpu.1': { cpuCores: 8, memoryGB: 16, gpuCount: 1 },
      'gpu.8': { cpuCores: 64, memoryGB: 128, gpuCount: 8 },
    };
    const world = await makeSizedWorld(await open(), machineOf(64, 128, 8), types, { clock });
    const [other = world.caller, third = world.caller] = await accounts(world, 2);
    const small = [await running(world, 'gpu.1'), await running(world, 'gpu.1')];
    const big = await wait(world, 'gpu.8');
    const stock = async (): Promise<string> =>
      (await world.running.control.catalog.families())
        .flatMap(({ regionInfos }) => regionInfos.flatMap(({ instanceTypeInfos }) => instanceTypeInfos))
        .map(({ instanceTypeName, stockStatus }) => `${instanceTypeName} ${stockStatus}`)
        .join(', ');
    expect(await stock()).toBe('cpu.1 InStock, cpu.2 InStock, gpu.1 InStock, gpu.8 OutOfStock');
    const newcomer = await runningOf(world, other, 'cpu.1');

    // Other accounts' capacity may come free: reserved for each account's first entry, for its
    // time.
    const queued = await wait(world, 'gpu.8', {}, A_DAY_MS, third);
    const behind = await wait(world, 'cpu.1', {}, A_DAY_MS, other);
    expect(await stock()).toBe('cpu.1 OutOfStock, cpu.2 OutOfStock, gpu.1 OutOfStock, gpu.8 OutOfStock');
    await expectRefused(
      launch(world, 'cpu.1', {}, other),
      'no_capacity',
      /reserved for the instances ahead in the queue, 1 in number/,
    );
    await world.until(behind.instanceId, says('NoCapacity', 'ahead in the queue: 2'));
    await atRest(world);
    clock.aheadMs = RESERVATION_MS - 5_000;
    await expectRefused(
      launch(world, 'cpu.1', {}, other),
      'no_capacity',
      /reserved for the instances ahead in the queue, 1 in number/,
    );
    clock.aheadMs = RESERVATION_MS;
    expect(await stock()).toBe('cpu.1 InStock, cpu.2 InStock, gpu.1 InStock, gpu.8 OutOfStock');
    const passes = await launch(world, 'cpu.1', {}, other);
    await world.until(behind.instanceId, hasStatus('Running'));
    expect(await world.capacityQueue()).toEqual([big.instanceId, queued.instanceId]);

    // Both keep their positions, and are placed once capacity suffices.
    for (const one of [...small, newcomer, passes, behind]) await terminate(world, one);
    await world.until(big.instanceId, hasStatus('Running'));
    await terminate(world, big);
    await world.until(queued.instanceId, hasStatus('Running'));
    await becomesConsistent(world);
  });

  test("serves later entries when the head's ten minutes are over, without any other event", async () => {
    const clock = { aheadMs: 0 };
    const world = await makeSizedWorld(await open(), machineOf(2, 4), cpus, { clock });
    const [other = world.caller, third = world.caller] = await accounts(world, 2);
    await runningOf(world, other, 'cpu.1');
    const big = await wait(world, 'cpu.2', {}, A_DAY_MS, third);
    const small = await wait(world, 'cpu.1');
    await world.until(small.instanceId, says('NoCapacity', 'ahead in the queue: 1'));
    await atRest(world);
    // Not due by itself today.
    const farMs = { dueAtMs: Date.now() + A_DAY_MS };
    await world.store.write((tx) => tx.updateTable('instance').set(farMs).where('id', '=', small.instanceId).execute());
    const first = world.store.read
      .selectFrom('instance')
      .select(['dueAtMs', 'requestedAtMs'])
      .where('id', '=', big.instanceId);
    clock.aheadMs = RESERVATION_MS - 4_000;
    // Wakes the loop, which doesn't see the clock step.
    const last = await wait(world, 'cpu.2', {}, A_DAY_MS, other);
    await eventually(async () => {
      const { dueAtMs, requestedAtMs } = await first.executeTakeFirstOrThrow();
      const lateMs = (dueAtMs ?? 0) - requestedAtMs - RESERVATION_MS;
      // The next check by itself would be seven seconds later.
      return lateMs >= 0 && lateMs < 4_000;
    });
    await world.until(small.instanceId, hasStatus('Running'));
    expect(await world.capacityQueue()).toEqual([big.instanceId, last.instanceId]);
    for (const one of [big, last]) await terminate(world, one);
    await becomesConsistent(world);
  });

  test('admits at most ten per account, of fifty simultaneous requests', async () => {
    const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus, { start: false });
    const { instances } = world.running.control;
    const [other = world.caller] = await accounts(world, 1);
    await launch(world, 'cpu.1', {}, other);
    const { done, refused } = await outcomesOf(
      Array.from({ length: 50 }, () => wait(world, 'cpu.1', { nodePorts: [8000] })),
    );
    expect([done.length, refused.length]).toEqual([10, 40]);
    for (const { code, message } of refused) {
      expect(code).toBe('over_quota');
      expect(message).toMatch(
        /^the quota "queuedInstances" .* the limit is 10, the account uses 10, .*; stop or terminate one of them/,
      );
    }
    expect((await world.counts()).used.nodePorts).toBe(1 + 20);
    expect(await world.capacityQueue()).toHaveLength(10);
    // Another account has ten of its own; a departure frees one.
    await wait(world, 'cpu.1', {}, A_DAY_MS, other);
    const [gone] = done;
    if (!gone) throw new Error('the queue is empty');
    await instances.terminate(world.caller, gone, null);
    const again = await outcomesOf([wait(world, 'cpu.1'), wait(world, 'cpu.1')]);
    expect(again.refused.map(({ code }) => code)).toEqual(['over_quota']);
    await expectRefused(launch(world, 'cpu.1'), 'no_capacity', /instances ahead in the queue: 11/);
  });

  test(`stays consistent after ${JOINS} concurrent joins, waits and departures`, async () => {
    const world = await makeSizedWorld(await open(), machineOf(6, 12, 2), withGpus);
    const types = ['cpu.1', 'gpu.1', 'cpu.2', 'cpu.1'];
    const few = await accounts(world, 5);
    const { done } = await outcomesOf(
      Array.from({ length: JOINS }, (_, index) =>
        wait(world, types[index % types.length] ?? 'cpu.1', {}, A_DAY_MS, few[index % 5]),
      ),
    );
    expect(done).toHaveLength(JOINS);
    const leaving = done.filter((_, index) => index % 3 !== 0);
    const staying = done.filter((_, index) => index % 3 === 0);
    await outcomesOf([
      ...leaving.map((one, index) => (index % 2 === 0 ? terminate(world, one) : stop(world, one))),
      ...types.map((type) => launch(world, type)),
    ]);
    for (let left = staying; left.length > 0;) {
      let statuses: string[] = [];
      await eventually(
        async () => (statuses = await statusesOf(world, left)).includes('Running'),
        () => JSON.stringify(statuses),
      );
      const ready = left.filter((_, index) => statuses[index] === 'Running');
      for (const one of ready) await terminate(world, one);
      left = left.filter((one) => !ready.includes(one));
    }
    await eventually(async () => (await statusesOf(world, staying)).every((status) => status === 'Released'));
    expect(await world.capacityQueue()).toEqual([]);
    await becomesConsistent(world);
  });
});

/** All entries have been visited and rest. */
const atRest = (world: SizedWorld): Promise<unknown> =>
  eventually(async () => {
    const { busy } = await world.store.read
      .selectFrom('instance')
      .select(({ fn }) => fn.countAll<number>().as('busy'))
      .where('waitsSinceMs', 'is not', null)
      .where((where) => where.or([where('leaseOwner', 'is not', null), where('dueAtMs', '<=', Date.now())]))
      .executeTakeFirstOrThrow();
    return busy === 0;
  });

const statusesOf = (world: SizedWorld, all: One[]): Promise<string[]> =>
  Promise.all(all.map(async ({ instanceId }) => (await world.instance(instanceId)).instanceRuntimeInfo.status));
