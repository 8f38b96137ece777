/** The program itself, spawned as in production, and the time to its first correct answer. */
import { spawn, type ChildProcess } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { pinned } from './machine.ts';

const ROOT = join(import.meta.dirname, '../..');
const DEADLINE_MS = 60_000;
const POLL_MS = 2;

export const freePort = async (): Promise<number> => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port is free');
  return address.port;
};

/** Polls until the answer is correct; milliseconds since `beganMs`. */
async function firstAnswer(beganMs: number, ask: () => Promise<boolean>): Promise<number> {
  for (;;) {
    if (await ask().catch(() => false)) return performance.now() - beganMs;
    if (performance.now() - beganMs > DEADLINE_MS) throw new Error('no right answer came in time');
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

export interface Started {
  process: ChildProcess;
  tookMs: number;
  end(): Promise<void>;
}

export async function startProgram(
  args: readonly string[],
  env: Record<string, string>,
  ask: () => Promise<boolean>,
): Promise<Started> {
  const command = [...pinned(0), process.execPath, ...args];
  const beganMs = performance.now();
  const child = spawn(command[0] ?? '', command.slice(1), {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const end = async (): Promise<void> => {
    child.kill('SIGTERM');
    await gone;
  };
  try {
    return { process: child, tookMs: await firstAnswer(beganMs, ask), end };
  } catch (error) {
    await end();
    throw error;
  }
}
