/**
 * Runs cases for tests. A failure has the error, the end of the trace, and the command that replays
 * the run.
 */
import { afterAll } from 'vitest';
import { runAll, stopThreads, type CaseResult } from './worker-pool.ts';

afterAll(stopThreads);

const LINES = 25;
const MAX_FAILURES = 5;

export async function failedRuns(names: readonly string[]): Promise<string[]> {
  const failures: string[] = [];
  await runAll(names, ({ name, wrong, trace }) => {
    if (wrong !== null) {
      const last = trace.trimEnd().split('\n').slice(-LINES).join('\n');
      failures.push(`${last}\n${name}: ${wrong}\nagain: npm run simulate -- --case ${name}`);
    }
    return failures.length < MAX_FAILURES;
  });
  return failures;
}

export async function runCase(name: string): Promise<CaseResult> {
  const all: CaseResult[] = [];
  await runAll([name], (one) => all.push(one) > 0, { threads: 1, withTrace: true });
  const [outcome] = all;
  if (!outcome) throw new Error(`${name} was not run`);
  return outcome;
}
