/** Actions allowed in each state, texts of refusals, transitions of legal actions, repeats. */
import { expect, test } from 'vitest';
import { applyAction } from '../../../src/domain/compute/desired-state.ts';
import {
  desiredStates,
  instanceStatuses,
  isLasting,
  legalActions,
  refusalOfAction,
} from '../../../src/domain/compute/instance-states.ts';
import { plan } from '../../../src/domain/compute/plan.ts';
import { anInstance, possibleStates } from './instance-fixture.ts';
import { at, limits, now, running } from './plan-fixture.ts';

test('terminate is legal in every state', () => {
  for (const status of instanceStatuses)
    for (const desired of desiredStates) expect(refusalOfAction('terminate', status, desired)).toBeNull();
});

test('every lasting state but Released allows an action besides terminate', () => {
  for (const { desired, status } of possibleStates) {
    if (!isLasting(status) || status === 'Released') continue;
    if (desired === 'stopped' && status === 'Running') continue; // already stopping
    const legal = legalActions(status, desired).filter((action) => action !== 'terminate');
    expect(legal, `${desired} ${status}`).not.toEqual([]);
  }
  expect(legalActions('Released', 'released')).toEqual([]);
});

test('each refusal names an alternative', () => {
  expect(refusalOfAction('start', 'Running', 'running')).toMatch(/stop or restart/);
  expect(refusalOfAction('stop', 'Stopped', 'stopped')).toMatch(/already Stopped/);
  expect(refusalOfAction('stop', 'Archived', 'archived')).toMatch(/already Archived; start it/);
  expect(refusalOfAction('start', 'Running', 'stopped')).toMatch(/still stopping/);
  expect(refusalOfAction('start', 'Stopped', 'archived')).toMatch(/stop it to cancel the archiving/);
  expect(refusalOfAction('restart', 'Stopped', 'stopped')).toMatch(/use start/);
  expect(refusalOfAction('restart', 'Running', 'stopped')).toBe(
    'the instance is stopping; wait until it is Stopped, then start it',
  );
  expect(refusalOfAction('restart', 'Running', 'archived')).toMatch(/being archived; wait/);
  expect(refusalOfAction('archive', 'Starting', 'running')).toMatch(
    /only an instance that is Running, Stopped or StartingFailed/,
  );
  expect(refusalOfAction('archive', 'Archived', 'archived')).toMatch(/start it/);
  expect(refusalOfAction('archive', 'Running', 'archived')).toMatch(/already/);
});

test('each legal action has a transition and can be applied', () => {
  for (const { desired, status } of possibleStates) {
    const { observed } = anInstance();
    const instance = anInstance({ desired, observed: { ...observed, status } });
    for (const action of legalActions(status, desired)) {
      for (const everEnsured of [true, false])
        expect(
          () => applyAction(action, { ...instance, everEnsured }, 1_000_000_000_000),
          `${action} of ${desired} ${status}`,
        ).not.toThrow();
    }
  }
});

test('allows start after a failed start, and stop during an archive', () => {
  expect(refusalOfAction('start', 'StartingFailed', 'stopped')).toBeNull();
  expect(refusalOfAction('start', 'InitializationFailed', 'stopped')).toBeNull();
  for (const status of ['Running', 'Stopped', 'StartingFailed'] as const)
    expect(refusalOfAction('stop', status, 'archived')).toBeNull();
});

test('charges the end of a run once, however often its end is requested', () => {
  const started = at('running', { status: 'Running', runStartedAtMs: running.startedAtMs });
  const asked = applyAction('archive', applyAction('stop', started, now), now + 5_000);
  // The grace since the first request is over, that since the second is not.
  expect(plan(asked, running, now + 12_000, limits).do).toBe('halt');
  const other = { ...running, startedAtMs: now };
  expect(plan(asked, other, now + 12_000, limits)).toMatchObject({
    do: 'mark',
    show: { ending: { byMs: now + 15_000 }, runStartedAtMs: now },
  });
});
