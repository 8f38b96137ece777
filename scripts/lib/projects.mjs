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
 * @property {number} budgetS seconds that it takes in `npm test` on two quiet cores
 * @property {'node' | 'programs' | 'engine'} needs Node alone; also programs of the system; also a
 *   container engine
 * @property {true} [chromium] which aborts loads whenever a network interface comes or goes
 * @property {true} [interfaces] it makes and removes network interfaces
 */

/** In the order in which they begin. @type {readonly Project[]} */
export const projects = [
  { name: 'docker', budgetS: 400, needs: 'engine', interfaces: true },
  { name: 'db', budgetS: 230, needs: 'node' },
  { name: 'http', budgetS: 200, needs: 'programs' },
  { name: 'kubernetes', budgetS: 70, needs: 'programs', interfaces: true },
  { name: 'console', budgetS: 90, needs: 'programs', chromium: true },
  { name: 'simulation', budgetS: 90, needs: 'node' },
  { name: 'browser', budgetS: 75, needs: 'engine', chromium: true, interfaces: true },
  { name: 'unit', budgetS: 55, needs: 'node' },
];

/** Limit of all of `npm test` in seconds. */
export const budgetS = 8 * 60;

/**
 * Runs projects in their order, `lanes` at once: while one waits for containers another computes.
 * One that must not run beside those in progress lets later ones begin first.
 * @param {readonly Project[]} all
 * @param {number} lanes
 * @param {(project: Project) => Promise<boolean>} run answers whether further ones may begin
 */
export async function runInLanes(all, lanes, run) {
  const left = [...all];
  /** @type {Map<Project, Promise<void>>} */
  const running = new Map();
  while (left.length + running.size > 0) {
    const next = left.findIndex((project) => [...running.keys()].every((other) => mayMeet(project, other)));
    const [project] = next >= 0 && running.size < lanes ? left.splice(next, 1) : [];
    if (project === undefined) {
      await Promise.race(running.values());
      continue;
    }
    const ends = async () => {
      if (!(await run(project))) left.length = 0;
      running.delete(project);
    };
    running.set(project, ends());
  }
}

/**
 * @param {Project} one
 * @param {Project} other
 */
function mayMeet(one, other) {
  return !(one.chromium && other.interfaces) && !(other.chromium && one.interfaces);
}

/** Files that only `npm run test:long` runs. */
export function longOnlyFiles() {
  /** @type {Record<string, string>} */
  const files = JSON.parse(readFileSync(path.join(root, 'test/long-only.json'), 'utf8'));
  return Object.keys(files);
}

/**
 * What each project took against its budget, one line each and all of them. A project over its
 * budget is named, not failed: a busy machine makes tests slower, never red.
 * @param {{ name: string, tookS: number }[]} runs
 * @param {{ level: string, tookS: number }} all
 */
export function budgetLines(runs, { level, tookS: allS }) {
  const hasBudget = level === 'short';
  /**
   * @param {string} name
   * @param {number} tookS
   * @param {number | undefined} limitS
   */
  const line = (name, tookS, limitS) => {
    const took = `${name.padEnd(12)}${tookS.toFixed(1).padStart(8)} s`;
    if (!hasBudget || limitS === undefined) return took;
    return `${took} of ${limitS} s${tookS > limitS ? ', over its budget' : ''}`;
  };
  return [
    ...runs.map(({ name, tookS }) => line(name, tookS, projects.find((project) => project.name === name)?.budgetS)),
    ...(runs.length > 1 ? [line('all', allS, runs.length === projects.length ? budgetS : undefined)] : []),
  ];
}
