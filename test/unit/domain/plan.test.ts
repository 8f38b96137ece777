import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';
import {
  instanceStatuses,
  isLasting,
  permanentReason,
  phases,
  transitions,
  type DesiredState,
} from '../../../src/domain/compute/instance-states.ts';
import type { Instance } from '../../../src/domain/compute/instance.ts';
import { beginOperation, type Cause } from '../../../src/domain/compute/operation.ts';
import { failPermanently, plan, type InstanceObservation, type Step } from '../../../src/domain/compute/plan.ts';
import { possibleStates } from './instance-fixture.ts';
import {
  absent,
  at,
  created,
  ended,
  leaving,
  leftDocker,
  limits,
  now,
  reserved,
  starting,
  running,
  taken,
  unknown,
} from './plan-fixture.ts';

const ending = { byMs: now + 9_000, refundFor: '', priceMicros: 1 } as const;
const saved = { ref: 'archive:1', sizeBytes: 1, generation: 1, replaces: [] };

const observations = [running, ended, reserved, leftDocker, created, starting, absent, unknown, leaving, taken];
const allCases = possibleStates.flatMap(({ desired, status }) =>
  phases.flatMap((phase) =>
    [false, true].flatMap((mustHalt) =>
      (['', 'EngineUnreachable'] as const).flatMap((diagnosis) =>
        [null, saved].flatMap((archive) =>
          observations.map((observation) => {
            const instance = at(desired, { status, phase, diagnosis }, { mustHalt, archive });
            const state = `${desired} ${status}/${phase} ${diagnosis} ${JSON.stringify({ mustHalt, archive, observation })}`;
            return { instance, observation, state, step: plan(instance, observation, now, limits) };
          }),
        ),
      ),
    ),
  ),
);
const knownCases = allCases.filter(({ instance }) => instance.observed.diagnosis !== 'EngineUnreachable');

/** Steps that a desired state allows, apart from `mark`. */
const allowedSteps: Readonly<Record<DesiredState, readonly Step['do'][]>> = {
  running: ['rest', 'ensure', 'checkReady', 'checkReports', 'halt', 'failPermanently', 'announceReclaim'],
  stopped: ['rest', 'halt', 'settle'],
  archived: ['rest', 'halt', 'saveRoot', 'removeSaved', 'settle'],
  released: ['rest', 'destroy'],
};

