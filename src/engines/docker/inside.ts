/** What is asked of a running instance beside its ports: its console, and a command. */
import { EngineFault } from '../../domain/engine-fault.ts';
import type { ExecResult } from '../contract.ts';
import type { Client } from './client.ts';
import { faultOf, sentenceOf, statusOf } from './faults.ts';
import { makeDemultiplexer } from './streams.ts';

const EXEC_LIMIT_BYTES = 1024 * 1024;

export async function readLogs(
  client: Client,
  containerId: string,
  tail: number,
  signal: AbortSignal,
): Promise<string[]> {
  const wanted = Math.max(0, Math.floor(tail));
  if (wanted === 0) return [];
  const request = { follow: false as const, stdout: true, stderr: true, tail: wanted };
  const bytes = await client.call(signal, (abortSignal) =>
    client.docker.getContainer(containerId).logs({ ...request, abortSignal }),
  );
  const parts: Buffer[] = [];
  makeDemultiplexer((_source, part) => parts.push(part))(Buffer.from(bytes));
  const lines = Buffer.concat(parts).toString('utf8').split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.slice(-wanted);
}

/** When the signal fires the answer is dropped; what was started goes on inside, the engine has no way to end it. */
export async function runInside(
  client: Client,
  containerId: string,
  command: readonly string[],
  signal: AbortSignal,
): Promise<ExecResult> {
  const streams = { stdout: new Bounded(EXEC_LIMIT_BYTES), stderr: new Bounded(EXEC_LIMIT_BYTES) };
  try {
    const request = { Cmd: [...command], AttachStdout: true, AttachStderr: true, Tty: false };
    const exec = await client.call(signal, (abortSignal) =>
      client.docker.getContainer(containerId).exec({ ...request, abortSignal }),
    );
    await client.call(signal, async (abortSignal) => {
      const output = await exec.start({ Detach: false, Tty: false, abortSignal });
      const take = makeDemultiplexer((source, bytes) => streams[source].add(bytes));
      for await (const chunk of output) take(Buffer.from(chunk));
    });
    const { ExitCode } = await client.call(signal, (abortSignal) => exec.inspect({ abortSignal }));
    return { exitCode: ExitCode ?? -1, stdout: streams.stdout.text(), stderr: streams.stderr.text() };
  } catch (error) {
    if (statusOf(error) === 409 && /is paused/i.test(sentenceOf(error)))
      throw new EngineFault('busy', 'the instance stands still at the moment, as when it is saved', {
        retry: true,
        cause: error,
      });
    if (statusOf(error) === 409)
      throw new EngineFault('not_found', 'the instance does not run', { retry: false, cause: error });
    throw faultOf(error);
  }
}

class Bounded {
  readonly #parts: Buffer[] = [];
  #left: number;
  constructor(limit: number) {
    this.#left = limit;
  }
  add(bytes: Buffer): void {
    const part = bytes.subarray(0, this.#left);
    this.#left -= part.length;
    if (part.length > 0) this.#parts.push(Buffer.from(part)); // a copy: the chunk it was cut from is large
  }
  text(): string {
    return Buffer.concat(this.#parts).toString('utf8');
  }
}
