/**
 * What the test runs came to. Each run of vitest leaves its totals in a file (`totals-reporter.ts`); here they are read,
 * added up and put into words.
 */
import { readFileSync } from 'node:fs';

/**
 * @typedef {object} Totals
 * @property {number} passed
 * @property {number} failed tests, and files that did not load, hooks that threw, errors nobody caught
 * @property {{ name: string, note?: string }[]} skipped
 */

/**
 * @param {{ project: string, file: string, code: number }} given the exit code of the run
 * @returns {{ totals: Totals, fault?: string }} `fault` is a failure that no test shows
 */
export function totalsOfRun({ project, file, code }) {
  /** @type {Totals} */
  let totals;
  try {
    totals = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return {
      totals: { passed: 0, failed: 1, skipped: [] },
      fault: `the tests of ${project} ended before they had totals (exit code ${code})`,
    };
  }
  if (code === 0 || totals.failed > 0) return { totals };
  return {
    totals: { ...totals, failed: 1 },
    fault: `no test of ${project} failed, but their run did (exit code ${code})`,
  };
}

/**
 * @param {Totals[]} all
 * @returns {Totals}
 */
export function addUp(all) {
  return {
    passed: all.reduce((sum, { passed }) => sum + passed, 0),
    failed: all.reduce((sum, { failed }) => sum + failed, 0),
    skipped: all.flatMap(({ skipped }) => skipped),
  };
}

/**
 * The last lines of a test command: what was skipped and why, then the totals.
 * @param {Totals} totals
 */
export function closingLines({ passed, failed, skipped }) {
  const lines = skipped.map(
    ({ name, note }) => `skipped: ${name}${note === undefined || note === '' ? '' : ` (${note})`}`,
  );
  return [...lines, `${passed} passed, ${failed} failed, ${skipped.length} skipped`];
}