describe('plan, in every state and for every observation', () => {
  test('takes only steps that lead to the desired state', () => {
    const wrong = allCases.filter(
      ({ instance, step }) => step.do !== 'mark' && !allowedSteps[instance.desired].includes(step.do),
    );
    expect(wrong.map(({ state }) => state)).toEqual([]);
  });

  test('moves a status only along the table of transitions', () => {
    const wrong = allCases.filter(({ instance, step }) => {
      const { status } = instance.observed;
      const next = 'show' in step ? (step.show.status ?? status) : status;
      return next !== status && !Object.values(transitions[status]).includes(next);
    });
    expect(wrong.map(({ state }) => state)).toEqual([]);
  });

  test('changes nothing but the diagnosis while the engine is away', () => {
    for (const { observation, step, state } of allCases) {
      if (observation !== unknown) continue;
      if (step.do !== 'rest') {
        const show = { diagnosis: 'EngineUnreachable', diagnosisMessage: 'no answer' };
        expect(step, state).toEqual({ do: 'mark', show, afterMs: limits.engineRetryMs });
      } else expect(step.afterMs, state).toBe(limits.engineRetryMs);
    }
  });

  test('never leaves a container running, or about to run, unless `running` is desired', () => {
    const wrong = allCases.filter(
      ({ instance, observation, step }) =>
        (observation === running || observation === starting) &&
        instance.desired !== 'running' &&
        !['halt', 'destroy', 'mark'].includes(step.do),
    );
    expect(wrong.map(({ state }) => state)).toEqual([]);
  });

  test('halts what outlives an ended run before anything else, however the instance waits', () => {
    const waits: Partial<Instance>[] = [
      {},
      { waitsSinceMs: now },
      { notBeforeMs: now + 1 },
      { reclaimAtMs: now - 1 },
      { oldContainer: { mounts: [], nodePorts: [], gpus: 0, runtime: '', rootDiskGB: 0 } },
      { requestedAtMs: now - limits.startDeadlineMs - 1 },
    ];
    for (const { instance, observation, state } of knownCases) {
      if (observation !== leftDocker && observation !== reserved) continue;
      const expected = instance.desired === 'released' ? 'destroy' : 'halt';
      for (const wait of waits)
        expect(plan({ ...instance, ...wait }, observation, now, limits).do, state).toBe(expected);
    }
  });

  test('halts a start under way of an instance that must not run, and of one that failed', () => {
    for (const { instance, observation, state } of knownCases) {
      if (observation !== reserved || instance.desired === 'running') continue;
      const expected = instance.desired === 'released' ? 'destroy' : 'halt';
      expect(plan(instance, starting, now, limits).do, state).toBe(expected);
    }
    expect(plan(at('running', { status: 'Starting' }), starting, now, limits).do).toBe('ensure');
  });

  test('halts whatever runs of an instance that waits for capacity or its window', () => {
    for (const { instance, state } of knownCases) {
      if (instance.desired !== 'running') continue;
      for (const wait of [{ waitsSinceMs: now }, { notBeforeMs: now + 1 }])
        for (const seen of [running, leaving, starting, { ...created, docker: 'running' } as const])
          expect(plan({ ...instance, ...wait }, seen, now, limits).do, state).toBe('halt');
    }
  });

  test('ends a start under way once the instance is to be stopped, and goes on with it before', () => {
    const wrong = knownCases.filter(({ instance, observation, step }) => {
      if (observation !== starting) return false;
      if (instance.desired === 'released') return false;
      if (instance.desired !== 'running') return step.do !== 'halt';
      return !isDeepStrictEqual(step, plan(instance, created, now, limits));
    });
    expect(wrong.map(({ state }) => state)).toEqual([]);
  });

  test('leaves a Pod that is about to start, and the Docker sidecar of a run that goes on', () => {
    const wrong = allCases.filter(({ instance, observation, step }) => {
      if (instance.desired !== 'running' || (observation !== created && observation !== running)) return false;
      const others = [{ docker: 'running' } as const, ...(observation === created ? [starting] : [])];
      return others.some(
        (other) => !isDeepStrictEqual(plan(instance, { ...observation, ...other }, now, limits), step),
      );
    });
    expect(wrong.map(({ state }) => state)).toEqual([]);
  });

  test('removes the container of an archive only once its root disk is saved', () => {
    const wrong = allCases.filter(
      ({ instance, observation, step }) =>
        step.do === 'removeSaved' && observation !== absent && instance.archive !== saved,
    );
    expect(wrong.map(({ state }) => state)).toEqual([]);
  });

  test('rests without a timer only where nothing is awaited', () => {
    for (const { instance, observation, step, state } of allCases) {
      if (step.do !== 'rest' || step.afterMs !== undefined) continue;
      expect(isLasting(instance.observed.status), state).toBe(true);
      if (instance.desired === 'running') expect(observation, state).toBe(running);
      if (instance.desired === 'released') expect(observation, state).toBe(absent);
    }
  });

  test('gives every permanent failure a status, a reason and a message', () => {
    const late = now + limits.startDeadlineMs + 1;
    const failures = allCases.flatMap(({ instance, observation, state }) => {
      const step = plan(instance, observation, late, limits);
      return step.do === 'failPermanently' ? [{ step, state }] : [];
    });
    expect(failures.length).toBeGreaterThan(0);
    for (const { step, state } of failures) {
      expect(['InitializationFailed', 'StartingFailed'], state).toContain(step.show.status);
      expect(step.show, state).toMatchObject({ phase: 'Failed', healthy: false, runningSinceMs: 0, progress: null });
      expect(step.show.diagnosis, state).toMatch(/./);
      expect(step.show.diagnosisMessage, state).toMatch(/./);
      expect(permanentReason(step.show.diagnosis ?? ''), state).toBe(step.show.diagnosis);
    }
  });
});

