/** Operations and their texts as the subject moves from phase to phase. */
import { describe, expect, test } from 'vitest';
import { diagnoses, type Phase } from '../../../src/domain/compute/instance-states.ts';
import {
  beginInitScript,
  beginOperation,
  advanceOperation,
  endInitScript,
  endOperation,
  beginStage,
  failOperation,
  operationErrorOf,
  planCancellation,
  operationId,
  operationKinds,
  percentOf,
  supersedeOperation,
  type Operation,
  type OperationKind,
  type Progress,
} from '../../../src/domain/compute/operation.ts';
import { publicOperation, publicStages } from '../../../src/domain/compute/public-operation.ts';

const at = (phase: Phase, progress: Progress | null = null) => ({
  phase,
  progress,
  diagnosis: '' as const,
  diagnosisMessage: '',
});

/** Advances through the phases, one second each. */
const through = (kind: OperationKind, ...phases: Phase[]): Operation =>
  phases.reduce(
    (operation, phase, index) => advanceOperation(operation, at(phase), (index + 1) * 1_000),
    beginOperation(kind, 'user', 0),
  );

const names = ({ stages }: Operation): string[] => stages.map(({ name }) => name);
const bytes = (done: number, total: number): Progress => ({ done, total, unit: 'bytes' });

test('builds an id from the resource and the generation', () => {
  expect(operationId('notebook-1', 3)).toBe('notebook-1.3');
});

test('launch and start begin as Pending, every other kind as Running', () => {
  for (const kind of operationKinds) {
    const waits = kind === 'launch' || kind === 'start';
    const begun = beginOperation(kind, 'user', 7);
    expect(begun).toMatchObject({
      kind,
      state: waits ? 'Pending' : 'Running',
      startedAtMs: 7,
      endedAtMs: null,
      error: null,
    });
    expect(begun.stages).toHaveLength(1);
    expect(percentOf(begun)).toBe(0);
  }
});

test('advances a launch through its stages, each ending when the next begins, until the phase Ready', () => {
  const launch = through('launch', 'DownloadImage', 'PrepareDisks', 'CreateContainer', 'WaitReady', 'Ready');
  expect(launch).toMatchObject({ state: 'Succeeded', endedAtMs: 5_000, error: null });
  expect(launch.stages.map(({ name, startedAtMs, endedAtMs }) => [name, startedAtMs, endedAtMs])).toEqual([
    ['Queued', 0, 1_000],
    ['Image', 1_000, 2_000],
    ['Disks', 2_000, 3_000],
    ['Container', 3_000, 4_000],
    ['Readiness', 4_000, 5_000],
  ]);
});

test.each([
  { kind: 'stop', phases: ['Stopping', 'Stopped'] },
  { kind: 'restart', phases: ['Stopping', 'CreateContainer', 'WaitReady', 'Ready'] },
  { kind: 'archive', phases: ['Stopping', 'Archiving', 'Archived'] },
  { kind: 'terminate', phases: ['Cleaning', 'RemovingDisks', 'Cleaned'] },
] satisfies { kind: OperationKind; phases: Phase[] }[])(
  '$kind succeeds at its final phase, not before',
  ({ kind, phases }) => {
    const before = through(kind, ...phases.slice(0, -1));
    expect(before).toMatchObject({ state: 'Running', endedAtMs: null });
    expect(percentOf(before)).toBeLessThan(100);
    const done = through(kind, ...phases);
    expect(done.state).toBe('Succeeded');
    expect(percentOf(done)).toBe(100);
  },
);

test('the phase Failed ends the operation with reason, message and remedy', () => {
  const failing = { ...at('Failed'), diagnosis: 'ImageDenied', diagnosisMessage: 'unauthorized' } as const;
  const failed = advanceOperation(through('launch', 'DownloadImage'), failing, 9_000);
  expect(failed).toMatchObject({
    state: 'Failed',
    endedAtMs: 9_000,
    error: { reason: 'ImageDenied', message: 'unauthorized', whatToDo: diagnoses.ImageDenied },
  });
  expect(publicStages(failed).at(-1)?.text).toBe('not finished: preparing the image');
});

test('an ended operation ignores later observations', () => {
  const done = through('launch', 'Ready');
  for (const phase of ['Queued', 'DownloadImage', 'Failed', 'Stopped'] as const)
    expect(advanceOperation(done, at(phase), 99_000)).toBe(done);
  expect(endOperation(done, 'Cancelled', 99_000)).toBe(done);
  expect(failOperation(done, operationErrorOf('StartTimeout', ''), 99_000)).toBe(done);
});

test('a placed launch does not return to the queue when a stale phase says Queued', () => {
  const begun = beginStage(beginOperation('launch', 'user', 0), 'Placed', 0);
  expect(advanceOperation(begun, at('Queued'), 500)).toBe(begun);
  expect(names(advanceOperation(begun, at('DownloadImage'), 500))).toEqual(['Queued', 'Placed', 'Image']);
});

