/**
 * Access matrix of `account-isolation.test.ts`: Alice's resources, their addresses, and visitors
 * without access.
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { GatewayDeps } from '../../../src/edge/gateway/gateway-deps.ts';
import { ALICE, idOf, jwtOf, keyOf, MALLORY, serve, serveTcp, start } from './harness.ts';
import type { Harness } from './harness.ts';

export const A = idOf('a');
export const M = idOf('b');
/** An instance that does not exist. */
export const NEVER = idOf('c');
export const DOMAIN = 'gpu.test';

export interface ProtectedTarget {
  name: string;
  host: string;
  path: string;
  port: number;
  /** Open to every account, closed without a login. */
  forAccounts: boolean;
}

const byPath = (name: string, path: string, port: number, forAccounts = false): ProtectedTarget => ({
  name,
  host: DOMAIN,
  path,
  port,
  forAccounts,
});
const byHost = (name: string, port: number, forAccounts = false): ProtectedTarget => ({
  name,
  host: `${port}-${A}.${DOMAIN}`,
  path: '/',
  port,
  forAccounts,
});

export const protectedTargets: readonly ProtectedTarget[] = [
  byPath('the notebook', `/notebook/${A}/`, 8888),
  byPath('the port of the notebook', `/forward/${A}/8888/`, 8888),
  byPath('a port of the owner', `/forward/${A}/81/`, 81),
  byPath('a port for accounts', `/forward/${A}/82/`, 82, true),
  byPath('ssh', `/forward/${A}/22/`, 22),
  byHost('the host of the notebook’s port', 8888),
  byHost('the host of a port of the owner', 81),
  byHost('the host of a port for accounts', 82, true),
];

/** Same address at an instance that does not exist. */
export const nowhere = (target: ProtectedTarget): ProtectedTarget => ({
  ...target,
  host: target.host.replace(A, NEVER),
  path: target.path.replace(A, NEVER),
});

/** Address open to every visitor: a public port of Mallory's. */
export const OWN = { host: DOMAIN, path: `/forward/${M}/80/`, hostOfPort: `80-${M}.${DOMAIN}` };

export interface Visitor {
  name: string;
  /** Header lines. */
  auth: readonly string[];
  isAccount: boolean;
  /** Compare each response with the one for a missing instance; one visitor of a kind suffices. */
  isCompared?: true;
  /** Address that the same lines open: proof that the credentials are valid. */
  mayEnter: string;
}

const asMallory = (name: string, ...auth: string[]): Visitor => ({
  name,
  auth,
  isAccount: true,
  mayEnter: `/notebook/${M}/`,
});

export const visitors: readonly Visitor[] = [
  {
    name: 'a visitor without credentials',
    auth: [],
    isAccount: false,
    isCompared: true,
    mayEnter: `/forward/${A}/80/`,
  },
  {
    name: 'a visitor with a link to another port',
    auth: ['X-Berth-Share: of-83'],
    isAccount: false,
    mayEnter: `/forward/${A}/83/`,
  },
  {
    name: 'a visitor with the cookie of a link to another port',
    auth: ['Cookie: berth_share=of-83', 'Sec-Fetch-Site: none'],
    isAccount: false,
    mayEnter: `/forward/${A}/83/`,
  },
  { ...asMallory('the other account, by token', `Authorization: Bearer ${jwtOf(MALLORY)}`), isCompared: true },
  asMallory('the other account, by API key', `X-API-Key: ${keyOf(MALLORY)}`),
  asMallory('the other account, by session', 'Cookie: berth_gateway=session-m', 'Sec-Fetch-Site: none'),
];

export const OWNER_CREDENTIALS: readonly string[] = [`Authorization: Bearer ${jwtOf(ALICE)}`];

export interface TwoAccountGateway {
  harness: Harness;
  /** Reached ports: `<a|m>:<port>`. */
  reached: string[];
}

/** Alice's instance and Mallory's, with a server on each port that names its port. */
export async function startTwoAccountGateway(more: Partial<GatewayDeps> = {}): Promise<TwoAccountGateway> {
  const reached: string[] = [];
  async function web(label: string): Promise<number> {
    const { port, server } = await serve((_req, res) => {
      reached.push(label);
      res.setHeader('X-Inside', label).end(`inside ${label}`);
    });
    server.on('connection', () => reached.push(label));
    server.on('upgrade', (_req, socket: Duplex) => {
      socket.on('error', () => socket.destroy());
      reached.push(label);
      socket.resume().end(`HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\ninside ${label}`);
    });
    return port;
  }
  const shell = await serveTcp((socket) => {
    reached.push('a:22');
    socket.end('SSH-2.0-inside a:22\r\n');
  });
  const harness = await start({ portDomain: DOMAIN, ...more });
  const ofA: Record<number, number> = { 22: shell.port };
  const ofM: Record<number, number> = {};
  for (const port of [80, 81, 82, 83, 8888]) ofA[port] = await web(`a:${port}`);
  for (const port of [80, 81, 8888]) ofM[port] = await web(`m:${port}`);
  harness.add(A, { owner: ALICE, publicPorts: [80], access: { 82: 'signedIn' }, ports: ofA });
  harness.add(M, { owner: MALLORY, publicPorts: [80], ports: ofM });
  harness.sessions.set('session-a', ALICE).set('session-m', MALLORY);
  harness.shares.set('of-83', { instanceId: A, port: 83, expiresAtMs: Number.MAX_SAFE_INTEGER });
  return { harness, reached };
}

/** Addresses closed to the visitor. */
export const closedTo = ({ isAccount }: Visitor): readonly string[] =>
  isAccount ? ['a:22', 'a:81', 'a:8888', 'a:83'] : ['a:22', 'a:81', 'a:82', 'a:8888'];

/** A request with these lines that closes its connection. */
export const plain = (
  { host, path }: Pick<ProtectedTarget, 'host' | 'path'>,
  auth: readonly string[],
  { method = 'GET', version = '1.1' }: { method?: string; version?: string } = {},
): string =>
  `${method} ${path} HTTP/${version}\r\n${['Host: ' + host, ...auth, 'Connection: close'].join('\r\n')}\r\n\r\n`;

export const HANDSHAKE: readonly string[] = [
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];
export const upgrade = (
  { host, path }: Pick<ProtectedTarget, 'host' | 'path'>,
  auth: readonly string[],
  lines: readonly string[] = ['Connection: Upgrade', ...HANDSHAKE],
  first = `GET ${path} HTTP/1.1`,
): string => `${first}\r\n${['Host: ' + host, ...auth, ...lines].join('\r\n')}\r\n\r\n`;

/** Reached by hung connections only. */
const ANSWER_MS = 120_000;

/**
 * Sends each part once the previous is answered, and waits for the end of the connection, or for
 * the head of an answer without end; `null` on timeout.
 */
export async function exchange(
  port: number,
  bytes: string | readonly string[],
  { headOnly = false } = {},
): Promise<string | null> {
  return new Promise((resolve) => {
    const socket: Socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let got = '';
    const timer = setTimeout(() => {
      resolve(null);
      socket.destroy();
    }, ANSWER_MS);
    socket.setEncoding('latin1');
    const parts = typeof bytes === 'string' ? [bytes] : [...bytes];
    const sendNext = (): void => {
      const part = parts.shift();
      if (part !== undefined) socket.write(part, 'latin1');
    };
    socket.on('data', (chunk: string) => {
      got += chunk;
      if (headOnly && got.includes('\r\n\r\n')) socket.destroy();
      else sendNext();
    });
    socket.on('end', () => socket.end());
    // An early response may close the connection during the upload.
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(got);
    });
    sendNext();
  });
}
