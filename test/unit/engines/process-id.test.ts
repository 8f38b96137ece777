/** Environment that a shell reads from the input of its command, by the shells of this machine. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { needsProgram } from '../../fixtures/programs.ts';
import { environmentInput, readProcessId, withEnvironmentInput } from '../../../src/engines/process-id.ts';

/** Environment and input that a command gets. */
async function received(shell: readonly string[], given: Record<string, string>, input: string) {
  const [, ...words] = withEnvironmentInput(['cat', '/proc/self/environ', '-'], 'shell');
  const [program = '', ...options] = shell;
  // A first bash on a socket reads the files of a login.
  const env = { PATH: '/usr/bin:/bin', SHLVL: '2' };
  const child = spawn(program, [...options, ...words], { env });
  const output = buffer(child.stdout);
  expect(await readProcessId(child.stderr)).toBe(child.pid);
  child.stdin.end(environmentInput(given) + input);
  await once(child, 'close');
  const variables = (await output).toString().split('\0');
  const text = variables.pop();
  return { text, variables: Object.fromEntries(variables.map((one) => one.split(/=(.*)/s, 2))) };
}

test.for([[['sh']], [['bash', '--posix']], [['busybox', 'sh']]] as const)(
  '%j gives a command the variables and the rest of its input',
  async ([shell], context) => {
    if (shell[0] === 'busybox') needsProgram('busybox', context);
    const value = fc.string({ unit: fc.constantFrom('a', ' ', '\\', 'n', '\n', '"', "'", '$', '%', '0', '=', 'é') });
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.constantFrom('A', 'B_1', 'with-dash', 'berth_words'), value),
        value,
        async (env, input) => {
          const { text, variables } = await received(shell, env, input);
          expect(text).toBe(input);
          expect(variables).toMatchObject(env);
        },
      ),
      { numRuns: 25 },
    );
  },
);

test('a shell that only writes something else has no process id, and its end breaks nothing', async () => {
  const child = spawn('sh', ['-c', 'echo nonsense >&2']);
  const thrown: unknown[] = [];
  const onThrown = (error: unknown): void => void thrown.push(error);
  process.prependListener('uncaughtExceptionMonitor', onThrown);
  onTestFinished(() => void process.off('uncaughtExceptionMonitor', onThrown));
  expect(await readProcessId(child.stderr)).toBeNull();
  await once(child, 'close');
  expect(thrown).toEqual([]);
});
