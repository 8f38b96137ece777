import { describe, expect, test } from 'vitest';
import { actions, defaultLimits, instanceStatuses, lastingStatuses, whyNot } from '../../src/domain/instance-states.ts';
import type { Desired, Instance, Observed } from '../../src/domain/instance.ts';
import { giveUp, plan, type Seen } from '../../src/domain/plan.ts';
import { anInstance } from './an-instance.ts';

const limits = defaultLimits;
const now = 1_000_000_000_000;
const running: Seen = { kind: 'present', running: true, exitCode: null, outOfMemory: false, startedAtMs: now - 1_000 };
const ended: Seen = { kind: 'present', running: false, exitCode: 1, outOfMemory: false, startedAtMs: now - 1_000 };
const absent: Seen = { kind: 'absent' };
const unknown: Seen = { kind: 'unknown', reason: 'no answer' };

const at = (desired: Desired, observed: Partial<Observed>, more: Partial<Instance> = {}): Instance => {
  const base = anInstance({ wishedAtMs: now - 1_000, everEnsured: true, ...more, desired });
  return { ...base, observed: { ...base.observed, ...observed } };
};

describe('plan', () => {
  test('answers a step for every wish, status, and sight', () => {
    for (const desired of ['running', 'stopped', 'released'] as const) {
      for (const status of instanceStatuses) {
        for (const seen of [running, ended, absent, unknown]) {
          for (const mustHalt of [false, true]) {
            expect(plan(at(desired, { status }, { mustHalt }), seen, now, limits).do).toBeTypeOf('string');
          }
        }
      }
    }
  });

  test('unknown is not absent: nothing is made, halted or destroyed on it', () => {
    for (const desired of ['running', 'stopped', 'released'] as const) {
      for (const status of instanceStatuses) {
        expect(['rest', 'mark']).toContain(plan(at(desired, { status }), unknown, now, limits).do);
      }
    }
  });

  test('a wish to run makes what is absent, and finishes what ended before it was started', () => {
    expect(
      plan(at('running', { status: 'Initializing', phase: 'Queued' }, { everEnsured: false }), absent, now, limits),
    ).toEqual({
      do: 'ensure',
      show: { status: 'Initializing', healthy: false },
    });
    expect(plan(at('running', { status: 'Starting', phase: 'CreateContainer' }), ended, now, limits).do).toBe('ensure');
  });

  test('an ended container is started again with back-off, and given up after the last attempt', () => {
    const first = plan(at('running', { status: 'Running', phase: 'Ready' }), ended, now, limits);
    expect(first).toMatchObject({
      do: 'mark',
      attempts: 1,
      afterMs: 1_000,
      show: { status: 'Starting', diagnosis: 'ContainerExited' },
    });
    const last = plan(
      at('running', { status: 'Running', phase: 'Ready' }, { attempts: limits.maxAttempts }),
      ended,
      now,
      limits,
    );
    expect(last).toMatchObject({ do: 'giveUp', show: { status: 'StartingFailed', diagnosis: 'ContainerExited' } });
  });

  test('one whose container was removed by others is made again with back-off, and given up after the last attempt', () => {
    for (const phase of ['Ready', 'WaitReady'] as const) {
      const first = plan(at('running', { status: 'Running', phase }), absent, now, limits);
      expect(first).toMatchObject({
        do: 'mark',
        attempts: 1,
        afterMs: 1_000,
        show: { status: 'Starting', phase: 'Queued', diagnosis: 'ContainerExited' },
      });
      expect(
        plan(at('running', { status: 'Running', phase }, { attempts: limits.maxAttempts }), absent, now, limits).do,
      ).toBe('giveUp');
    }
    expect(plan(at('running', { status: 'Starting', phase: 'Queued' }), absent, now, limits).do).toBe('ensure');
  });

  test('it is Initializing until a container was seen, and a failure of that time is InitializationFailed', () => {
    const early = at('running', { status: 'Initializing', phase: 'CreateContainer' });
    expect(plan(early, absent, now, limits)).toMatchObject({ do: 'ensure', show: { status: 'Initializing' } });
    expect(plan(early, { ...ended, exitCode: null }, now, limits)).toMatchObject({
      do: 'ensure',
      show: { status: 'Starting' },
    });
    expect(plan(early, running, now, limits)).toMatchObject({ do: 'checkReady', show: { status: 'Starting' } });
    expect(giveUp(early, 'EngineRejected', 'no')).toMatchObject({ show: { status: 'InitializationFailed' } });
    expect(giveUp(at('running', { status: 'Starting' }), 'EngineRejected', 'no')).toMatchObject({
      show: { status: 'StartingFailed' },
    });
    expect(giveUp(at('running', { status: 'PullingImage' }, { everEnsured: false }), 'VolumeLost', 'no')).toMatchObject(
      { show: { status: 'InitializationFailed' } },
    );
  });

  test('one that rests says nothing of an engine that was away once it answers', () => {
    expect(plan(at('stopped', { status: 'Stopped', diagnosis: 'EngineUnreachable' }), ended, now, limits)).toEqual({
      do: 'mark',
      show: { diagnosis: '', diagnosisMessage: '' },
    });
    expect(
      plan(at('running', { status: 'Running', phase: 'Ready', diagnosis: 'EngineUnreachable' }), running, now, limits)
        .do,
    ).toBe('mark');
  });

  test('a restart of one that has ended does not halt it, and tells of no crash', () => {
    const instance = at('running', { status: 'Restarting', phase: 'Stopping' }, { mustHalt: true });
    for (const seen of [ended, absent])
      expect(plan(instance, seen, now, limits)).toMatchObject({ do: 'ensure', show: { status: 'Restarting' } });
    const inTheMiddle = at('running', { status: 'Running', phase: 'Ready' }, { mustHalt: true });
    expect(plan(inTheMiddle, ended, now, limits).do).toBe('ensure');
  });

  test('one that ran for long begins with a clean count', () => {
    const longAgo: Seen = { ...ended, startedAtMs: now - 3_600_000 };
    const step = plan(
      at('running', { status: 'Running', phase: 'Ready' }, { attempts: limits.maxAttempts }),
      longAgo,
      now,
      limits,
    );
    expect(step).toMatchObject({ do: 'mark', attempts: 1 });
  });

  test('out of memory has its own reason', () => {
    const killed: Seen = { ...ended, outOfMemory: true };
    expect(plan(at('running', { status: 'Running', phase: 'Ready' }), killed, now, limits)).toMatchObject({
      show: { diagnosis: 'OutOfMemory' },
    });
  });

  test('one that never answers is given up after its deadline', () => {
    const instance = at(
      'running',
      { status: 'Starting', phase: 'WaitReady' },
      { wishedAtMs: now - limits.readyDeadlineMs - 1 },
    );
    const seen: Seen = { ...running, startedAtMs: now - limits.readyDeadlineMs - 1 };
    expect(plan(instance, seen, now, limits)).toMatchObject({ do: 'giveUp', show: { diagnosis: 'StartTimeout' } });
  });

  test('a restart halts first, then ensures', () => {
    const instance = at('running', { status: 'Restarting', phase: 'Stopping' }, { mustHalt: true });
    expect(plan(instance, running, now, limits).do).toBe('halt');
    expect(plan({ ...instance, mustHalt: false }, ended, now, limits)).toMatchObject({
      do: 'ensure',
      show: { status: 'Restarting' },
    });
  });

  test('a running one whose control files are out of date is handed new ones', () => {
    const instance = at('running', { status: 'Running', phase: 'Ready' }, { filesStale: true });
    expect(plan(instance, running, now, limits).do).toBe('refresh');
    expect(plan({ ...instance, filesStale: false }, running, now, limits).do).toBe('rest');
  });

  test('a wish to stop halts what runs, tells when it is stopped, and then rests', () => {
    expect(plan(at('stopped', { status: 'Running', phase: 'Stopping' }), running, now, limits).do).toBe('halt');
    for (const seen of [ended, absent])
      expect(plan(at('stopped', { status: 'Running' }), seen, now, limits).do).toBe('stopped');
    expect(plan(at('stopped', { status: 'Stopped' }), ended, now, limits).do).toBe('rest');
  });

  test('a lasting failure stays told while its container is halted', () => {
    const instance = at('stopped', { status: 'StartingFailed', diagnosis: 'StartTimeout' });
    expect(plan(instance, running, now, limits)).toEqual({ do: 'halt', show: {} });
    expect(plan(instance, ended, now, limits).do).toBe('rest');
    expect(plan(instance, unknown, now, limits).do).toBe('rest');
  });

  test('released is destroyed whatever is seen, and rests once it is clean', () => {
    for (const seen of [running, ended, absent]) {
      expect(plan(at('released', { status: 'Released', phase: 'Cleaning' }), seen, now, limits).do).toBe('destroy');
    }
    expect(plan(at('released', { status: 'Released', phase: 'Cleaned' }), absent, now, limits).do).toBe('rest');
    expect(plan(at('released', { status: 'Released', phase: 'Cleaned' }), running, now, limits).do).toBe('destroy');
  });
});

describe('actions', () => {
  test('terminate is legal in every state', () => {
    for (const status of instanceStatuses) {
      for (const desired of ['running', 'stopped', 'released'] as const)
        expect(whyNot('terminate', status, desired)).toBeNull();
    }
  });

  test('from every state that lasts, something leads on; each refusal says why', () => {
    for (const status of lastingStatuses.filter((one) => one !== 'Released')) {
      const desired = status === 'Running' ? 'running' : 'stopped';
      expect(actions.some((action) => action !== 'terminate' && whyNot(action, status, desired) === null)).toBe(true);
    }
    expect(whyNot('start', 'Running', 'running')).toMatch(/stop or restart/);
    expect(whyNot('stop', 'Stopped', 'stopped')).toMatch(/already Stopped/);
    expect(whyNot('start', 'Running', 'stopped')).toMatch(/still stopping/);
    expect(whyNot('restart', 'Stopped', 'stopped')).toMatch(/use start/);
  });

  test('a failed start may be started again', () => {
    expect(whyNot('start', 'StartingFailed', 'stopped')).toBeNull();
    expect(whyNot('start', 'InitializationFailed', 'stopped')).toBeNull();
  });
});
