/**
 * The test projects of `vitest.config.ts`, with needs and time budget in `npm test`.
 * `docs/testing.md` documents them.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './run.mjs';

/**
 * @typedef {object} Project
 * @property {string} name
 * @property {number | null} budgetS seconds that `npm test` takes for it on two quiet cores; null:
 *   `npm test` runs it by its name alone
 * @property {'node' | 'programs' | 'engine'} needs Node alone; also programs of the system; also a
 *   container engine
 */

/** In the order in which they run, quick ones first. @type {readonly Project[]} */
export const projects = [
  { name: 'unit', budgetS: 55, needs: 'node' },
  { name: 'simulation', budgetS: 90, needs: 'node' },
  { name: 'db', budgetS: 165, needs: 'node' },
  { name: 'http', budgetS: 140, needs: 'programs' },
  { name: 'console', budgetS: 75, needs: 'programs' },
  { name: 'kubernetes', budgetS: 55, needs: 'programs' },
  { name: 'docker', budgetS: 320, needs: 'engine' },
  { name: 'browser', budgetS: 65, needs: 'engine' },
  { name: 'world', budgetS: null, needs: 'engine' },
  { name: 'neighbours', budgetS: null, needs: 'programs' },
  { name: 'gpu', budgetS: null, needs: 'engine' },
];

/** Those of `npm test`. */
export const usualProjects = projects.filter(({ budgetS }) => budgetS !== null);

/** Limit of all of `npm test` in seconds, start of the container engine included. */
export const budgetS = 8 * 60;

/** Files that only `npm run test:long` runs. */
export function longOnlyFiles() {
  /** @type {Record<string, string>} */
  const files = JSON.parse(readFileSync(path.join(root, 'test/long-only.json'), 'utf8'));
  return Object.keys(files);
}

/**
 * What each project took against its budget, one line each and their sum. A project over its budget
 * is named, not failed: a busy machine makes tests slower, never red.
 * @param {{ name: string, tookS: number }[]} runs
 * @param {string} level
 */
export function budgetLines(runs, level) {
  const hasBudget = level === 'short';
  /**
   * @param {string} name
   * @param {number} tookS
   * @param {number | null | undefined} limitS
   */
  const line = (name, tookS, limitS) => {
    const took = `${name.padEnd(12)}${tookS.toFixed(1).padStart(8)} s`;
    if (!hasBudget || typeof limitS !== 'number') return took;
    return `${took} of ${limitS} s${tookS > limitS ? ', over its budget' : ''}`;
  };
  const sumS = runs.reduce((sum, { tookS }) => sum + tookS, 0);
  return [
    ...runs.map(({ name, tookS }) => line(name, tookS, projects.find((project) => project.name === name)?.budgetS)),
    ...(runs.length > 1 ? [line('all', sumS, runs.length === usualProjects.length ? budgetS : undefined)] : []),
  ];
}
