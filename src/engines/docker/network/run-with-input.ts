import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Runs a program with `input` on stdin. Rejects unless it ends with code 0. */
export async function runWithInput(
  program: string,
  args: readonly string[],
  input: string,
  options: { timeout: number },
): Promise<void> {
  const running = run(program, args, options);
  // A program that ends before it has read everything says why by its exit code.
  running.child.stdin?.on('error', () => {}).end(input);
  await running;
}
