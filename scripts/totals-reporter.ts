/**
 * A vitest reporter that writes the totals of a run into the file named by `BERTH_TOTALS_FILE`, for
 * `scripts/test.mjs` to add up. Counts as failed also a file that did not load, a hook that threw
 * and an uncaught error. A test that passed at its second try counts as passed, and is named.
 */
import { writeFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule } from 'vitest/node';
import type { Named, Totals } from './lib/totals.mjs';

type ThrownError = { message?: string };

export default class TotalsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly ThrownError[]): void {
    const file = process.env['BERTH_TOTALS_FILE'];
    if (file === undefined) return;
    const totals: Totals = {
      passed: 0,
      failed: unhandledErrors.map((error) => named('an uncaught error', [error])),
      unsteady: [],
      skipped: [],
    };
    for (const module of modules) addModule(totals, module);
    writeFileSync(file, JSON.stringify(totals));
  }
}

function addModule(totals: Totals, module: TestModule): void {
  const file = module.relativeModuleId;
  for (const error of module.errors()) totals.failed.push(named(file, [error]));
  for (const suite of module.children.allSuites())
    for (const error of suite.errors()) totals.failed.push(named(`${file} > ${suite.fullName}`, [error]));
  for (const test of module.children.allTests()) {
    const name = `${file} > ${test.fullName}`;
    const result = test.result();
    if (result.state === 'passed') {
      totals.passed += 1;
      if (test.diagnostic()?.flaky === true) totals.unsteady.push(named(name, result.errors));
    } else if (result.state === 'skipped') totals.skipped.push(skipped(name, test, result.note));
    else totals.failed.push(named(name, result.errors, 'did not finish'));
  }
}

function named(name: string, errors: readonly ThrownError[] = [], otherwise?: string): Named {
  const note = errors[0]?.message ?? otherwise;
  return note === undefined ? { name } : { name, note };
}

function skipped(name: string, test: TestCase, note: string | undefined): Named {
  if (note !== undefined) return { name, note };
  return test.options.mode === 'todo' ? { name, note: 'to do' } : { name };
}
