/** Container starts, from the engine's event stream. */
import { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';

const event = z.object({
  Action: z.enum(['create', 'start']),
  Actor: z.object({ Attributes: z.object({ name: z.string() }) }),
});

/** Receive time, as of `performance.now()`. */
interface PublishedStart {
  createdMs: number;
  startedMs: number;
}

export interface Starts {
  /** Time of the n-th start. */
  nth(n: number, deadlineMs: number): Promise<number>;
  named(name: string, deadlineMs: number): Promise<PublishedStart>;
  /** Create-to-start times of all containers since. */
  tookMs(): number[];
  stop(): void;
}

export async function watchStarts(docker: Docker): Promise<Starts> {
  const filters = JSON.stringify({ type: ['container'], event: ['create', 'start'] });
  const stream = await docker.getEvents({ filters });
  const created = new Map<string, number>();
  const started = new Map<string, number>();
  const waiting = new Set<() => void>();
  let rest = '';
  stream.on('data', (bytes: Buffer) => {
    const atMs = performance.now();
    const lines = (rest + bytes.toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.trim() === '') continue;
      const { Action, Actor } = event.parse(JSON.parse(line));
      (Action === 'create' ? created : started).set(Actor.Attributes.name, atMs);
    }
    for (const look of waiting) look();
  });
  const until = (isSo: () => boolean, deadlineMs: number, what: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!isSo()) return;
        waiting.delete(look);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(look);
        reject(new Error(`${what}: not after ${deadlineMs / 1000} s, ${started.size} starts so far`));
      }, deadlineMs);
      waiting.add(look);
      look();
    });
  return {
    async nth(n, deadlineMs) {
      await until(() => started.size >= n, deadlineMs, `start ${n}`);
      return [...started.values()][n - 1] ?? Number.NaN;
    },
    async named(name, deadlineMs) {
      await until(() => started.has(name), deadlineMs, `start of ${name}`);
      return { createdMs: created.get(name) ?? Number.NaN, startedMs: started.get(name) ?? Number.NaN };
    },
    tookMs: () =>
      [...started].flatMap(([name, startedMs]) => {
        const createdMs = created.get(name);
        return createdMs === undefined ? [] : [startedMs - createdMs];
      }),
    stop: () => {
      if (stream instanceof Readable) stream.destroy();
    },
  };
}
