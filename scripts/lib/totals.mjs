/**
 * Adds up the totals of the test runs. Each vitest run writes its own into a file
 * (`totals-reporter.ts`).
 */
import { readFileSync } from 'node:fs';

/**
 * A test, or what stands for one, and why it is told of.
 * @typedef {{ name: string, note?: string }} Named
 *
 * @typedef {object} Totals
 * @property {number} passed
 * @property {Named[]} failed tests, files that did not load, hooks that threw, uncaught errors
 * @property {Named[]} unsteady tests that passed at their second try; `note` is the first error
 * @property {Named[]} skipped
 */

/** Longest note of a closing line, in characters. */
const noteLength = 600;

/**
 * @param {{ project: string, file: string, code: number }} given the exit code of the run
 * @returns {Totals}
 */
export function totalsOfRun({ project, file, code }) {
  /** @type {Totals} */
  let totals;
  try {
    totals = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return failure(`the tests of ${project}`, `ended without totals (exit code ${code})`);
  }
  if (code === 0 || totals.failed.length > 0) return totals;
  return addUp([totals, failure(`the run of ${project}`, `no test failed, but the run failed (exit code ${code})`)]);
}

/**
 * The totals of a failure that no test shows.
 * @param {string} name
 * @param {string} note
 * @returns {Totals}
 */
export function failure(name, note) {
  return { passed: 0, failed: [{ name, note }], unsteady: [], skipped: [] };
}

/**
 * @param {Totals[]} all
 * @returns {Totals}
 */
export function addUp(all) {
  return {
    passed: all.reduce((sum, { passed }) => sum + passed, 0),
    failed: all.flatMap(({ failed }) => failed),
    unsteady: all.flatMap(({ unsteady }) => unsteady),
    skipped: all.flatMap(({ skipped }) => skipped),
  };
}

/**
 * The last lines of a test command: what was skipped, what passed at its second try only, what
 * failed, each with its reason, then the totals.
 * @param {Totals} totals
 */
export function closingLines({ passed, failed, unsteady, skipped }) {
  return [
    ...skipped.map((test) => `skipped: ${named(test)}`),
    ...unsteady.map((test) => `passed on the second attempt: ${named(test)}`),
    ...failed.map((test) => `failed: ${named(test)}`),
    `${passed} passed, ${failed.length} failed, ${skipped.length} skipped`,
  ];
}

/** @param {Named} test */
function named({ name, note = '' }) {
  const line = note.replaceAll(/\s+/g, ' ').trim().slice(0, noteLength);
  return line === '' ? name : `${name} (${line})`;
}
