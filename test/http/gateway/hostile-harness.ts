/** Cases of `hostile.test.ts`: behaviour of the instance, bytes of the client, expected outcome. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { ALICE, idOf, serveTcp, start } from './harness.ts';
import type { Harness } from './harness.ts';

export const A = idOf('a');
export const PATH = `/forward/${A}/80`;
export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

export interface Hostile {
  name: string;
  /** Handles requests; a text is a complete response that closes the connection. Default: `OK`. */
  inside?: string | ((socket: Socket) => void);
  /** Bytes of the client. Default: a plain GET. */
  sent?: string;
  holds: (seen: Seen) => void | Promise<void>;
}

export interface Seen {
  harness: Harness;
  /** All bytes received by the client. */
  answer: string;
  /** Reset, not ended. */
  wasReset: boolean;
  /** Bytes received by the instance, per connection. */
  upstreamRequests: string[];
  /** Dialled addresses, `<instanceId>:<port>`. */
  dials: string[];
}

export const request = (
  lines: readonly string[] = [],
  { method = 'GET', path = `${PATH}/`, host = 'h', version = '1.1', body = '' } = {},
): string =>
  `${method} ${path} HTTP/${version}\r\n${[`Host: ${host}`, ...lines, 'Connection: close'].join('\r\n')}\r\n\r\n${body}`;

export const answerOf = (lines: readonly string[], body = 'ok'): string =>
  `HTTP/1.1 200 OK\r\n${[`Content-Length: ${body.length}`, ...lines].join('\r\n')}\r\n\r\n${body}`;

/** First final response, after informational ones. */
export function finalOf(answer: string): { status: number; head: string; rest: string } {
  let rest = answer;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    const head = rest.slice(0, end < 0 ? rest.length : end);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0);
    rest = end < 0 ? '' : rest.slice(end + 4);
    if (status === 0 || status >= 200 || status === 101) return { status, head, rest };
  }
}

/** Whether a client would accept the response as complete (RFC 9112 §6.3, §8). */
export function isWhole({ answer, wasReset }: Pick<Seen, 'answer' | 'wasReset'>): boolean {
  const { status, head, rest } = finalOf(answer);
  if (status === 0) return false;
  const length = /^content-length: (\d+)/im.exec(head)?.[1];
  if (/^transfer-encoding: chunked/im.test(head)) return /(^|\r\n)0\r\n([^\r\n]+\r\n)*\r\n$/.test(rest);
  return length === undefined ? !wasReset : rest.length >= Number(length);
}

/** Reached by hung connections only. */
const ANSWER_MS = 120_000;

export async function play(
  { inside = OK, sent = request() }: Pick<Hostile, 'inside' | 'sent'>,
  more: Parameters<typeof start>[0] = {},
): Promise<Seen> {
  const upstreamRequests: string[] = [];
  const server = await serveTcp((socket) => {
    const at = upstreamRequests.push('') - 1;
    socket.on('data', (chunk: Buffer) => (upstreamRequests[at] += chunk.toString('latin1')));
    if (typeof inside === 'function') inside(socket);
    else socket.once('data', () => socket.end(inside, 'latin1'));
  });
  const harness = await start({ portDomain: 'gpu.test', ...more });
  const { ports } = harness.add(A, {
    owner: ALICE,
    publicPorts: [80],
    ports: { 80: server.port, 81: server.port, 8888: server.port },
  });
  harness.sessions.set('session-a', ALICE);
  const dials: string[] = [];
  const portOf = ports.get.bind(ports);
  ports.get = (port) => {
    dials.push(`${A}:${port}`);
    return portOf(port);
  };
  const { answer, wasReset } = await exchange(harness.port, sent);
  return { harness, answer, wasReset, upstreamRequests, dials };
}

/** Uses a connection of its own, to the end. */
export async function exchange(port: number, bytes: string): Promise<{ answer: string; wasReset: boolean }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let answer = '';
    let wasReset = false;
    const timer = setTimeout(() => {
      reject(new Error(`no end of it; until then came: ${answer.slice(0, 1_000)}`));
      socket.destroy();
    }, ANSWER_MS);
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => (answer += chunk));
    socket.on('end', () => socket.end());
    socket.on('error', (error: NodeJS.ErrnoException) => (wasReset ||= error.code === 'ECONNRESET'));
    socket.on('close', () => {
      clearTimeout(timer);
      resolve({ answer, wasReset });
    });
    socket.write(bytes, 'latin1');
  });
}
