/** A run depends on its name only: a failure can be replayed byte for byte. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { runAll, stopThreads } from './worker-pool.ts';

afterAll(stopThreads);

const names = ['seed:1', 'seed:2', 'seed:7', 'crash:1:100', 'twice:0:3'];

async function traces(order: readonly string[]): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  await runAll(order, ({ name, trace }) => found.set(name, trace).size > 0, { threads: 1, withTrace: true });
  return found;
}

test('repeats its trace after any earlier run in the thread', async () => {
  const [once, again] = await Promise.all([traces(names), traces(names.toReversed())]);
  expect([...once.keys()].toSorted()).toEqual(names.toSorted());
  for (const [name, trace] of once) {
    expect(trace.split('\n').length, name).toBeGreaterThan(50);
    expect(again.get(name), name).toBe(trace);
  }
  expect(new Set(once.values()).size, 'each name is a run of its own').toBe(names.length);
});

test('repeats its trace in another process, by the command of a failure report', async () => {
  const command = ['test/simulation/command.ts', '--case', 'seed:7'];
  const [printed, found] = await Promise.all([
    promisify(execFile)(process.execPath, command, { encoding: 'utf8', maxBuffer: 2 ** 28 }),
    traces(['seed:7']),
  ]);
  expect(printed.stdout.startsWith(found.get('seed:7')?.trimEnd() ?? 'no trace')).toBe(true);
});
