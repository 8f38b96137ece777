/** A run whose end was requested uses the machine until its container has ended. */
import { expect, test } from 'vitest';
import { applyAction } from '../../../src/domain/compute/desired-state.ts';
import { STOP_GRACE_MS, type Action } from '../../../src/domain/compute/instance-states.ts';
import type { Instance } from '../../../src/domain/compute/instance.ts';
import { rateOfInstance } from '../../../src/domain/money/meter.ts';
import { beginOperation, type Cause } from '../../../src/domain/compute/operation.ts';
import { plan } from '../../../src/domain/compute/plan.ts';
import { endingOf, reasonOfRequest, runChange } from '../../../src/domain/compute/start-outcomes.ts';
import { anInstance, possibleStates } from './instance-fixture.ts';
import { absent, at, ended, limits, now, running } from './plan-fixture.ts';

const priceMicros = Number(anInstance().priceMicros);
/** As a use case requests it. */
const request = (action: Action, run: Instance, nowMs: number, cause: Cause = 'user'): Instance => {
  const ending = endingOf(run, reasonOfRequest(cause), nowMs);
  return applyAction(action, { ...run, observed: { ...run.observed, ending } }, nowMs, cause);
};

const ending = { byMs: now + 9_000, refundFor: '', priceMicros } as const;

test('a run whose end was requested is charged until its container ends, at most for the grace', () => {
  for (const { desired, status } of possibleStates) {
    if (desired === 'released') continue;
    const instance = at(desired, { status, phase: 'Stopping', ending }, { mustHalt: true });
    const free = { do: 'mark', show: { ending: null } };
    for (const seen of [ended, absent]) {
      const step = plan(instance, seen, now, limits);
      expect('show' in step && step.show.ending, `${desired} ${status}`).toBe(null);
    }
    const inUse = { ...running, docker: 'running' } as const;
    for (const seen of [running, { ...ended, docker: 'running' } as const, inUse])
      expect(plan(instance, seen, now, limits), `${desired} ${status}`).not.toEqual(free);
    expect(plan(instance, running, ending.byMs, limits), `${desired} ${status}`).toEqual(free);
  }
});

const oldContainer = { mounts: [], nodePorts: [], gpus: 0, runtime: '', rootDiskGB: 0 };

test('a run whose end was requested has what is left of its grace, whatever is requested then', () => {
  const requested = { requestedAtMs: now };
  for (const instance of [
    at('stopped', { status: 'Running', phase: 'Stopping', ending }, requested),
    at('archived', { status: 'Running', phase: 'Stopping', ending }, requested),
    at('stopped', { status: 'StartingFailed', phase: 'Failed', ending }, requested),
    at('running', { status: 'Restarting', phase: 'Stopping', ending }, { ...requested, mustHalt: true }),
    at('running', { status: 'Restarting', phase: 'Stopping', ending }, { ...requested, mustHalt: true, oldContainer }),
  ]) {
    expect(plan(instance, running, now, limits)).toMatchObject({ do: 'halt', graceMs: 9_000 });
    expect(plan(instance, running, ending.byMs - 1, limits)).toMatchObject({ do: 'halt', graceMs: 1 });
  }
});

test('a run that was not known at the request of its end is charged from its first observation', () => {
  const requested = { requestedAtMs: now - 1_000 };
  const show = { ending: { byMs: now + 9_000, refundFor: '', priceMicros }, runStartedAtMs: now - 1_000 };
  for (const instance of [
    at('stopped', { status: 'Starting', phase: 'Stopping' }, requested),
    at('archived', { status: 'Running', phase: 'Stopping' }, requested),
    at('running', { status: 'Restarting', phase: 'Stopping' }, { ...requested, mustHalt: true }),
    at('running', { status: 'Restarting', phase: 'Stopping' }, { ...requested, mustHalt: true, oldContainer }),
  ]) {
    expect(plan(instance, running, now, limits)).toEqual({ do: 'mark', show });
    expect(plan(instance, running, show.ending.byMs, limits).do).toBe('halt');
  }
  const byOperator = at(
    'stopped',
    { status: 'Starting', phase: 'Stopping' },
    { ...requested, operation: beginOperation('stop', 'operator', now) },
  );
  expect(plan(byOperator, running, now, limits)).toMatchObject({ show: { ending: { refundFor: 'OperatorStop' } } });
});

test('stop, restart and archive leave the rate of a run as it is; terminate ends it', () => {
  const run = at('running', { status: 'Running', phase: 'Ready' });
  for (const action of ['stop', 'restart', 'archive'] as const) {
    const requested = request(action, run, now);
    expect(requested.observed.ending, action).toEqual({ byMs: now + STOP_GRACE_MS, refundFor: '', priceMicros });
    expect(rateOfInstance(requested), action).toEqual(rateOfInstance(run));
    const halted = { ...requested, observed: { ...requested.observed, ending: null } };
    expect(rateOfInstance(halted)?.meter, action).toBe(action === 'restart' ? 'compute' : 'disks');
    expect(runChange(requested, halted, now + 1), action).toEqual({ untilMs: now + STOP_GRACE_MS });
  }
  expect(rateOfInstance(request('terminate', run, now))).toBe(null);
  expect(request('stop', at('running', { status: 'Starting', phase: 'PrepareDisks' }), now).observed.ending).toBe(null);
});

test('a refund is that of the request which ended the run first', () => {
  const starting = at('running', { status: 'Starting', phase: 'WaitReady' });
  const byOperator = request('stop', starting, now, 'operator');
  expect(byOperator.observed.ending?.refundFor).toBe('OperatorStop');
  const byOwner = request('stop', starting, now);
  const terminated = request('terminate', byOwner, now + 1, 'operator');
  expect(runChange(byOwner, terminated, now + 1).refundFor).toBe(undefined);
  expect(runChange(byOperator, request('terminate', byOperator, now + 1), now + 1).refundFor).toBe('OperatorStop');
  const running = at('running', { status: 'Running', phase: 'Ready' });
  expect(request('restart', running, now, 'operator').observed.ending?.refundFor).toBe('');
});
