/**
 * A server that dies loses nothing, wherever it dies: each step of stories that together use everything is tried in turn. A step is whatever the
 * process does that others see, or hears from others: before and after each commit, each call to engine and storage, each answer, each
 * timer. They are counted by the run itself, so none is forgotten. The server dies at one of six, at level long at two of three, at level soak at each.
 */
import { expect, test } from 'vitest';
import { stories } from './cases.ts';
import { atLevel } from '../fixtures/level.ts';
import { failuresOf, outcomeOf } from './failures.ts';

/** Whether the server dies at this step of this story. */
const isTried = (at: number, nth: number): boolean =>
  atLevel({ short: at % 6 === nth % 6, long: at % 3 !== nth % 3, soak: true });
const OF_INSTANCES = ['commit instance', 'engine ensure', 'hint'];
const tellsOfInstances = (story: string[]): boolean => story.some((line) => line.includes('launch'));

test.for(stories)('survives its end at any step of story %i', { timeout: 600_000 }, async (nth) => {
  const { wrong, trace } = await outcomeOf(`crash:${nth}:0`);
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
  expect(await failuresOf(tried.map((step) => `crash:${nth}:${step}`))).toEqual([]);
});
