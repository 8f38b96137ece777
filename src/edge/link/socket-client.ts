/** HTTP client for a local socket. `node:http` keeps the gateway process small. */
import { Agent, request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';

const AT_ONCE = 8;

export interface Asker {
  /** Rejects when no answer came in time. */
  ask(path: string, body: object): Promise<{ status: number; told: unknown }>;
  /** Opens an endless stream. Rejects when it did not start in time. */
  open(path: string, signal: AbortSignal): Promise<IncomingMessage>;
  stop(): void;
}

export function makeAsker(deps: { socketPath: string; headers: Record<string, string>; patienceMs: number }): Asker {
  const { socketPath, headers, patienceMs } = deps;
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });

  function send(method: string, path: string, body: string | null, signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      // The stream must not occupy one of the pooled connections.
      const from = body === null ? false : agent;
      const length = body === null ? {} : { 'content-length': Buffer.byteLength(body) };
      const asked = request({ socketPath, method, path, agent: from, headers: { ...headers, ...length }, signal });
      asked.on('response', resolve);
      asked.on('error', reject);
      asked.end(body ?? undefined);
    });
  }

  return {
    async ask(path, body) {
      const reply = await send('POST', path, JSON.stringify(body), AbortSignal.timeout(patienceMs));
      return { status: reply.statusCode ?? 0, told: await json(reply) };
    },
    async open(path, signal) {
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(new Error('it does not answer')), patienceMs);
      try {
        return await send('GET', path, null, AbortSignal.any([signal, late.signal]));
      } finally {
        clearTimeout(timer);
      }
    },
    stop: () => agent.destroy(),
  };
}
