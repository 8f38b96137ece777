/**
 * A model server in an instance, used through the OpenAI client library: tokens stream as they are
 * made, and an abort stops the work.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFile } from 'node:fs/promises';
import { TLSSocket } from 'node:tls';
import OpenAI from 'openai';
import { Agent, fetch as undiciFetch } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { IMAGE_DEADLINE_MS, launchFirst, nodePortOf } from '../../fixtures/first-launch.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';
import { makeTlsDomain, type TlsDomain } from '../../fixtures/tls-domain.ts';

const OWN_KEY = 'sk-of-the-server';

let domain: TlsDomain;
let server: ServerProcess;
let client: Client;
let berthKey: string;
let instanceId: string;
let nodePort: { address: string; nodePort: number };

beforeAll(async () => {
  domain = await makeTlsDomain('gpu.test');
  server = await startServerProcess({ nodePorts: '32180-32199', settings: domain.settings });
  ({ client } = await login(server));
  berthKey = (await client.createApiKey({ name: 'openai' })).key.fullKey;
  ({ instanceId, nodePort } = await launched());
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await server?.stop();
  await domain?.remove();
});

async function launched(): Promise<{ instanceId: string; nodePort: { address: string; nodePort: number } }> {
  const program = await readFile(new URL('openai-server.py', import.meta.url), 'utf8');
  const initScript = `cat > /root/server.py <<'PY'\n${program}\nPY\nexec python3 /root/server.py`;
  const made = await launchFirst(client, { name: 'model', initScript, nodePorts: [8000] });
  const at = nodePortOf(made, 8000);
  await until(
    () =>
      fetch(`http://${at.address}:${at.nodePort}/notes`).then(
        ({ ok }) => ok,
        () => false,
      ),
    Boolean,
  );
  return { instanceId: made.instanceId, nodePort: at };
}

interface ModelServer {
  openai: OpenAI;
  /** ALPN protocol of each TLS connection to the gateway. */
  protocols: string[];
  close(): Promise<void>;
}

interface Way {
  url: (port: number) => string;
  protocol: ['h2'] | ['http/1.1'] | [];
}
const ways: Record<'host, HTTP/2' | 'host, HTTP/1.1' | 'path' | 'node port', Way> = {
  'host, HTTP/2': { url: (port) => `https://${port}-${instanceId}.${domain.at}/v1`, protocol: ['h2'] },
  'host, HTTP/1.1': {
    url: (port) => `https://${port}-${instanceId}.${domain.at}/v1`,
    protocol: ['http/1.1'],
  },
  path: { url: (port) => `https://${domain.at}/forward/${instanceId}/${port}/v1`, protocol: ['http/1.1'] },
  'node port': { url: () => `http://${nodePort.address}:${nodePort.nodePort}/v1`, protocol: [] },
};

function modelServer(
  way: keyof typeof ways,
  more: { port?: number; apiKey?: string; headers?: Record<string, string> } = {},
): ModelServer {
  const { url, protocol } = ways[way];
  const dispatcher = new Agent({ allowH2: protocol[0] === 'h2', connect: domain.connect });
  const protocols: string[] = [];
  const onConnected = (reported: unknown): void => {
    if (typeof reported !== 'object' || reported === null || !('socket' in reported)) return;
    if (reported.socket instanceof TLSSocket) protocols.push(reported.socket.alpnProtocol || 'http/1.1');
  };
  subscribe('undici:client:connected', onConnected);
  const openai = new OpenAI({
    baseURL: url(more.port ?? 8000),
    apiKey: more.apiKey ?? OWN_KEY,
    maxRetries: 0,
    defaultHeaders: more.headers ?? {},
    fetch: (input, init) => Reflect.apply(undiciFetch, undefined, [input, { ...init, dispatcher }]),
  });
  return {
    openai,
    protocols,
    async close() {
      unsubscribe('undici:client:connected', onConnected);
      await dispatcher.destroy();
    },
  };
}

let runs = 0;
const nameRun = (): string => `run-${(runs += 1)}`;

const completion = ({ openai }: ModelServer, run: string, tokens: number, model = 'counting') =>
  openai.chat.completions.create({
    model,
    user: run,
    max_tokens: tokens,
    stream: true,
    messages: [{ role: 'user', content: 'count' }],
  });

const counted = (tokens: number): string => Array.from({ length: tokens }, (_, n) => `${n + 1} `).join('');

interface Note {
  run: string;
  what: 'asked' | 'done' | 'gone';
  made?: number;
  headers?: Record<string, string>;
  path?: string;
}

/** Notes of the model server, read past the gateway. */
async function notesOf(run: string): Promise<Note[]> {
  const answered = await fetch(`http://${nodePort.address}:${nodePort.nodePort}/notes`);
  const notes: Note[] = JSON.parse(await answered.text());
  return notes.filter((note) => note.run === run);
}
const next = (run: string) => fetch(`http://${nodePort.address}:${nodePort.nodePort}/next?${run}`);

async function withModelServer(
  way: keyof typeof ways,
  fn: (open: ModelServer) => Promise<void>,
  more: Parameters<typeof modelServer>[1] = {},
): Promise<void> {
  const open = modelServer(way, more);
  try {
    await fn(open);
  } finally {
    await open.close();
  }
}

