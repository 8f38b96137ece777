/**
 * Services inside simulated instances: ssh banner, HTTP that echoes the request, the notebook's
 * API, echo, and the listeners of Berth's own programs.
 */
import http from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { useOf, type Container } from './container.ts';
import type { UseName } from './script.ts';

export interface ServedInstance {
  instanceId: string;
  hostname: string;
  port: number;
  notebook?: (what: string) => object | undefined;
}

/** Takes over a connection, which is destroyed when the instance stops. */
export type Service = (stream: Duplex, about: ServedInstance) => void;

/** Limit of an echoed body. */
const echoedBodyBytes = 64 * 1024;

export const echo: Service = (stream) => {
  stream.pipe(stream);
};

/**
 * Sends the banner (RFC 4253 §4.2), then a disconnect (§11.1) with the reason, for real clients.
 */
export const ssh: Service = (stream) => {
  stream.write('SSH-2.0-BerthSimulation\r\n');
  let received = '';
  stream.on('data', (chunk: Buffer) => {
    if (stream.writableEnded) return;
    received = (received + chunk.toString('latin1')).slice(-255);
    if (received.includes('\n')) stream.end(disconnect('this instance is simulated and has no shell'));
  });
  stream.on('end', () => stream.end());
};

/** SSH_MSG_DISCONNECT, reason 11, unencrypted (RFC 4253 §6). */
function disconnect(text: string): Buffer {
  const description = Buffer.from(text);
  const payload = Buffer.alloc(1 + 4 + 4 + description.length + 4);
  payload.writeUInt8(1, 0);
  payload.writeUInt32BE(11, 1);
  payload.writeUInt32BE(description.length, 5);
  description.copy(payload, 9);
  const unpadded = 5 + payload.length;
  const padding = 4 + ((8 - ((unpadded + 4) % 8)) % 8);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(1 + payload.length + padding, 0);
  head.writeUInt8(padding, 4);
  return Buffer.concat([head, payload, Buffer.alloc(padding)]);
}

/** Answers each HTTP/1.1 request with itself as JSON; echoes WebSockets. */
export function makeHttpService(): Service {
  const instanceOf = new WeakMap<Duplex, ServedInstance>();
  const webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    let bodyBytes = 0;
    request.on('data', (chunk: Buffer) => {
      if (bodyBytes < echoedBodyBytes) chunks.push(chunk.subarray(0, echoedBodyBytes - bodyBytes));
      bodyBytes += chunk.length;
    });
    request.on('end', () => {
      const { method, url, headers } = request;
      const about = instanceOf.get(request.socket);
      const question = method === 'GET' ? /^\/notebook\/[^/]+\/api\/([a-z]+)$/.exec(url ?? '')?.[1] : undefined;
      const answer = question === undefined ? undefined : about?.notebook?.(question);
      const body = Buffer.concat(chunks).toString();
      const payload = answer ?? { simulated: true, ...about, method, path: url, headers, bodyBytes, body };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(payload));
    });
  });
  server.on('upgrade', (request, socket, head) => {
    webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      webSocket.on('message', (data, isBinary) => webSocket.send(data, { binary: isBinary }));
      webSocket.on('error', () => webSocket.terminate());
    });
  });
  return (stream, about) => {
    instanceOf.set(stream, about);
    server.emit('connection', stream);
  };
}

/** Answers the notebook's API by path suffix, with the kernels and terminals of the script. */
export function notebookAnswer(container: Container, what: string, nowMs: number): object | undefined {
  const { uses } = container.script;
  const last = (name: UseName) => {
    const lastMs = Math.min(nowMs, container.startedAtMs + (uses.get(name)?.forMs ?? 0));
    return { last_activity: new Date(lastMs).toISOString() };
  };
  const kernel = {
    id: 'simulated-kernel',
    name: 'python3',
    execution_state: useOf(container, 'kernel', nowMs) > 0 ? 'busy' : 'idle',
    connections: 0,
    ...last('kernel'),
  };
  switch (what) {
    case 'kernels':
      return uses.has('kernel') ? [kernel] : [];
    case 'terminals':
      return uses.has('terminal') ? [{ name: '1', ...last('terminal') }] : [];
    case 'sessions':
      return uses.has('kernel')
        ? [{ id: 'simulated-session', path: 'train.ipynb', name: 'train.ipynb', type: 'notebook', kernel }]
        : [];
    default:
      return undefined;
  }
}

export type Accept = (inside: Duplex) => void;

interface Guest {
  accept: Accept;
  onLoopback: boolean;
}

/** Listeners of Berth's programs by port or socket path, for one run. */
export interface Guests {
  /** Returns a function that stops listening, or undefined if the address is in use. */
  listen(container: Container, where: number | string, guest: Guest): (() => void) | undefined;
  at(container: Container, where: number | string): Guest | undefined;
  closeAll(container: Container): void;
}

export function makeGuests(): Guests {
  const all = new Map<Container, Map<number | string, Guest>>();
  return {
    listen(container, where, guest) {
      const here = all.get(container) ?? new Map<number | string, Guest>();
      if (here.has(where)) return undefined;
      all.set(container, here.set(where, guest));
      return () => {
        if (here.get(where) !== guest) return;
        here.delete(where);
        if (here.size === 0 && all.get(container) === here) all.delete(container);
      };
    },
    at: (container, where) => all.get(container)?.get(where),
    closeAll: (container) => void all.delete(container),
  };
}
