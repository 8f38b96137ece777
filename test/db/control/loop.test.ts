import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import {
  startReconcileLoop,
  type LeasedRow,
  type ReconcileLoop,
  type ReconcileResult,
} from '../../../src/control/kernel/reconcile-loop.ts';
import { realTime, type Time } from '../../../src/control/kernel/time.ts';
import { makeDue } from '../../../src/store/tables/instances.ts';
import { permanentHold, type Hold } from '../../../src/store/db/database-lock.ts';
import type { LeaseRow } from '../../../src/store/db/leases.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { insertOwners, instanceRow } from '../store/rows.ts';
import { watchedStore } from './access-fixture.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';

const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
type ReconcileFn = (leased: LeasedRow<LeaseRow<'instance'>>) => Promise<ReconcileResult>;

function loopOver(
  store: Store,
  reconcile: ReconcileFn,
  time: Partial<Time> = {},
  hold: Hold = permanentHold,
): ReconcileLoop {
  const loop = startReconcileLoop({
    table: 'instance',
    store,
    time: { ...realTime, ...time },
    log,
    leaseOwner: randomUUID(),
    randomUuid: randomUUID,
    hold,
    reconcile,
  });
  onTestFinished(() => loop.stop());
  return loop;
}

const isLook = ([row = {}]: readonly object[]): boolean => Object.keys(row).join() === 'id,generation';

const leaseOf = async ({ read }: Store, id: string): Promise<number> =>
  (await read.selectFrom('instance').select('leaseUntilMs').where('id', '=', id).executeTakeFirstOrThrow())
    .leaseUntilMs ?? 0;

async function insertRows(store: Store, ids: string[], dueAtMs: number | null): Promise<void> {
  await store.write(async (tx) => {
    await insertOwners(tx, 'r', 'o');
    for (let from = 0; from < ids.length; from += 200) {
      const rows = ids.slice(from, from + 200).map((id) => instanceRow({ id, ownerId: 'o', regionId: 'r', dueAtMs }));
      await tx.insertInto('instance').values(rows).execute();
    }
  });
}

