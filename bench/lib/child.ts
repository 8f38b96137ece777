/**
 * A process of a bench, on a core of its own, asked over the channel that Node gives a child: `ask` sends what is wanted and answers what
 * came back, read by a schema. `answerAsks` is the child's side.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { asTheServer } from '../../scripts/lib/program.mjs';
import { z } from 'zod';
import { pinned, type Core } from './machine.ts';

const FOLDER = join(import.meta.dirname, '../processes');
/** They run as the server does; the peers as Node is. */
const OURS: ReadonlySet<string> = new Set(['server.ts', 'gateway.ts']);

const reply = z.object({ id: z.number(), answer: z.unknown(), error: z.string().optional() });
const asked = z.object({ id: z.number(), question: z.unknown() });

export interface Child {
  pid: number;
  ask<T>(question: unknown, answer: z.ZodType<T>): Promise<T>;
  stop(): Promise<void>;
}

/** `settings` is told to the child as its first argument. */
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
  // Of a question that could not be sent: that it has ended is said by `exit`.
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

/** The child's side: answers each question by `answer`, and ends by SIGTERM or when its parent is gone, after `stop`. */
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
  // Ctrl-C goes to the whole group: the parent ends its children itself.
  process.on('SIGINT', () => {});
}

export const settingsOf = <T>(schema: z.ZodType<T>): T => schema.parse(JSON.parse(process.argv[2] ?? 'null'));
