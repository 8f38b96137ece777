/** Runs that an engine ends or begins without Berth, as a cluster does. */
import { describe, expect, test } from 'vitest';
import type { Instance } from '../../../src/domain/instance.ts';
import { plan, type InstanceObservation } from '../../../src/domain/plan.ts';
import { at, endsAtMs, leaving, limits, now, running, taken } from './plan-fixture.ts';

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
    const used: InstanceObservation = { ...taken, disruption: { text: 'low on memory', endsAtMs: 0, isOwnUse: true } };
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