onBothEngines('the loop', (open) => {
  test('loses no wake-up during work, claim, release or sleep', async () => {
    const store = await open();
    const ids = ['a', 'b', 'c'];
    await insertRows(store, ids, null);
    /**
     * Requests made per row, and requests observed by a reconcile: a counter outside of the store.
     */
    const desired = new Map(ids.map((id) => [id, 0]));
    const seen = new Map(ids.map((id) => [id, 0]));
    const loop = loopOver(store, async ({ row }) => {
      const at = desired.get(row.id) ?? 0;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
      seen.set(row.id, at);
      return { dueAtMs: null };
    });
    const step = fc.record({ id: fc.constantFrom(...ids), waitMs: fc.integer({ min: 0, max: 4 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        for (const { id, waitMs } of steps) {
          if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
          await store.write(async (tx) => {
            await makeDue(tx, [id], Date.now());
            desired.set(id, (desired.get(id) ?? 0) + 1);
          });
          loop.wake();
        }
        await eventually(
          () => ids.every((id) => seen.get(id) === desired.get(id)),
          () => JSON.stringify([...seen, ...desired]),
        );
      }),
      { numRuns: 30 },
    );
  });

  test('aborts its reconciles while the hold of the database is lost, and claims rows again with it', async () => {
    const store = await open();
    await insertRows(store, ['a', 'b'], 0);
    let isHeld = true;
    let changed = (): void => {};
    const hold = { isHeld: () => isHeld, onChange: (listener: () => void) => void (changed = listener) };
    let [begun, aborted] = [0, 0];
    const loop = loopOver(
      store,
      async ({ signal }) => {
        begun += 1;
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        aborted += 1;
        return { dueAtMs: 0 };
      },
      {},
      hold,
    );
    await eventually(() => begun === 2);
    isHeld = false;
    changed();
    await eventually(async () => (await leaseOf(store, 'a')) + (await leaseOf(store, 'b')) === 0);
    loop.wake();
    await loop.stop();
    expect([begun, aborted]).toEqual([2, 2]);
    isHeld = true;
    loopOver(store, async () => ({ dueAtMs: (begun += 1) && null }), {}, hold);
    await eventually(() => begun === 4);
  });

  test('retries a failing reconcile later after each failure in a row, at most after a minute', async () => {
    const store = await open();
    await insertRows(store, ['a'], 0);
    const nowMs = 1_000_000;
    const dueAtMs = async (): Promise<number> =>
      Number((await store.read.selectFrom('instance').select('dueAtMs').executeTakeFirstOrThrow()).dueAtMs);
    let fails = true;
    let runs = 0;
    const loop = loopOver(
      store,
      async () => {
        runs += 1;
        if (fails) throw new Error('of a row that Berth cannot reconcile');
        return { dueAtMs: nowMs + 1 };
      },
      { now: () => nowMs },
    );
    const pauses: number[] = [];
    for (let run = 1; run <= 7; run += 1) {
      fails = run !== 6;
      await eventually(async () => runs === run && (await leaseOf(store, 'a')) === 0);
      pauses.push((await dueAtMs()) - nowMs);
      await store.write((tx) => makeDue(tx, ['a'], nowMs));
      loop.wake();
    }
    expect(pauses).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 1, 5_000]);
  });

  test('never reconciles one row twice at a time in one process, even past its lease', async () => {
    const store = await open();
    await insertRows(store, ['a'], 0);
    const clock = { aheadMs: 0 };
    let inside = 0;
    let most = 0;
    let begun = 0;
    const loop = loopOver(
      store,
      async ({ signal }) => {
        begun += 1;
        most = Math.max(most, ++inside);
        // Slow to abort, like a file system.
        if (begun === 1)
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => setTimeout(resolve, 30)));
        inside -= 1;
        return { dueAtMs: null };
      },
      { now: () => Date.now() + clock.aheadMs },
    );
    await eventually(() => begun === 1);
    clock.aheadMs = 60_000;
    loop.wake();
    await eventually(() => begun === 2 && inside === 0);
    expect(most).toBe(1);
  });

  test('aborts a reconcile whose row another process has leased', async () => {
    const store = await open();
    await insertRows(store, ['a'], 0);
    let aborted = false;
    let begun = 0;
    const loop = loopOver(store, async ({ signal }) => {
      begun += 1;
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      aborted = true;
      return { dueAtMs: null };
    });
    await eventually(() => begun === 1);
    const theirs = {
      leaseOwner: 'other',
      leaseToken: 'theirs',
      leaseUntilMs: Date.now() + 60_000,
      dueAtMs: Date.now() + 60_000,
    };
    await store.write((tx) => tx.updateTable('instance').set(theirs).execute());
    loop.wake();
    await eventually(() => aborted);
    await loop.stop();
    expect(await store.read.selectFrom('instance').select('leaseToken').execute()).toEqual([{ leaseToken: 'theirs' }]);
  });

  test('takes a row again after its lease, if the answer of its claim was lost', async () => {
    const store = await open();
    await insertRows(store, ['lost', 'held'], null);
    const clock = { aheadMs: 0 };
    let losing = true;
    let lost = 0;
    const write: Store['write'] = async (work) => {
      const answer = await store.write(work);
      if (losing && Array.isArray(answer) && answer.length > 0) throw new Error(`connection lost ${(lost += 1)}`);
      return answer;
    };
    const begun: string[] = [];
    let beat = (): void => {};
    const loop = loopOver(
      { ...store, write },
      async ({ row, signal }) => {
        begun.push(row.id);
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        return { dueAtMs: null };
      },
      { now: () => Date.now() + clock.aheadMs, every: (_, fn) => ((beat = fn), () => {}) },
    );
    const makeRowDue = async (id: string): Promise<void> => {
      await store.write((tx) => makeDue(tx, [id], Date.now()));
      loop.wake();
    };
    await makeRowDue('lost');
    await eventually(() => lost === 1);
    losing = false;
    await makeRowDue('held');
    await eventually(() => begun.length === 1);
    const heldUntilMs = await leaseOf(store, 'held');
    clock.aheadMs = 25_000;
    beat();
    await eventually(async () => (await leaseOf(store, 'held')) > heldUntilMs);
    clock.aheadMs = 35_000;
    loop.wake();
    await eventually(() => begun.length > 1);
    expect(begun).toEqual(['held', 'lost']);
  });

  test('sends one heartbeat at a time, and another after a failed one', async () => {
    const store = await open();
    await insertRows(store, ['a'], 0);
    const clock = { aheadMs: 0 };
    let gate: PromiseWithResolvers<void> | undefined;
    let writes = 0;
    const write: Store['write'] = async (work) => {
      writes += 1;
      await gate?.promise;
      return store.write(work);
    };
    let begun = 0;
    let beat = (): void => {};
    loopOver(
      { ...store, write },
      async ({ signal }) => {
        begun += 1;
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        return { dueAtMs: null };
      },
      { now: () => Date.now() + clock.aheadMs, every: (_, fn) => ((beat = fn), () => {}) },
    );
    await eventually(() => begun === 1);
    writes = 0;
    gate = Promise.withResolvers();
    for (let beats = 0; beats < 3; beats += 1) beat();
    gate.reject(new Error('away'));
    gate = undefined;
    expect(writes).toBe(1);
    const before = await leaseOf(store, 'a');
    clock.aheadMs = 10_000;
    await eventually(async () => (beat(), (await leaseOf(store, 'a')) > before));
    expect(begun).toBe(1);
  });

  test('checks for superseded reconciles a bounded share of the time, and catches up within seconds', async () => {
    const store = await open();
    await insertRows(store, ['a', 'b'], 0);
    const clock = { elapsedMs: 0 };
    let polls = 0;
    // Duration of a check of thousands of rows.
    let lookMs = 20;
    const read = store.read.withPlugin({
      transformQuery: ({ node }) => node,
      // The query is compiled once, so its rows tell it.
      async transformResult({ result }) {
        if (isLook(result.rows)) clock.elapsedMs += ((polls += 1), lookMs);
        return result;
      },
    });
    const aborted: string[] = [];
    let begun = 0;
    const loop = loopOver(
      { ...store, read },
      async ({ row, signal }) => {
        begun += 1;
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        aborted.push(row.id);
        return { dueAtMs: null };
      },
      // No heartbeat, which would wake the loop.
      { elapsed: () => clock.elapsedMs, every: () => () => {} },
    );
    await eventually(() => begun === 2);
    loop.wake();
    await eventually(() => polls === 1);
    await store.write((tx) => tx.updateTable('instance').set({ generation: 7 }).where('id', '=', 'a').execute());
    for (let wakes = 0; wakes < 20; wakes += 1) {
      loop.wake();
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(polls).toBe(1);
    clock.elapsedMs += 1_000;
    await eventually(() => aborted.length > 0);
    expect(aborted).toEqual(['a']);

    lookMs = 60_000;
    clock.elapsedMs += 1_000;
    loop.wake();
    await eventually(() => clock.elapsedMs > 60_000);
    await store.write((tx) => tx.updateTable('instance').set({ generation: 7 }).where('id', '=', 'b').execute());
    const before = polls;
    clock.elapsedMs += 5_000;
    loop.wake();
    await eventually(() => polls > before && aborted.length > 1);
  });

  test('accepts a fractional time', async () => {
    const store = await open();
    await insertRows(store, ['a'], 0);
    let begun = 0;
    loopOver(store, async () => ((begun += 1), { dueAtMs: begun === 1 ? Date.now() + 3.7 : null }));
    await eventually(() => begun === 2);
    expect(begun).toBe(2);
  });

  test('stop releases all leases and makes the rows due', async () => {
    const store = await open();
    await insertRows(store, ['a', 'b', 'c'], 0);
    let begun = 0;
    const loop = loopOver(store, async ({ signal }) => {
      begun += 1;
      await new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      return { dueAtMs: null };
    });
    await eventually(() => begun === 3);
    await loop.stop();
    const rows = await store.read.selectFrom('instance').select(['leaseOwner', 'dueAtMs']).execute();
    for (const { leaseOwner, dueAtMs } of rows) {
      expect(leaseOwner).toBeNull();
      expect(dueAtMs).toBeLessThanOrEqual(Date.now());
    }
  });

  test('asks the store nothing with ten thousand rows at rest', async () => {
    const { store, asked } = watchedStore(await open());
    let writes = 0;
    const counted: Store = { ...store, write: (work) => ((writes += 1), store.write(work)) };
    await insertRows(
      store,
      Array.from({ length: 10_000 }, (_, index) => `i${index}`),
      null,
    );
    let reconciled = 0;
    const loop = loopOver(counted, async () => ((reconciled += 1), { dueAtMs: null }));
    await eventually(() => asked.length >= 1);
    await new Promise((resolve) => setTimeout(resolve, 300));
    // Starts with rows waiting for a future time, then due rows.
    expect({ reconciled, writes, reads: asked.length }).toEqual({ reconciled: 0, writes: 2, reads: 1 });
    loop.wake();
    await eventually(() => asked.length >= 2);
    expect({ reconciled, writes }).toEqual({ reconciled: 0, writes: 3 });
  });

  test('a clock step back delays no row', async () => {
    const store = await open();
    await insertRows(store, ['a'], 0);
    const clock = { aheadMs: 86_400_000 };
    const now = (): number => Date.now() + clock.aheadMs;
    let reconciled = 0;
    const loop = loopOver(store, async () => ((reconciled += 1), { dueAtMs: now() + 3_600_000 }), { now });
    const isFree = async (): Promise<boolean> =>
      (await store.read.selectFrom('instance').select('leaseOwner').executeTakeFirst())?.leaseOwner === null;
    await eventually(async () => reconciled === 1 && (await isFree()));
    clock.aheadMs = 0;
    loop.wake();
    await eventually(() => reconciled === 2);
    await eventually(isFree);
    expect(reconciled).toBe(2);
  });
});

