/**
 * A child process of a bench on its own core, called over Node's IPC channel. `ask` sends a request
 * and parses the reply; `answerAsks` is the child's side.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { asTheServer } from '../../scripts/lib/program.mjs';
import { z } from 'zod';
import { pinned, type Core } from './machine.ts';

const FOLDER = join(import.meta.dirname, '../processes');
/** Flags as of the server; peers run with Node's defaults. */
const OURS: ReadonlySet<string> = new Set(['server.ts', 'gateway.ts']);

const reply = z.object({ id: z.number(), answer: z.unknown(), error: z.string().optional() });
const asked = z.object({ id: z.number(), question: z.unknown() });

export interface Child {
  pid: number;
  ask<T>(question: unknown, answer: z.ZodType<T>): Promise<T>;
  stop(): Promise<void>;
}

/** `settings` becomes the child's first argument. */
export function startChild(program: string, core: Core, settings: unknown = null): Child {
  const flags = OURS.has(program) ? asTheServer : [];
  const command = [...pinned(core), process.execPath, ...flags, join(FOLDER, program), JSON.stringify(settings)];
  const child = spawn(command[0] ?? '', command.slice(1), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const waiting = new Map<number, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();
  let count = 0;
  let gone = false;
  const exited = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      gone = true;
      for (const { reject } of waiting.values()) reject(new Error(`${program} ended with ${code ?? signal}`));
      resolve();
    });
  });
  // Failed sends: `exit` reports the end of the child.
  child.on('error', () => {});
  child.on('message', (message) => {
    const { id, answer, error } = reply.parse(message);
    const one = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) one?.resolve(answer);
    else one?.reject(new Error(`${program}: ${error}`));
  });
  return {
    pid: child.pid ?? 0,
    async ask(question, answer) {
      if (gone) throw new Error(`${program} has ended`);
      const id = count++;
      const answered = new Promise<unknown>((resolve, reject) => waiting.set(id, { resolve, reject }));
      child.send({ id, question });
      return answer.parse(await answered);
    },
    async stop() {
      if (!gone) child.kill('SIGTERM');
      await exited;
    },
  };
}

/**
 * Child side: answers requests by `answer`, and ends on SIGTERM or without its parent, after
 * `stop`.
 */
export function answerAsks(answer: (question: unknown) => Promise<unknown>, stop: () => Promise<void>): void {
  process.on('message', (message) => {
    const { id, question } = asked.parse(message);
    answer(question).then(
      (given) => process.send?.({ id, answer: given }),
      (error: unknown) =>
        process.send?.({ id, answer: null, error: error instanceof Error ? error.stack : String(error) }),
    );
  });
  const end = (): void => {
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  process.once('SIGTERM', end);
  process.once('disconnect', end);
  // Ctrl-C reaches the whole group; the parent ends its children.
  process.on('SIGINT', () => {});
}

export const settingsOf = <T>(schema: z.ZodType<T>): T => schema.parse(JSON.parse(process.argv[2] ?? 'null'));
