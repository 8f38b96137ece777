/** HTTP client for a local socket. `node:http` keeps the gateway process small. */
import { Agent, request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';

const MAX_CONNECTIONS = 8;

export interface SocketClient {
  /** Rejects after `timeoutMs` without an answer. */
  post(path: string, body: object): Promise<{ status: number; body: unknown }>;
  open(path: string, signal: AbortSignal): Promise<IncomingMessage>;
  stop(): void;
}

export function makeSocketClient(deps: {
  socketPath: string;
  headers: Record<string, string>;
  timeoutMs: number;
}): SocketClient {
  const { socketPath, headers, timeoutMs } = deps;
  const agent = new Agent({ keepAlive: true, maxSockets: MAX_CONNECTIONS });

  function send(method: string, path: string, body: string | null, signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      // The stream must not occupy a pooled connection.
      const pool = body === null ? false : agent;
      const length = body === null ? {} : { 'content-length': Buffer.byteLength(body) };
      const req = request({ socketPath, method, path, agent: pool, headers: { ...headers, ...length }, signal });
      req.on('response', resolve);
      req.on('error', reject);
      req.end(body ?? undefined);
    });
  }

  return {
    async post(path, body) {
      const reply = await send('POST', path, JSON.stringify(body), AbortSignal.timeout(timeoutMs));
      return { status: reply.statusCode ?? 0, body: await json(reply) };
    },
    async open(path, signal) {
      const timeout = new AbortController();
      const timer = setTimeout(() => timeout.abort(new Error('it does not answer')), timeoutMs);
      try {
        return await send('GET', path, null, AbortSignal.any([signal, timeout.signal]));
      } finally {
        clearTimeout(timer);
      }
    },
    stop: () => agent.destroy(),
  };
}
