/**
 * A vitest reporter that writes what a run came to into the file named by `BERTH_TOTALS_FILE`, for `scripts/test.mjs` to add up.
 * Whatever went wrong counts as failed, also where no test was there to fail: a file that did not load, a hook that threw, an
 * error nobody caught.
 */
import { writeFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

export default class TotalsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const file = process.env['BERTH_TOTALS_FILE'];
    if (file === undefined) return;
    let passed = 0;
    let failed = unhandledErrors.length;
    const skipped: { name: string; note?: string }[] = [];
    for (const module of modules) {
      failed += module.errors().length;
      for (const suite of module.children.allSuites()) failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (result.state === 'passed') passed += 1;
        else if (result.state === 'skipped') skipped.push(skippedTest(module, test, result.note));
        else failed += 1; // failed, or never came to its end
      }
    }
    writeFileSync(file, JSON.stringify({ passed, failed, skipped }));
  }
}

function skippedTest(module: TestModule, test: TestCase, note: string | undefined): { name: string; note?: string } {
  const name = `${module.relativeModuleId} > ${test.fullName}`;
  if (note !== undefined) return { name, note };
  return test.options.mode === 'todo' ? { name, note: 'to do' } : { name };
}
