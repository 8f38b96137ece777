/**
 * The server loses nothing, wherever it is killed. Every step of the scenarios is a crash point:
 * each commit, engine or storage call, answer and timer. Level short tries one of 40, long two of
 * three, soak all.
 */
import { expect, test } from 'vitest';
import { scenarioNumbers } from './cases.ts';
import { atLevel } from '../fixtures/level.ts';
import { failedRuns, runCase } from './failures.ts';

const isTried = (at: number, nth: number): boolean =>
  atLevel({ short: at % 40 === nth % 40, long: at % 3 !== nth % 3, soak: true });
const OF_INSTANCES = ['commit instance', 'engine ensure', 'hint'];
const tellsOfInstances = (story: string[]): boolean => story.some((line) => line.includes('launch'));

test.concurrent.for(scenarioNumbers)(
  'survives a crash at any step of scenario %i',
  { timeout: 1_800_000 },
  async (nth) => {
    const { wrong, trace } = await runCase(`crash:${nth}:0`);
    expect(wrong).toBeNull();
    const last = /^\S+ all faults stop$/m.exec(trace);
    const story = trace.slice(0, last?.index).split('\n');
    const numbered = story.flatMap((line) => /^\S+ (\d+) /.exec(line)?.[1] ?? []);
    expect(numbered.map(Number)).toEqual(Array.from({ length: numbered.length }, (_, at) => at + 1));
    expect(numbered.length).toBeGreaterThan(100);
    for (const kind of ['committed', 'storage create', 'timer', ...(tellsOfInstances(story) ? OF_INSTANCES : [])])
      expect(
        story.some((line) => line.includes(` ${kind}`)),
        `the story has a step of the kind ${kind}`,
      ).toBe(true);
    const tried = numbered.filter((_, at) => isTried(at, nth));
    expect(await failedRuns(tried.map((step) => `crash:${nth}:${step}`))).toEqual([]);
  },
);
