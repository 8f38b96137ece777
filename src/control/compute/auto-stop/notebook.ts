/** Kernels and terminals of a notebook server, read through its API with its token. */
import { request } from 'node:http';
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { NOTEBOOK_PORT } from '../../../domain/access/port-access.ts';
import { notebookPath } from '../../../domain/compute/public-instance.ts';
import type { ProbeTarget } from '../inside/probes.ts';

const ANSWER_BYTES = 1024 * 1024;

const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
const kernels = z.array(
  z.object({ id: z.string(), name: z.string(), execution_state: z.string(), last_activity: time }),
);
const terminals = z.array(z.object({ name: z.string(), last_activity: time.optional() }));
const sessions = z.array(
  z.object({ path: z.string(), type: z.string(), kernel: z.object({ id: z.string() }).nullable() }),
);

export type NotebookAnswer<What> = What | 'none';

export interface NotebookUse {
  busy: string | null;
  lastMs: number;
  count: number;
}

export interface Notebook {
  kernels(): Promise<NotebookAnswer<NotebookUse>>;
  terminals(): Promise<NotebookAnswer<NotebookUse>>;
}

/** Methods throw on an answer that can't be parsed. */
export function makeNotebook(inside: ProbeTarget, notebookToken: string): Notebook {
  const ask = async <What>(what: string, schema: z.ZodType<What>): Promise<NotebookAnswer<What>> => {
    const stream = await dial(inside);
    if (!stream) return 'none';
    const text = await get(stream, `${notebookPath(inside.id)}api/${what}`, notebookToken, inside.signal);
    if (text === null) return 'none';
    const parsed = schema.safeParse(jsonOf(text));
    if (!parsed.success) throw new Error(`the notebook's answer about ${what} is not in the expected format`);
    return parsed.data;
  };
  return {
    async kernels() {
      const parsed = await ask('kernels', kernels);
      if (parsed === 'none') return parsed;
      const busy = parsed.find(({ execution_state: state }) => state === 'busy');
      const lastMs = Math.max(0, ...parsed.map(({ last_activity: atMs }) => atMs));
      if (!busy) return { busy: null, lastMs, count: parsed.length };
      const open = await ask('sessions', sessions).catch(() => 'none' as const);
      const session = open === 'none' ? undefined : open.find(({ kernel }) => kernel?.id === busy.id);
      const name = session ? `${session.type} ${session.path}` : busy.name;
      return { busy: `a kernel is busy (${name})`, lastMs, count: parsed.length };
    },
    async terminals() {
      const parsed = await ask('terminals', terminals);
      if (parsed === 'none') return parsed;
      return {
        busy: null,
        lastMs: Math.max(0, ...parsed.map(({ last_activity: atMs = 0 }) => atMs)),
        count: parsed.length,
      };
    },
  };
}

async function dial({ engine, id, signal }: ProbeTarget): Promise<Duplex | null> {
  try {
    return await engine.dial(id, NOTEBOOK_PORT, signal);
  } catch (error) {
    if (error instanceof EngineFault && error.kind === 'busy') return null;
    throw error;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Null if no notebook answers: 404, or a page. */
function get(stream: Duplex, path: string, token: string, signal: AbortSignal): Promise<string | null> {
  const headers = {
    host: 'localhost',
    authorization: `token ${token}`,
    accept: 'application/json',
    connection: 'close',
  };
  return new Promise<string | null>((resolve, reject) => {
    const end = (settle: () => void): void => {
      stream.destroy();
      settle();
    };
    const asked = request({ createConnection: () => stream, path, headers, signal });
    asked.on('error', (error) => end(() => reject(error)));
    asked.on('response', (response) => {
      const { statusCode } = response;
      if (statusCode === 404 || (statusCode === 200 && !response.headers['content-type']?.includes('json')))
        return end(() => resolve(null));
      if (statusCode !== 200)
        return end(() => reject(new Error(`the notebook answered ${path} with status ${statusCode}`)));
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > ANSWER_BYTES)
          end(() => reject(new Error(`the notebook's answer has more than ${ANSWER_BYTES} bytes`)));
      });
      response.on('error', (error) => end(() => reject(error)));
      response.on('end', () => end(() => resolve(Buffer.concat(chunks).toString())));
    });
    asked.end();
  });
}
