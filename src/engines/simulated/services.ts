/** Services inside simulated instances: ssh banner, HTTP that echoes the request, and echo. */
import http from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';

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
    if (received.includes('\n')) stream.end(disconnect('this instance is simulated: it has no shell'));
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
