/**
 * Each engine verb fails in each mode from each instance state; commits, statements and storage
 * calls fail too.
 */
import { expect, test } from 'vitest';
import { atLevel, isLong, isSoak } from '../fixtures/level.ts';
import { commitModes, scenarioNumbers } from './cases.ts';
import { engineFaultModes, storageFaultModes } from './call-outcomes.ts';
import { failedRuns, runCase } from './failures.ts';

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);
/** Samples calls, most of which are alike. */
const isTried = (nth: number, at: number, oneIn: { short: number; long: number }): boolean =>
  isSoak || nth % atLevel(oneIn) === at % atLevel(oneIn);
const TIMEOUT = { timeout: 600_000 };

/** Number of calls in each fault-free scenario. */
const counted = await Promise.all(scenarioNumbers.map((story) => runCase(`crash:${story}:0`)));

test('survives every fault of an engine call in every state', TIMEOUT, async () => {
  /** First call of each verb in each state. */
  const first = new Map<string, string>();
  for (const [story, { engineCalls, wrong }] of counted.entries()) {
    expect(wrong).toBeNull();
    for (const [at, how] of engineCalls.entries()) if (!first.has(how)) first.set(how, `${story}:${at + 1}`);
  }
  const verbs = new Set([...first.keys()].map((how) => how.split(' ')[0]));
  for (const verb of [
    'probe',
    'listOwned',
    'observe',
    'ensureImage',
    'ensure',
    'halt',
    'destroy',
    'logs',
    'exec',
    'dial',
  ])
    expect(verbs).toContain(verb);
  for (const verb of ['saveImage', 'removeImage']) expect(verbs).toContain(verb);
  const everywhere = [...first.values()].flatMap((call) => engineFaultModes.map((mode) => `engine:${call}:${mode}`));
  expect(everywhere.length).toBeGreaterThan(300);
  // Each verb and mode once, from alternating states.
  const oncePerVerb = [...verbs].flatMap((verb) => {
    const calls = [...first].filter(([how]) => how.split(' ')[0] === verb).map(([, call]) => call);
    return engineFaultModes.map((mode, at) => `engine:${calls[at % calls.length]}:${mode}`);
  });
  const names = isLong ? everywhere : oncePerVerb;
  expect(await failedRuns(names)).toEqual([]);
});

test('survives faults of storage calls', TIMEOUT, async () => {
  const names = counted.flatMap(({ storageCalls }, story) =>
    upTo(storageCalls).flatMap((nth) =>
      storageFaultModes.flatMap((mode, at) =>
        isTried(nth, at, { short: 24, long: 2 }) ? [`storage:${story}:${nth}:${mode}`] : [],
      ),
    ),
  );
  expect(names.length).toBeGreaterThan(atLevel({ short: 10, long: 100 }));
  expect(await failedRuns(names)).toEqual([]);
});

test('survives failed commits, durable or not', TIMEOUT, async () => {
  const names = counted.flatMap(({ commits }, story) =>
    upTo(commits).flatMap((nth) =>
      commitModes.flatMap((mode, at) =>
        isTried(nth, at, { short: 32, long: 3 }) ? [`commit:${story}:${nth}:${mode}`] : [],
      ),
    ),
  );
  expect(names.length).toBeGreaterThan(atLevel({ short: 10, long: 100 }));
  expect(await failedRuns(names)).toEqual([]);
});

test('survives a full disk at a statement', TIMEOUT, async () => {
  const names = counted.flatMap(({ statements }, story) =>
    upTo(statements).flatMap((nth) => (isTried(nth, 0, { short: 40, long: 5 }) ? [`statement:${story}:${nth}`] : [])),
  );
  expect(names.length).toBeGreaterThan(atLevel({ short: 15, long: 100 }));
  expect(await failedRuns(names)).toEqual([]);
});

test('executes duplicated requests once', TIMEOUT, async () => {
  const names = scenarioNumbers.flatMap((story) =>
    upTo(atLevel({ short: 2, long: 10 })).map((seed) => `twice:${story}:${seed}`),
  );
  expect(await failedRuns(names)).toEqual([]);
});