describe('plan', () => {
  test('throws for a status that the desired state excludes', () => {
    expect(() => plan(at('running', { status: 'Stopped' }), absent, now, limits)).toThrow(
      /the status Stopped has no transition for the event "create"/,
    );
    expect(() => plan(at('archived', { status: 'Starting' }), absent, now, limits)).toThrow(/"archive"/);
  });

  test('creates, halts and destroys nothing on an unknown observation', () => {
    for (const { desired, status } of possibleStates)
      expect(['rest', 'mark']).toContain(plan(at(desired, { status }), unknown, now, limits).do);
  });

  test('counts deadlines from the end of an engine outage', () => {
    const away = { status: 'Starting', phase: 'PrepareDisks', diagnosis: 'EngineUnreachable' } as const;
    const old = { requestedAtMs: now - 10 * limits.startDeadlineMs };
    expect(plan(at('running', away, old), absent, now, limits)).toEqual({
      do: 'mark',
      show: { diagnosis: '', diagnosisMessage: '', countedFromMs: now },
    });
    const back = at('running', { ...away, diagnosis: '', countedFromMs: now }, old);
    expect(plan(back, absent, now, limits).do).toBe('ensure');
    expect(plan(back, absent, now + limits.disksDeadlineMs + 1, limits).do).toBe('failPermanently');
  });

  test('fails every transient status at its deadline, with the last cause of the wait', () => {
    for (const status of instanceStatuses.filter((one) => !isLasting(one))) {
      for (const phase of ['Queued', 'DownloadImage', 'PrepareDisks', 'CreateContainer', 'WaitReady'] as const) {
        const waiting = at('running', { status, phase }, { requestedAtMs: now });
        for (const seen of [absent, ended, running]) {
          const late = plan(waiting, seen, now + limits.startDeadlineMs + 1, limits);
          expect(late).toMatchObject({ do: 'failPermanently', show: { phase: 'Failed' } });
        }
      }
    }
    const pending = at(
      'running',
      {
        status: 'Initializing',
        phase: 'PrepareDisks',
        diagnosis: 'VolumePending',
        diagnosisMessage: 'volume v is Pending',
      },
      { requestedAtMs: now },
    );
    expect(plan(pending, absent, now + limits.disksDeadlineMs, limits).do).toBe('ensure');
    expect(plan(pending, absent, now + limits.disksDeadlineMs + 1, limits)).toMatchObject({
      show: {
        status: 'InitializationFailed',
        diagnosis: 'DisksFailed',
        diagnosisMessage: expect.stringContaining('volume v is Pending (still'),
      },
    });
  });

  test('places a queued launch, and does not create it, however long it waits', () => {
    const waiting = at(
      'running',
      { status: 'Initializing' },
      { everEnsured: false, waitsSinceMs: 1, requestedAtMs: 1 },
    );
    expect(plan(waiting, absent, now, limits)).toEqual({ do: 'acquireCapacity' });
  });

  test('kills an instance that ignores a stop past its deadline, and shows StopDelayed', () => {
    const killed = at('stopped', { status: 'Running', phase: 'Stopping' }, { requestedAtMs: now });
    const stopping = { ...killed, observed: { ...killed.observed, ending } };
    expect(plan(stopping, running, now, limits)).toMatchObject({ do: 'halt', graceMs: 9_000 });
    expect(plan(killed, running, now + limits.stopDeadlineMs + 1, limits)).toMatchObject({
      do: 'halt',
      graceMs: 0,
      show: { diagnosis: 'StopDelayed' },
    });
  });

  test('shows the cause of a stop by schedule, longest run or idleness, and none for a requested stop', () => {
    const stop = (cause: Cause) =>
      at('stopped', { status: 'Running' }, { operation: beginOperation('stop', cause, now) });
    for (const cause of ['ScheduledStop', 'MaxRunTime', 'IdleStop'] as const)
      expect(plan(stop(cause), ended, now, limits)).toMatchObject({
        do: 'settle',
        show: { status: 'Stopped', diagnosis: cause },
      });
    expect(plan(stop('user'), ended, now, limits)).toMatchObject({ show: { diagnosis: '' } });
  });

  test('an archive halts, saves the root disk, and only then removes the container', () => {
    const requested = at('archived', { status: 'Running', phase: 'Stopping' }, { generation: 3 });
    expect(plan(requested, ended, now, limits)).toEqual({ do: 'saveRoot' });
    const archive = { ref: 'kept', sizeBytes: 1, generation: 2, replaces: [] };
    expect(plan({ ...requested, archive }, ended, now, limits)).toEqual({ do: 'saveRoot' });
    const withArchive = { ...requested, archive: { ...archive, generation: 3 } };
    expect(plan(withArchive, ended, now, limits)).toEqual({ do: 'removeSaved' });
    expect(plan(withArchive, absent, now, limits)).toMatchObject({
      do: 'settle',
      show: { status: 'Archived', phase: 'Archived' },
    });
    const archived = at('archived', { status: 'Archived', phase: 'Archived' }, { archive: withArchive.archive });
    expect(plan(archived, absent, now, limits)).toEqual({ do: 'rest' });
    // The previous archive's image goes before the status is Archived.
    expect(
      plan({ ...withArchive, archive: { ...withArchive.archive, replaces: ['old'] } }, absent, now, limits).do,
    ).toBe('removeSaved');
    // A container that reappears is removed again, but only after its root disk is saved.
    expect(plan({ ...archived, generation: 3 }, ended, now, limits).do).toBe('removeSaved');
    expect(plan({ ...archived, archive: null }, ended, now, limits).do).toBe('saveRoot');
    const cleared = at('archived', { status: 'Archived', phase: 'Archiving' }, { archive: withArchive.archive });
    expect(plan(cleared, absent, now, limits)).toMatchObject({ do: 'settle', show: { phase: 'Archived' } });
    expect(plan(requested, absent, now, limits)).toMatchObject({
      do: 'settle',
      show: { message: expect.stringContaining('no root disk') },
    });
  });

  test('removes leftovers of a cancelled archive once nothing else is to do, in every desired state', () => {
    const unfinished = ['half'];
    const atRest = [
      { instance: at('stopped', { status: 'Stopped', phase: 'Stopped' }), seen: ended },
      { instance: at('stopped', { status: 'StartingFailed', phase: 'Failed' }), seen: absent },
      { instance: at('archived', { status: 'Archived', phase: 'Archived' }), seen: absent },
      { instance: at('running', { status: 'Running', phase: 'Ready', healthy: true }), seen: running },
    ];
    for (const { instance, seen } of atRest) {
      expect(plan(instance, seen, now, limits), instance.observed.status).toEqual({ do: 'rest' });
      expect(plan({ ...instance, unfinished }, seen, now, limits)).toEqual({ do: 'removeUnfinished' });
    }
    const saving = at('archived', { status: 'Running', phase: 'Archiving' }, { unfinished });
    expect(plan(saving, ended, now, limits)).toEqual({ do: 'saveRoot' });
  });

  test('a failed archive settles as Stopped with its container and the reason', () => {
    const operation = { ...beginOperation('archive', 'user', now), state: 'Failed', endedAtMs: now } as const;
    const failed = at('stopped', { status: 'Running', diagnosis: 'ArchiveFailed' }, { operation });
    expect(plan(failed, ended, now, limits)).toMatchObject({
      do: 'settle',
      show: { status: 'Stopped', diagnosis: 'ArchiveFailed' },
    });
    // The engine's own words, also for an instance that failed to start.
    const reported = {
      status: 'StartingFailed',
      phase: 'Archiving',
      diagnosis: 'ArchiveFailed',
      diagnosisMessage: 'the disk is full',
    } as const;
    expect(plan(at('stopped', reported, { operation }), ended, now, limits)).toMatchObject({
      do: 'settle',
      show: { status: 'Stopped', diagnosis: 'ArchiveFailed', diagnosisMessage: 'the disk is full' },
    });
    const givenUp = at(
      'stopped',
      { status: 'StartingFailed', phase: 'Stopping' },
      { operation: beginOperation('stop', 'user', now) },
    );
    expect(plan(givenUp, ended, now, limits)).toMatchObject({
      do: 'settle',
      show: { status: 'Stopped', diagnosis: '' },
    });
  });

  test('healthy follows the last health check', () => {
    const up = at('running', { status: 'Running', phase: 'Ready', healthy: true });
    expect(plan(up, { ...running, answers: false }, now, limits)).toMatchObject({
      do: 'mark',
      show: { healthy: false, diagnosis: 'Unhealthy' },
    });
    expect(plan(up, { ...running, answers: true }, now, limits)).toEqual({ do: 'rest' });
    const ill = at('running', { status: 'Running', phase: 'Ready', healthy: false, diagnosis: 'Unhealthy' });
    expect(plan(ill, { ...running, answers: true }, now, limits)).toMatchObject({
      do: 'mark',
      show: { healthy: true, diagnosis: '' },
    });
    expect(plan(ill, running, now, limits)).toEqual({ do: 'rest' });
  });

  test('creates an absent container, and starts one that was created and never started', () => {
    expect(
      plan(at('running', { status: 'Initializing', phase: 'Queued' }, { everEnsured: false }), absent, now, limits),
    ).toEqual({
      do: 'ensure',
      show: { status: 'Initializing', healthy: false, runningSinceMs: 0 },
    });
    expect(plan(at('running', { status: 'Starting', phase: 'CreateContainer' }), ended, now, limits).do).toBe('ensure');
  });

  test('restarts an ended container with back-off, and fails permanently after the last attempt', () => {
    const first = plan(at('running', { status: 'Running', phase: 'Ready' }), ended, now, limits);
    expect(first).toMatchObject({
      do: 'mark',
      attempts: 1,
      backOffMs: 1_000,
      show: { status: 'Starting', diagnosis: 'ContainerExited' },
    });
    const last = plan(
      at('running', { status: 'Running', phase: 'Ready' }, { attempts: limits.maxAttempts }),
      ended,
      now,
      limits,
    );
    expect(last).toMatchObject({ do: 'failPermanently', show: { status: 'StartingFailed', diagnosis: 'CrashLoop' } });
  });

  test('recreates an externally removed container with back-off, and fails permanently after the last attempt', () => {
    for (const phase of ['Ready', 'WaitReady'] as const) {
      const first = plan(at('running', { status: 'Running', phase }), absent, now, limits);
      expect(first).toMatchObject({
        do: 'mark',
        attempts: 1,
        backOffMs: 1_000,
        show: { status: 'Starting', phase: 'Queued', diagnosis: 'ContainerExited' },
      });
      expect(
        plan(at('running', { status: 'Running', phase }, { attempts: limits.maxAttempts }), absent, now, limits).do,
      ).toBe('failPermanently');
    }
    expect(plan(at('running', { status: 'Starting', phase: 'Queued' }), absent, now, limits).do).toBe('ensure');
  });

  test('is Initializing until a container is observed, and fails as InitializationFailed before that', () => {
    const early = at('running', { status: 'Initializing', phase: 'CreateContainer' });
    expect(plan(early, absent, now, limits)).toMatchObject({ do: 'ensure', show: { status: 'Initializing' } });
    expect(plan(early, { ...ended, exitCode: null }, now, limits)).toMatchObject({
      do: 'ensure',
      show: { status: 'Starting' },
    });
    expect(plan(early, running, now, limits)).toMatchObject({ do: 'checkReady', show: { status: 'Starting' } });
    expect(failPermanently(early, 'EngineRejected', 'no')).toMatchObject({ show: { status: 'InitializationFailed' } });
    expect(failPermanently(at('running', { status: 'Starting' }), 'EngineRejected', 'no')).toMatchObject({
      show: { status: 'StartingFailed' },
    });
  });

  test('clears EngineUnreachable at rest once the engine answers', () => {
    expect(
      plan(at('stopped', { status: 'Stopped', diagnosis: 'EngineUnreachable' }), ended, now, limits),
    ).toMatchObject({
      do: 'mark',
      show: { diagnosis: '', diagnosisMessage: '' },
    });
    expect(
      plan(at('running', { status: 'Running', phase: 'Ready', diagnosis: 'EngineUnreachable' }), running, now, limits)
        .do,
    ).toBe('mark');
  });

  test('a restart of an ended container does not halt it, and reports no crash', () => {
    const instance = at('running', { status: 'Restarting', phase: 'Stopping' }, { mustHalt: true });
    for (const seen of [ended, absent])
      expect(plan(instance, seen, now, limits)).toMatchObject({ do: 'ensure', show: { status: 'Restarting' } });
    const inTheMiddle = at('running', { status: 'Running', phase: 'Ready' }, { mustHalt: true });
    expect(plan(inTheMiddle, ended, now, limits).do).toBe('ensure');
  });

  test('shows OutOfMemory after an out-of-memory kill', () => {
    const killed: InstanceObservation = { ...ended, outOfMemory: true };
    expect(plan(at('running', { status: 'Running', phase: 'Ready' }), killed, now, limits)).toMatchObject({
      show: { diagnosis: 'OutOfMemory' },
    });
  });

  test('a restart halts first, then ensures', () => {
    const instance = at('running', { status: 'Restarting', phase: 'Stopping', ending }, { mustHalt: true });
    expect(plan(instance, running, now, limits).do).toBe('halt');
    const halted = at('running', { status: 'Restarting', phase: 'Stopping' });
    expect(plan(halted, ended, now, limits)).toMatchObject({
      do: 'ensure',
      show: { status: 'Restarting' },
    });
  });

  test('refreshes outdated control files of a running instance', () => {
    const instance = at('running', { status: 'Running', phase: 'Ready' }, { filesStale: true });
    expect(plan(instance, running, now, limits).do).toBe('refresh');
    expect(plan({ ...instance, filesStale: false }, running, now, limits).do).toBe('rest');
  });

  test('restores a lost Docker sidecar, and none of an instance without Docker', () => {
    const instance = at('running', { status: 'Running', phase: 'Ready' });
    const withDocker = { ...instance, spec: { ...instance.spec, enableDocker: true } };
    expect(plan(withDocker, { ...running, docker: 'stopped' }, now, limits).do).toBe('refresh');
    expect(plan(withDocker, { ...running, docker: 'running' }, now, limits).do).toBe('rest');
    expect(plan(instance, { ...running, docker: 'stopped' }, now, limits).do).toBe('rest');
  });

  test('a stop halts a running container, settles once it ended, and then rests', () => {
    expect(plan(at('stopped', { status: 'Running', phase: 'Stopping', ending }), running, now, limits).do).toBe('halt');
    for (const seen of [ended, absent])
      expect(plan(at('stopped', { status: 'Running' }), seen, now, limits).do).toBe('settle');
    expect(plan(at('stopped', { status: 'Stopped', phase: 'Stopped' }), ended, now, limits).do).toBe('rest');
  });

  test('keeps showing a permanent failure while its container is halted', () => {
    const instance = at('stopped', { status: 'StartingFailed', diagnosis: 'StartTimeout' });
    expect(plan(instance, running, now, limits)).toMatchObject({ do: 'halt', show: {} });
    expect(plan(instance, ended, now, limits).do).toBe('rest');
    expect(plan(instance, unknown, now, limits).do).toBe('rest');
  });

  test('destroys a released instance whatever is observed, and rests once it is clean', () => {
    for (const seen of [running, ended, absent]) {
      expect(plan(at('released', { status: 'Released', phase: 'Cleaning' }), seen, now, limits).do).toBe('destroy');
    }
    expect(plan(at('released', { status: 'Released', phase: 'Cleaned' }), absent, now, limits).do).toBe('rest');
    expect(plan(at('released', { status: 'Released', phase: 'Cleaned' }), running, now, limits).do).toBe('destroy');
  });
});
