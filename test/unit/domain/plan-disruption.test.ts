/** Runs that an engine ends or begins without Berth, as a cluster does. */
import { describe, expect, test } from 'vitest';
import { isInUse, type Instance } from '../../../src/domain/compute/instance.ts';
import { plan, type InstanceObservation, type Step } from '../../../src/domain/compute/plan.ts';
import { runChange, startOutcomes } from '../../../src/domain/compute/start-outcomes.ts';
import {
  absent,
  at,
  created,
  ended,
  endsAtMs,
  leaving,
  leftDocker,
  limits,
  now,
  reserved,
  running,
  starting,
  taken,
} from './plan-fixture.ts';

const inUse = [
  at('running', { status: 'Starting', phase: 'WaitReady', runStartedAtMs: now - 1_000 }, { attempts: 2 }),
  at('running', { status: 'Restarting', phase: 'WaitReady', runStartedAtMs: now - 1_000 }, { attempts: 2 }),
  at('running', { status: 'Running', phase: 'Ready', runStartedAtMs: now - 1_000 }, { attempts: 2 }),
];
const afterOutage = (instance: Instance): Instance => ({
  ...instance,
  observed: { ...instance.observed, diagnosis: 'EngineUnreachable' },
});
const show = (instance: Instance, step: Step): Instance => ({
  ...instance,
  ...(step.do === 'failPermanently' ? { desired: 'stopped' } : {}),
  observed: { ...instance.observed, ...('show' in step ? step.show : {}) },
});

describe('plan, after an outage of the engine', () => {
  test.each([
    ['exited', ended],
    ['is gone', absent],
    ['is another', { ...running, startedAtMs: now - 500 }],
    ['exited before its Docker', leftDocker],
  ] as const)('ends a run that %s by the outage, without a failed attempt, and starts it again', (_, found) => {
    for (const instance of inUse.map(afterOutage)) {
      const step = plan(instance, found, now, limits);
      const shown = { phase: 'Queued', healthy: false, diagnosis: 'EngineUnreachable', countedFromMs: now };
      expect(step).toMatchObject({ do: 'mark', show: shown });
      expect(step).not.toHaveProperty('attempts');
      expect(step, 'the next step follows at once').not.toHaveProperty('afterMs');
      const queued = show(instance, step);
      expect(plan(queued, found, now, limits)).toMatchObject({ do: 'mark', show: { diagnosis: '' } });
    }
  });

  test('goes on with a run that outlasted it, and ends by its own reason one that had used up its memory or node', () => {
    for (const instance of inUse.map(afterOutage)) {
      for (const found of [running, { ...ended, outOfMemory: true }, taken, leaving]) {
        const show = { diagnosis: '', diagnosisMessage: '', countedFromMs: now };
        expect(plan(instance, found, now, limits)).toEqual({ do: 'mark', show });
      }
    }
  });
});

describe('the end of a run', () => {
  const used = { ...taken, disruption: { text: 'low on memory', graceMs: 0, usedUp: 'node' } } as const;
  const paused = { ...ended, exitCode: null };
  const oom = { ...ended, outOfMemory: true };
  const found = [running, ended, oom, reserved, leftDocker, paused, created, starting, absent, leaving, taken, used];
  const late = now + limits.startDeadlineMs + 1;
  const instances = inUse
    .flatMap((one) => [one, { ...one, attempts: limits.maxAttempts }])
    .flatMap((one) => [one, afterOutage(one), { ...one, spec: { ...one.spec, isSpot: true } }]);
  const steps = [now, late].flatMap((atMs) =>
    instances.flatMap((instance) =>
      found.map((seen) => ({ instance, atMs, step: plan(instance, seen, atMs, limits) })),
    ),
  );

  test('before `Running` is paid, or refunded for what no owner can do', () => {
    const changes = steps
      .map(({ instance, step, atMs }) => ({ before: instance, after: show(instance, step), atMs }))
      .filter(({ before, after }) => before.observed.status !== 'Running' && !isInUse(after));
    const reasons = new Set(changes.map(({ after }) => after.observed.diagnosis));
    expect([...reasons].toSorted()).toEqual(
      ['', 'ContainerExited', 'CrashLoop', 'EngineUnreachable', 'Evicted', 'OutOfMemory', 'StartTimeout'].toSorted(),
    );
    const refunds = changes.flatMap(({ before, after, atMs }) => runChange(before, after, atMs).refundFor ?? []);
    expect(new Set(refunds)).toEqual(new Set(['EngineUnreachable', 'Evicted']));
    const refunded = Object.entries(startOutcomes).flatMap(([reason, is]) => (is === 'refunded' ? [reason] : []));
    expect(refunded.toSorted()).toEqual(['EngineUnreachable', 'Evicted', 'OperatorStop', 'RootDiskLost']);
    expect([...reasons].map((reason) => startOutcomes[reason])).not.toContain('free');
  });

  test('comes before the steps of the next start, whose failures end no run', () => {
    expect(steps.filter(({ instance, step }) => step.do === 'ensure' && isInUse(instance))).toEqual([]);
    const [instance] = inUse as [Instance];
    const step = plan(instance, paused, now, limits);
    expect(step, 'no attempt of its own').toMatchObject({ do: 'mark', show: { phase: 'Queued', diagnosis: '' } });
    expect(plan(show(instance, step), paused, now, limits).do).toBe('ensure');
  });
});

