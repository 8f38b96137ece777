import { describe, expect, test } from 'vitest';
import {
  applyAction,
  refusalOfLostRootDisk,
  refusalOfSave,
  withNewRootDisk,
} from '../../../src/domain/compute/desired-state.ts';
import { beginOperation } from '../../../src/domain/compute/operation.ts';
import type { Instance, RootDiskState } from '../../../src/domain/compute/instance.ts';
import { plan, type Step } from '../../../src/domain/compute/plan.ts';
import { publicInstance } from '../../../src/domain/compute/public-instance.ts';
import { resumesAfter } from '../../../src/domain/compute/resume.ts';
import { aRegion } from '../../fixtures/region.ts';
import { possibleStates } from './instance-fixture.ts';
import { absent, at, created, ended, limits, now, running, unknown } from './plan-fixture.ts';

const archive = { ref: 'berth.local/archive/x:1', sizeBytes: 1, generation: 1, replaces: [] };
const resting = { status: 'Stopped', phase: 'Stopped' } as const;
const stopOf = (cause: 'user' | 'SpotReclaimed') => ({ operation: beginOperation('stop', cause, now) });
const lost = (more: Partial<Instance> = {}): Instance =>
  at('stopped', { ...resting, diagnosis: 'RootDiskLost' }, { rootDisk: 'lost', ...stopOf('user'), ...more });
const planOf = (instance: Instance, seen: Parameters<typeof plan>[1]): Step => plan(instance, seen, now, limits);

/** All that may precede: waits, restarts, and changes under way. */
const variants: Partial<Instance>[] = [
  {},
  { mustHalt: true },
  { waitsSinceMs: now - 1 },
  { notBeforeMs: now + 1 },
  { archive },
  { oldContainer: { mounts: [], nodePorts: [], gpus: 0, runtime: '', rootDiskGB: 0 } },
];
const phases = ['Queued', 'CreateContainer', 'WaitReady', 'Ready', 'Stopping', 'Archiving'] as const;
const living = possibleStates.flatMap(({ desired, status }) =>
  desired === 'released'
    ? []
    : phases.flatMap((phase) =>
        variants.map((more) => (rootDisk: RootDiskState) => at(desired, { status, phase }, { ...more, rootDisk })),
      ),
);

describe('a container that is gone with the only root disk', () => {
  test('ends every desired state with RootDiskLost, and is never made again', () => {
    expect(living.length).toBeGreaterThan(500);
    for (const make of living) {
      const instance = make('kept');
      if (['Archived', 'InitializationFailed', 'Initializing'].includes(instance.observed.status)) continue;
      const step = planOf(instance, absent);
      expect(step).toMatchObject({ do: 'loseRootDisk', show: { diagnosis: 'RootDiskLost', healthy: false } });
      const { show } = step as Extract<Step, { do: 'loseRootDisk' }>;
      expect(['Stopped', 'StartingFailed']).toContain(show.status);
      expect(show.diagnosisMessage).toMatch(instance.archive ? /its last archive$/ : /the image JupyterLab$/);
    }
  });

  test('is not concluded from silence, nor from a root disk that nobody reached, or that is saved', () => {
    for (const make of living) {
      expect(planOf(make('kept'), unknown).do).not.toBe('loseRootDisk');
      for (const rootDisk of ['none', 'saved', 'lost'] as const)
        expect(planOf(make(rootDisk), absent).do).not.toBe('loseRootDisk');
      for (const seen of [running, ended, created]) expect(planOf(make('kept'), seen).do).not.toBe('loseRootDisk');
    }
  });

  test('keeps the reason of a stopped instance, whatever stopped it, and does not resume it', () => {
    for (const cause of ['user', 'SpotReclaimed'] as const) {
      const instance = lost(stopOf(cause));
      expect(planOf(instance, absent)).toEqual({ do: 'rest' });
      const settles = planOf({ ...instance, observed: { ...instance.observed, diagnosis: '' } }, absent);
      expect(settles).toMatchObject({ do: 'settle', show: { diagnosis: 'RootDiskLost' } });
      expect(resumesAfter({ ...instance, spec: { ...instance.spec, resume: true } })).toBeNull();
    }
  });

  test('is found again: the instance is Stopped, with the root disk of before', () => {
    for (const status of ['Stopped', 'StartingFailed'] as const)
      expect(planOf(lost({ observed: { ...lost().observed, status, phase: 'Failed' } }), ended)).toMatchObject({
        do: 'mark',
        rootDisk: 'kept',
        show: { status: 'Stopped', phase: 'Stopped', diagnosis: '', diagnosisMessage: '' },
      });
  });
});

describe('a lost root disk', () => {
  test('refuses a start until it says newRootDisk, and what would save it at any time', () => {
    expect(refusalOfLostRootDisk('start', lost(), false)).toMatch(
      /root disk is lost.*"newRootDisk": true to start from the image JupyterLab, or terminate it$/,
    );
    expect(refusalOfLostRootDisk('start', lost({ archive }), false)).toMatch(/to start from its last archive/);
    expect(refusalOfLostRootDisk('start', lost(), true)).toBeNull();
    expect(refusalOfLostRootDisk('archive', lost(), true)).toMatch(/nothing to save/);
    expect(refusalOfLostRootDisk('terminate', lost(), false)).toBeNull();
    expect(refusalOfSave(lost())).toMatch(/root disk is lost/);
    for (const rootDisk of ['none', 'kept', 'saved'] as const)
      for (const action of ['start', 'archive'] as const)
        expect(refusalOfLostRootDisk(action, lost({ rootDisk }), false)).toBeNull();
    expect(publicInstance(lost(), aRegion()).actions).toEqual(['start', 'terminate']);
    expect(publicInstance(lost({ rootDisk: 'kept' }), aRegion()).actions).toEqual(['start', 'archive', 'terminate']);
  });

  test('is replaced once, by the init script again from the image, or by the last archive', () => {
    const fresh = withNewRootDisk(lost({ initExit: 0 }));
    expect(fresh).toMatchObject({ rootDisk: 'none', initExit: null });
    expect(withNewRootDisk(lost({ initExit: 0, archive }))).toMatchObject({ rootDisk: 'saved', initExit: 0, archive });
    const started = applyAction('start', fresh, now);
    expect(planOf(started, absent)).toMatchObject({ do: 'ensure' });
    expect(planOf({ ...started, rootDisk: 'kept' }, absent)).toMatchObject({ do: 'loseRootDisk' });
    const kept = lost({ rootDisk: 'kept', initExit: 0 });
    expect(withNewRootDisk(kept)).toBe(kept);
  });
});
