import type { Readable } from 'node:stream';
import type { ExecResult } from '../../contract.ts';
import { openExec, type ExecOptions } from './exec.ts';

const OUTPUT_LIMIT_BYTES = 1024 * 1024;

/** An abort drops the answer; the command goes on inside. */
export async function runCommand({
  command,
  ...options
}: Omit<ExecOptions, 'request' | 'stopping'> & { command: readonly string[] }): Promise<ExecResult> {
  const request = { command, env: {}, terminal: null };
  const exec = await openExec({ ...options, request, stopping: options.signal });
  exec.stdin.end();
  const [stdout, stderr] = await Promise.all([readStart(exec.stdout), readStart(exec.stderr)]);
  return { exitCode: await exec.exited, stdout, stderr };
}

async function readStart(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  let remaining = OUTPUT_LIMIT_BYTES;
  for await (const chunk of stream) {
    const part = Buffer.from(chunk).subarray(0, remaining);
    remaining -= part.length;
    if (part.length > 0) parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
