/** A command inside a running instance, from its beginning to its end. */
import type { Readable } from 'node:stream';
import type { ExecResult } from '../../contract.ts';
import { openInside, type Opening } from './exec.ts';

const EXEC_LIMIT_BYTES = 1024 * 1024;

/** When the signal fires the answer is dropped; what was started goes on inside. */
export async function runInside({
  command,
  ...about
}: Omit<Opening, 'wish' | 'stopping'> & { command: readonly string[] }): Promise<ExecResult> {
  const wish = { command, env: {}, terminal: null };
  const running = await openInside({ ...about, wish, stopping: about.signal });
  running.stdin.end();
  const [stdout, stderr] = await Promise.all([startOf(running.stdout), startOf(running.stderr)]);
  return { exitCode: await running.exited, stdout, stderr };
}

/** All of it is read, so that the command comes to its end. */
async function startOf(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  let left = EXEC_LIMIT_BYTES;
  for await (const chunk of stream) {
    const part = Buffer.from(chunk).subarray(0, left);
    left -= part.length;
    if (part.length > 0) parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