const wayNames: (keyof typeof ways)[] = ['host, HTTP/2', 'host, HTTP/1.1', 'path', 'node port'];
describe.each(wayNames)('streaming by %s', (way) => {
  test('each token arrives before the next is made', async () => {
    await withModelServer(way, async (open) => {
      const run = nameRun();
      let text = '';
      for await (const { choices } of await completion(open, run, 20, 'in-step')) {
        const token = choices[0]?.delta.content ?? '';
        text += token;
        // A token held back on the way would make the server wait here forever.
        if (token !== '') await next(run);
      }
      expect(text).toBe(counted(20));
      // The final note may come after the last byte sent.
      const notes = await until(
        () => notesOf(run),
        ({ length }) => length >= 2,
      );
      expect(notes.map(({ what }) => what)).toEqual(['asked', 'done']);
      expect(new Set(open.protocols)).toEqual(new Set(ways[way].protocol));
    });
  });

  test('a client that disconnects stops its own work within a second', async () => {
    await withModelServer(way, async (open) => {
      const [leaves, stays] = [nameRun(), nameRun()];
      const other = completion(open, stays, 25).then(async (stream) => {
        let text = '';
        for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
        return text;
      });
      let had = 0;
      const stream = await completion(open, leaves, 600);
      for await (const { choices } of stream) {
        had = Number(choices[0]?.delta.content ?? 0);
        if (had >= 5) stream.controller.abort();
      }
      const gone = await until(
        async () => (await notesOf(leaves)).find(({ what }) => what !== 'asked'),
        (note) => note !== undefined,
      );
      expect(gone).toMatchObject({ what: 'gone' });
      // The server makes ten tokens a second.
      expect((gone?.made ?? Infinity) - had).toBeLessThanOrEqual(10);
      expect(await other).toBe(counted(25));
    });
  });

  test('ten streams at once interleave, a token at a time', async () => {
    await withModelServer(way, async (open) => {
      const streams = await Promise.all(
        Array.from({ length: 10 }, async () => {
          const run = nameRun();
          let text = '';
          const arrivedAtMs: number[] = [];
          for await (const { choices } of await completion(open, run, 15)) {
            text += choices[0]?.delta.content ?? '';
            arrivedAtMs.push(performance.now());
          }
          return { text, arrivedAtMs };
        }),
      );
      for (const { text, arrivedAtMs } of streams) {
        expect(text).toBe(counted(15));
        // Making takes 1.5 s; a buffered answer would arrive at once.
        expect((arrivedAtMs.at(-1) ?? 0) - (arrivedAtMs[0] ?? 0)).toBeGreaterThan(750);
      }
      const lastBegan = Math.max(...streams.map(({ arrivedAtMs }) => arrivedAtMs[0] ?? Infinity));
      const firstEnded = Math.min(...streams.map(({ arrivedAtMs }) => arrivedAtMs.at(-1) ?? 0));
      expect(lastBegan).toBeLessThan(firstEnded);
      if (way === 'host, HTTP/2') expect(open.protocols).toEqual(['h2']);
    });
  });

  test('passes the server’s own key in and its refusal out', async () => {
    await withModelServer(way, async (open) => {
      const run = nameRun();
      for await (const _ of await completion(open, run, 1));
      expect((await notesOf(run))[0]).toMatchObject({
        headers: { authorization: `Bearer ${OWN_KEY}` },
        path: '/v1/chat/completions',
      });
    });
    const wrong = async (open: ModelServer): Promise<void> => {
      const refused = completion(open, nameRun(), 1);
      await expect(refused).rejects.toMatchObject({ status: 401, message: /not a key of this model server/ });
    };
    await withModelServer(way, wrong, { apiKey: 'sk-wrong' });
  });
});

describe.each(wayNames.filter((way) => way !== 'node port'))('a private port by %s', (way) => {
  const text = async (open: ModelServer, run: string): Promise<string> => {
    let got = '';
    for await (const { choices } of await completion(open, run, 3)) got += choices[0]?.delta.content ?? '';
    return got;
  };

  test('is open to a Berth key, with or without another key, and strips the Berth key', async () => {
    const given = [{ headers: { 'X-API-Key': berthKey } }, { apiKey: berthKey }];
    for (const more of given) {
      const run = nameRun();
      await withModelServer(way, async (open) => expect(await text(open, run)).toBe(counted(3)), {
        port: 8001,
        ...more,
      });
      const reported = JSON.stringify(await notesOf(run));
      expect(reported).not.toContain(berthKey);
      expect(reported).not.toMatch(/x-api-key|authorization/i);
    }
  });

  test('is closed to every other key', async () => {
    const others = [{}, { headers: { 'X-API-Key': 'berth_wrong' } }, { apiKey: 'berth_wrong' }];
    for (const more of others) {
      const run = nameRun();
      await withModelServer(way, async (open) => expect(text(open, run)).rejects.toMatchObject({ status: 401 }), {
        port: 8001,
        ...more,
      });
      expect(await notesOf(run)).toEqual([]);
    }
  });
});
