/** For tests: runs cases, and says of each that failed what was wrong, how it came to that, and how to see it again. */
import { afterAll } from 'vitest';
import { runAll, stopThreads, type Told } from './worker-pool.ts';

afterAll(stopThreads);

const LINES = 25;
/** One is enough to look at; more tell whether they are alike. */
const MOST = 5;

export async function failuresOf(names: readonly string[]): Promise<string[]> {
  const failures: string[] = [];
  await runAll(names, ({ name, wrong, trace }) => {
    if (wrong !== null) {
      const last = trace.trimEnd().split('\n').slice(-LINES).join('\n');
      failures.push(`${last}\n${name}: ${wrong}\nagain: npm run simulate -- --case ${name}`);
    }
    return failures.length < MOST;
  });
  return failures;
}

/** One run, with its trace. */
export async function outcomeOf(name: string): Promise<Told> {
  const all: Told[] = [];
  await runAll([name], (one) => all.push(one) > 0, { threads: 1, withTrace: true });
  const [told] = all;
  if (!told) throw new Error(`${name} was not run`);
  return told;
}