describe('plan, for a run that the engine takes away', () => {
  const ready = { status: 'Running', phase: 'Ready', healthy: true, runningSinceMs: now - 5_000 } as const;
  const spot = (more: Partial<Instance> = {}): Instance => {
    const instance = at('running', ready, more);
    return { ...instance, spec: { ...instance.spec, isSpot: true } };
  };

  test('ends an instance at once with the reason, without a failed attempt, and starts it again', () => {
    for (const observation of [leaving, taken]) {
      const step = plan(at('running', ready, { attempts: 2 }), observation, now, limits);
      expect(step).toMatchObject({
        do: 'mark',
        show: { status: 'Starting', phase: 'Queued', diagnosis: 'Evicted', diagnosisMessage: 'the node is drained' },
      });
      expect(step).not.toHaveProperty('attempts');
      expect(step, 'the next step follows at once').not.toHaveProperty('afterMs');
    }
    const queued = at('running', { status: 'Starting', phase: 'Queued', diagnosis: 'Evicted' });
    expect(plan(queued, leaving, now, limits)).toEqual({ do: 'rest', afterMs: limits.engineRetryMs });
    expect(plan(queued, taken, now, limits)).toMatchObject({ do: 'ensure' });
  });

  test('counts a run that used up its node as an exit of its own, and restarts it with a back-off', () => {
    const used: InstanceObservation = { ...taken, disruption: { text: 'low on memory', graceMs: 0, usedUp: 'node' } };
    expect(plan(at('running', ready, { attempts: 2 }), used, now, limits)).toMatchObject({
      do: 'mark',
      attempts: 3,
      show: { phase: 'Queued', diagnosis: 'ContainerExited', diagnosisMessage: 'low on memory' },
    });
    expect(plan(at('running', ready, { attempts: limits.maxAttempts }), used, now, limits)).toMatchObject({
      do: 'failPermanently',
      show: { diagnosis: 'CrashLoop' },
    });
  });

  test('stops an instance that wrote more than its root disk holds, whatever the engine runs in its place', () => {
    const disruption = { text: 'used 6Gi', graceMs: 0, usedUp: 'rootDisk' } as const;
    for (const instance of [at('running', ready), spot(), at('running', { status: 'Starting', phase: 'WaitReady' })])
      for (const observation of [taken, running, starting])
        expect(plan(instance, { ...observation, disruption }, now, limits)).toMatchObject({
          do: 'stop',
          cause: 'RootDiskOverSize',
          show: {
            status: 'Starting',
            diagnosis: 'RootDiskOverSize',
            diagnosisMessage: expect.stringContaining('(used 6Gi)'),
          },
        });
    // Nothing of it starts again.
    const why = { diagnosis: 'RootDiskOverSize', diagnosisMessage: 'used 6Gi' } as const;
    const stopped = at('stopped', { status: 'Starting', phase: 'Queued', ...why });
    const operation = { ...stopped.operation, kind: 'stop', cause: 'RootDiskOverSize' } as const;
    expect(plan({ ...stopped, operation }, { ...starting, disruption }, now, limits)).toMatchObject({
      do: 'halt',
      show: { diagnosis: 'RootDiskOverSize', diagnosisMessage: stopped.observed.diagnosisMessage },
    });
  });

  test('ends a run that was getting ready when the engine has begun another', () => {
    const starting = at('running', { status: 'Starting', phase: 'WaitReady', runStartedAtMs: now - 2_000 });
    expect(plan(starting, running, now, limits)).toMatchObject({ do: 'mark', show: { diagnosis: 'ContainerExited' } });
    const same = at('running', { status: 'Starting', phase: 'WaitReady', runStartedAtMs: now - 1_000 });
    expect(plan(same, running, now, limits)).toMatchObject({ do: 'checkReady' });
  });

  test('does not call a run ready that ends', () => {
    const starting = at('running', { status: 'Starting', phase: 'WaitReady' });
    expect(plan(starting, leaving, now, limits)).toMatchObject({ do: 'mark', show: { diagnosis: 'Evicted' } });
  });

  test('reclaims a spot instance at the moment at which its programs must end', () => {
    expect(plan(spot(), leaving, now, limits)).toEqual({
      do: 'announceReclaim',
      atMs: endsAtMs,
      reason: 'the node is drained',
      show: {},
    });
    expect(plan(spot({ reclaimAtMs: endsAtMs }), leaving, now, limits)).toEqual({ do: 'rest' });
  });

  test('reclaims a spot instance at once whose run has ended, also before its announced time', () => {
    for (const reclaimAtMs of [null, endsAtMs])
      expect(plan(spot({ reclaimAtMs }), taken, now, limits)).toMatchObject({
        do: 'announceReclaim',
        atMs: now,
        show: { status: 'Starting', runningSinceMs: 0 },
      });
  });

  test('does not start a reclaimed instance again before its stop', () => {
    const queued = spot({ reclaimAtMs: now });
    const ending = { ...queued, observed: { ...queued.observed, status: 'Starting', phase: 'Queued' } } as Instance;
    expect(plan(ending, taken, now, limits)).toEqual({ do: 'rest' });
    expect(plan({ ...ending, reclaimAtMs: null }, taken, now, limits)).toMatchObject({ do: 'ensure' });
  });

  test('finds another run that began unseen, and waits for it to be ready', () => {
    const before = { ...ready, runStartedAtMs: now - 9_000 };
    const step = plan(at('running', before), running, now, limits);
    expect(step).toMatchObject({ do: 'mark', show: { status: 'Starting', phase: 'Queued', runningSinceMs: 0 } });
    const next = at('running', { status: 'Starting', phase: 'Queued' });
    expect(plan(next, running, now, limits)).toMatchObject({ do: 'checkReady', startedAtMs: now - 1_000 });
    for (const runStartedAtMs of [0, now - 1_000])
      expect(plan(at('running', { ...ready, runStartedAtMs }), running, now, limits)).toEqual({ do: 'rest' });
  });
});
