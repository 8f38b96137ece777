/** An external server program on its own core, once ready. Its output is shown on failure only. */
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { pinned, type Core } from './machine.ts';

const DEADLINE_MS = 15_000;
const POLL_MS = 10;
const SAID_CHARACTERS = 2_000;

/** A measured server: port, process and stop. */
export interface Served {
  pid: number;
  port: number;
  stop(): Promise<void>;
}

export async function startForeign(
  command: string[],
  { port, core, env = {} }: { port: number; core: Core; env?: Record<string, string> },
): Promise<Served> {
  const whole = [...pinned(core), ...command];
  const child = spawn(whole[0] ?? '', whole.slice(1), {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  let gone = false;
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => (said = (said + bytes.toString('utf8')).slice(-SAID_CHARACTERS)));
  const exited = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      said += error.message;
      gone = true;
      resolve();
    });
    child.once('exit', () => {
      gone = true;
      resolve();
    });
  });
  const stop = async (): Promise<void> => {
    if (!gone) child.kill('SIGTERM');
    await exited;
  };
  for (const endMs = performance.now() + DEADLINE_MS; !(await listens(port)); await sleep(POLL_MS)) {
    if (!gone && performance.now() < endMs) continue;
    await stop();
    throw new Error(`${command.join(' ')} does not listen: ${said}`);
  }
  return { pid: child.pid ?? 0, port, stop };
}

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