test('counts bytes in their own stage, not in the next', () => {
  let launch = advanceOperation(
    beginOperation('launch', 'user', 0),
    at('DownloadImage', bytes(12_340_000, 45_600_000)),
    1_000,
  );
  expect(publicStages(launch).at(-1)).toEqual({
    name: 'Image',
    startedAtUnixMs: 1_000,
    endedAtUnixMs: null,
    done: 12_340_000,
    total: 45_600_000,
    unit: 'bytes',
    text: 'preparing the image: 12.3 of 45.6 MB',
  });
  launch = advanceOperation(launch, at('CreateContainer', bytes(45_600_000, 45_600_000)), 2_000);
  expect(publicStages(launch).at(-1)).toMatchObject({ name: 'Container', done: 0, total: 0, unit: '' });
});

test('shows steps and bytes without a total when the total is unknown', () => {
  const say = (progress: Progress) =>
    publicStages(beginStage(beginOperation('launch', 'user', 0), 'Image', 1, progress)).at(-1)?.text;
  expect(say({ done: 3, total: 7, unit: 'steps' })).toBe('preparing the image: step 3 of 7');
  expect(say({ done: 3, total: 0, unit: 'steps' })).toBe('preparing the image: step 3');
  expect(say(bytes(2_000_000, 0))).toBe('preparing the image: 2.0 MB');
});

test('the percentage grows with stages and bytes, and is 100 only on success', () => {
  const begun = beginOperation('launch', 'user', 0);
  const steps = [
    begun,
    beginStage(begun, 'Placed', 1),
    beginStage(begun, 'Image', 1, bytes(0, 100)),
    beginStage(begun, 'Image', 1, bytes(50, 100)),
    beginStage(begun, 'Image', 1, bytes(100, 100)),
    beginStage(begun, 'Disks', 1),
    beginStage(begun, 'Container', 1),
    beginStage(begun, 'Readiness', 1),
  ].map(percentOf);
  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  expect(new Set(steps).size).toBeGreaterThan(6);
  expect(steps.at(-1)).toBeLessThan(100);
  expect(percentOf(endOperation(beginStage(begun, 'Readiness', 1), 'Cancelled', 2))).toBeLessThan(100);
  expect(percentOf(beginStage(begun, 'Image', 1, bytes(300, 100)))).toBeLessThan(100);
});

test('a return to an earlier stage keeps its start time and shows later stages as not finished', () => {
  const back = through('launch', 'DownloadImage', 'CreateContainer', 'DownloadImage');
  expect(names(back)).toEqual(['Queued', 'Container', 'Image']);
  const texts = new Map(publicStages(back).map(({ name, text, startedAtUnixMs }) => [name, { text, startedAtUnixMs }]));
  expect(texts.get('Image')).toEqual({ text: 'preparing the image', startedAtUnixMs: 1_000 });
  expect(texts.get('Container')?.text).toBe('not finished: creating the container');
  expect(texts.get('Queued')?.text).toBe('scheduled');
});

test('the init script may outlast the operation, and is in the timeline once', () => {
  const running = advanceOperation(beginInitScript(through('launch', 'WaitReady'), 2_000), at('Ready'), 3_000);
  expect(running.state).toBe('Succeeded');
  expect(publicStages(running).at(-1)).toMatchObject({
    name: 'InitScript',
    endedAtUnixMs: null,
    text: 'running the init script',
  });
  expect(names(beginInitScript(running, 4_000)).filter((name) => name === 'InitScript')).toHaveLength(1);
  expect(publicStages(endInitScript(running, 5_000)).at(-1)).toMatchObject({
    endedAtUnixMs: 5_000,
    text: 'the init script has ended',
  });
});

test('a new request cancels a running operation, keeps an ended one, and ends all stages of both', () => {
  const cut = supersedeOperation(through('launch', 'DownloadImage'), 9_000);
  expect(cut).toMatchObject({ state: 'Cancelled', endedAtMs: 9_000, error: null });
  const done = advanceOperation(beginInitScript(through('launch', 'WaitReady'), 2_000), at('Ready'), 3_000);
  const followed = supersedeOperation(done, 9_000);
  expect(followed).toMatchObject({ state: 'Succeeded', endedAtMs: 3_000 });
  for (const { stages } of [cut, followed]) expect(stages.every(({ endedAtMs }) => endedAtMs !== null)).toBe(true);
});

describe('cancelling', () => {
  test.each([
    ['launch', 'terminate'],
    ['start', 'stop'],
    ['restart', 'stop'],
    ['archive', 'stop'],
  ] as const)('%s is cancelled by %s until it ends', (kind, action) => {
    const begun = beginOperation(kind, 'user', 0);
    expect(planCancellation(begun)).toEqual({ action });
    expect(publicOperation('x', 1, begun).cancellable).toBe(true);
    const over = supersedeOperation(begun, 1);
    expect(planCancellation(over)).toEqual({ why: expect.stringContaining('already ended (Cancelled)') });
    expect(publicOperation('x', 1, over).cancellable).toBe(false);
  });

  test.each(['stop', 'terminate', 'saveImage', 'deleteImage', 'createVolume', 'deleteVolume'] as const)(
    "%s can't be cancelled, and the refusal names an alternative",
    (kind) => {
      expect(planCancellation(beginOperation(kind, 'user', 0))).toEqual({
        why: expect.stringMatching(/; (wait|launch|create|delete)/),
      });
    },
  );
});
