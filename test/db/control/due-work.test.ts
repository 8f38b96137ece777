/** Acts that are due: failures, leases, clocks, and two processes. */
import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { makeDueWork, type ActHandler } from '../../../src/control/kernel/due-work.ts';
import { realTime, type Time } from '../../../src/control/kernel/time.ts';
import { actKinds, type DueAct } from '../../../src/domain/kernel/due-act.ts';
import { permanentHold } from '../../../src/store/db/database-lock.ts';
import type { Store } from '../../../src/store/store.ts';
import { dueKinds, setAct } from '../../../src/store/tables/due-acts.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { onBothEngines, recordingLog } from '../../fixtures/store.ts';

const act = (subjectId: string, given: Partial<DueAct> = {}): DueAct => ({
  kind: 'stop',
  subjectId,
  ownerId: 'ann',
  dueAtMs: 1_000,
  ...given,
});

const setActs = (store: Store, ...acts: DueAct[]): Promise<void> =>
  store.write(async (tx) => {
    for (const one of acts) await setAct(tx, one);
  });

const rowsOf = ({ read }: Store) => read.selectFrom('dueAct').selectAll().orderBy('id').execute();

/** A process that runs all acts by one handler. */
function work(store: Store, handler: ActHandler, time: Partial<Time> = {}) {
  const log = recordingLog();
  const deps = { store, time: { ...realTime, ...time }, hold: permanentHold, randomUuid: randomUUID };
  const handlers = Object.fromEntries(actKinds.map((kind) => [kind, handler])) as Record<DueAct['kind'], ActHandler>;
  const { task, start } = makeDueWork({ ...deps, log: { ...log, debug: () => {} } }, handlers);
  const loop = start(randomUUID());
  onTestFinished(() => loop.stop());
  return { look: () => task.run(), loop, lines: log.lines };
}

onBothEngines('due work', { postgres: 'always' }, (open) => {
  test('runs what is due, and deletes what is done; the rest waits for its next time', async () => {
    const store = await open();
    const later = Date.now() + 3_600_000;
    const ran: string[] = [];
    const { loop } = work(store, async ({ id }) => {
      ran.push(id);
      return id === 'again' ? later : null;
    });
    await setActs(store, act('first'));
    loop.wake();
    await eventually(async () => (await rowsOf(store)).length === 0);
    await setActs(store, act('done'), act('again'), act('not-yet', { dueAtMs: later }));
    loop.wake();
    await eventually(async () =>
      (await rowsOf(store)).every(({ leaseOwner, dueAtMs }) => !leaseOwner && dueAtMs === later),
    );
    expect(ran.toSorted()).toEqual(['again', 'done', 'first']);
    expect((await rowsOf(store)).map(({ subjectId }) => subjectId)).toEqual(['again', 'not-yet']);
  });

  test('a failing act delays no other, keeps its error, and each error is logged once', async () => {
    const store = await open();
    // More than one claim leases, and more than share one time.
    const ids = Array.from({ length: 202 }, (_, at) => `notebook-${String(at).padStart(3, '0')}`);
    await setActs(store, ...ids.map((id, at) => act(id, { dueAtMs: at < 150 ? 1_000 : 1_000 + at })));
    let why = 'its region is not configured';
    const tries = new Map<string, number>();
    const { look, lines } = work(store, async ({ id }) => {
      tries.set(id, (tries.get(id) ?? 0) + 1);
      if (id !== ids.at(-1)) throw new Error(id === ids[0] ? why : 'it can not be');
      return null;
    });
    const round = async (count: number): Promise<void> => {
      await eventually(async () => {
        await look();
        const failing = await rowsOf(store);
        return failing.length === 201 && failing.every(({ attempts, leaseOwner }) => attempts >= count && !leaseOwner);
      });
    };
    await round(1);
    expect(tries.get(ids.at(-1) ?? '')).toBe(1);
    expect(lines).toHaveLength(201);
    await round(2);
    expect(lines).toHaveLength(201);
    const [shown] = await dueKinds(store.read);
    expect(shown).toMatchObject({ kind: 'stop', count: 201 });
    expect(shown?.failing).toHaveLength(20);
    expect(shown?.failing[1]).toMatchObject({ subjectId: ids[1], error: 'it can not be' });
    why = 'another one';
    await eventually(async () => {
      await look();
      return (await rowsOf(store))[0]?.error === why;
    });
    expect(lines).toHaveLength(202);
    expect(lines.at(-1)?.facts).toMatchObject({ id: `stop/${ids[0]}` });
  });

  test('an act that is set while it runs runs once more', async () => {
    const store = await open();
    await setActs(store, act('a'));
    let runs = 0;
    work(store, async () => {
      runs += 1;
      if (runs === 1) await setActs(store, act('a', { dueAtMs: 2_000 }));
      return null;
    });
    await eventually(async () => (await rowsOf(store)).length === 0);
    expect(runs).toBe(2);
  });

  test('processes run each act once', async () => {
    const store = await open();
    const ids = Array.from({ length: 150 }, (_, at) => `a-${at}`);
    await setActs(store, ...ids.map((id) => act(id)));
    const ran: string[] = [];
    for (let process = 0; process < 3; process++) work(store, async ({ id }) => (ran.push(id), null));
    await eventually(async () => (await rowsOf(store)).length === 0);
    expect(ran.toSorted()).toEqual(ids.toSorted());
  });

  test('an act of a process that is gone is taken over once its lease ends', async () => {
    const store = await open();
    await setActs(store, act('a'));
    const endsAtMs = Date.now() + 400;
    const lease = { leaseOwner: 'gone', leaseToken: 't', leaseUntilMs: endsAtMs, dueAtMs: endsAtMs };
    await store.write((tx) => tx.updateTable('dueAct').set(lease).execute());
    let ranAtMs = 0;
    work(store, async () => ((ranAtMs = Date.now()), null));
    await eventually(async () => ranAtMs > 0);
    expect(ranAtMs).toBeGreaterThanOrEqual(endsAtMs);
  });

  test('a step of the clock delays nothing: forward at once, back as the handler says', async () => {
    const store = await open();
    let aheadMs = 0;
    const now = (): number => Date.now() + aheadMs;
    const hourMs = 3_600_000;
    const dueAtMs = now() + hourMs;
    const seen: string[] = [];
    const { look } = work(store, async ({ id }) => (seen.push(id) > 2 ? null : dueAtMs + hourMs), { now });
    const atRest = async (): Promise<boolean> => (await rowsOf(store)).every(({ leaseOwner }) => !leaseOwner);
    await setActs(store, act('first'));
    await look();
    await eventually(async () => seen.length === 1 && (await atRest()));
    await setActs(store, act('a', { dueAtMs }));
    await look();
    aheadMs += hourMs;
    await look();
    await eventually(async () => seen.length === 2 && (await atRest()));
    // The next times came from the wrong date: the handlers say new ones.
    aheadMs -= 2 * hourMs;
    await setActs(store, act('b', { dueAtMs: now() }));
    await look();
    await eventually(async () => (await rowsOf(store)).length === 0);
    expect(seen.toSorted()).toEqual(['a', 'a', 'b', 'first', 'first']);
  });
});
