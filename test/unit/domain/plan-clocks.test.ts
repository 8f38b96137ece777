/** Decisions of `plan` about times, whatever the clock of the engine says. */
import { describe, expect, test } from 'vitest';
import { plan, type InstanceObservation } from '../../../src/domain/compute/plan.ts';
import { at, ended, limits, now, running } from './plan-fixture.ts';

describe('plan, by a clock of the engine that is wrong', () => {
  test('resets the attempts after a long run', () => {
    const since = (runningSinceMs: number, startedAtMs: number) =>
      plan(
        at('running', { status: 'Running', phase: 'Ready', runningSinceMs }, { attempts: 2 }),
        { ...ended, startedAtMs },
        now,
        limits,
      );
    // Whatever the engine's clock says.
    for (const skewMs of [-86_400_000, -700_000, 0, 700_000, 86_400_000]) {
      expect(since(now - 3_600_000, now - 3_600_000 + skewMs)).toMatchObject({ do: 'mark', attempts: 1 });
      expect(since(now - 1_000, now - 1_000 + skewMs)).toMatchObject({ do: 'mark', attempts: 3 });
      expect(since(0, now + skewMs)).toMatchObject({ do: 'mark', attempts: 3 });
    }
  });

  test('fails with StartTimeout when an instance never answers by its deadline', () => {
    for (const skewMs of [-86_400_000, 0, 86_400_000]) {
      const seen: InstanceObservation = { ...running, startedAtMs: now + skewMs };
      const since = (countedFromMs: number, runStartedAtMs = seen.startedAtMs) =>
        plan(
          at(
            'running',
            { status: 'Starting', phase: 'WaitReady', runStartedAtMs, countedFromMs },
            { requestedAtMs: now - limits.imageDeadlineMs },
          ),
          seen,
          now,
          limits,
        );
      expect(since(now - limits.readyDeadlineMs - 1)).toMatchObject({
        do: 'failPermanently',
        show: { diagnosis: 'StartTimeout' },
      });
      expect(since(now - limits.readyDeadlineMs)).toMatchObject({ do: 'checkReady' });
      // The first observation of a run, whose image took long.
      expect(since(0, 0)).toMatchObject({ do: 'checkReady', show: { countedFromMs: now } });
    }
  });
});