onEngine('sqlite', 'the loop in trouble', (open) => {
  test('retries a failed release of a lease', async () => {
    const store = await open();
    await insertRows(store, ['a'], 0);
    let begun = 0;
    let failing = false;
    const flaky: Store = {
      ...store,
      write: (work) => (failing ? Promise.reject(new Error('away')) : store.write(work)),
    };
    const loop = loopOver(flaky, async () => {
      failing = (begun += 1) === 1;
      if (failing) setTimeout(() => (failing = false), 50);
      return { dueAtMs: null };
    });
    await eventually(
      async () =>
        (await store.read.selectFrom('instance').select('leaseOwner').executeTakeFirstOrThrow()).leaseOwner === null &&
        begun > 0 &&
        !failing,
    );
    await store.write((tx) => makeDue(tx, ['a'], Date.now()));
    loop.wake();
    await eventually(() => begun === 2);
    expect(failing).toBe(false);
  });

  test('stops polling the store while all slots are in use', async () => {
    const { store, asked } = watchedStore(await open());
    await insertRows(
      store,
      Array.from({ length: 4_200 }, (_, index) => `i${index}`),
      0,
    );
    let begun = 0;
    const gate = new AbortController();
    loopOver(store, async ({ signal }) => {
      begun += 1;
      const ended = AbortSignal.any([signal, gate.signal]);
      if (!ended.aborted) await new Promise<void>((resolve) => ended.addEventListener('abort', () => resolve()));
      return { dueAtMs: null };
    });
    await eventually(() => begun === 4_096);
    const before = asked.length;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(asked.length - before).toBeLessThanOrEqual(2);
    gate.abort();
    await eventually(() => begun === 4_200);
  });

  test("one owner's launch doesn't wait for two hundred launches of another", async () => {
    const world = await makeWorld(await open(), {
      engineWidth: 2,
      machine: { cpuCores: 512, memoryMiB: 1024 * 1024, gpus: [], architecture: 'amd64' },
    });
    const many = await world.account('many', 100_000);
    const few = await world.account('few');
    const order: string[] = [];
    let few1 = '';
    const { ensure } = world.engine;
    world.engine.ensure = async (spec, signal) => {
      order.push(spec.ownerId);
      await new Promise((resolve) => setTimeout(resolve, 5));
      return ensure(spec, signal);
    };
    await Promise.all(
      Array.from({ length: 200 }, () => world.running.control.instances.launch(many, world.launchInput(), null)),
    );
    await eventually(() => order.length > 10);
    const waitedFrom = { at: 0 };
    const { instanceId } = await world.running.control.instances.launch(few, world.launchInput(), null);
    few1 = instanceId;
    const queued = async (): Promise<boolean> =>
      (await world.instance(few1)).instanceRuntimeInfo.phase === 'CreateContainer';
    await eventually(queued);
    waitedFrom.at = order.length;
    await eventually(() => order.includes(few.accountId));
    expect(order.indexOf(few.accountId) - waitedFrom.at).toBeLessThanOrEqual(3);
    await world.until(few1, hasStatus('Running'));
  });
});
