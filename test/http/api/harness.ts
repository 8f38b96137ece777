/**
 * A server for the API's tests: the edge listening on a free port, over the control of
 * `control-fixture.ts` (or one handed in).
 *
 *     const api = await startApi();
 *     const alice = await api.newAccount();
 *     const reply = await api.post('/instance/list', { pager: … }, { token: alice.token });
 */
import type { IncomingHttpHeaders } from 'node:http';
import { request } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { makeClient } from '../../../src/contract/client.ts';
import type { Client, ClientCredential } from '../../../src/contract/client.ts';
import type { LaunchRequest } from '../../../src/contract/compute/instance.ts';
import type { Control } from '../../../src/control/index.ts';
import { makeApi } from '../../../src/edge/http/api.ts';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import { ADMIN_PASSWORD, GATEWAY_ORIGIN, ids, PORT_DOMAIN, wireControl } from './control-fixture.ts';
import type { WiredControl } from './control-fixture.ts';

export interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** Undefined when the body is not JSON. */
  json: unknown;
}

export interface Account {
  username: string;
  password: string;
  token: string;
  client: Client;
}

export interface LogLine {
  level: string;
  facts: Record<string, unknown>;
  text: string;
}

export interface Send {
  method?: string;
  /** A string or bytes are sent as is; other values as JSON. */
  body?: unknown;
  token?: string;
  headers?: Record<string, string>;
}

export interface BareApi {
  origin: string;
  port: number;
  /** Up to and including `/api`. */
  baseUrl: string;
  logged: LogLine[];
  /** Open connections of the server. */
  connections(): Promise<number>;
  /** Any path of the listener. */
  send(path: string, send?: Send): Promise<Reply>;
  /** POSTs to a route under `/api`. */
  post(route: string, body: unknown, send?: Omit<Send, 'body' | 'method'>): Promise<Reply>;
  stop(): Promise<void>;
}

export interface TestApi extends BareApi {
  wired: WiredControl;
  admin: Account;
  /** A new account with balance, logged in. */
  newAccount(): Promise<Account>;
}

/** The edge alone, over any control. */
export async function startEdge(control: Control, more: Partial<ApiOptions> = {}): Promise<BareApi> {
  const { logged, log } = recordingLog();
  const app = makeApi({
    control,
    log,
    version: '0.0.0-test',
    gatewayOrigin: GATEWAY_ORIGIN,
    portDomain: PORT_DOMAIN,
    secureCookies: false,
    hosts: ['x'],
    ...more,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = addressOf(app.server.address());
  const origin = `http://127.0.0.1:${port}`;
  const send = (path: string, { method = 'GET', body, token, headers = {} }: Send = {}): Promise<Reply> =>
    exchange(port, path, {
      method,
      headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
      bytes: bytesOf(body),
    });
  return {
    origin,
    port,
    baseUrl: `${origin}/api`,
    logged,
    connections: () =>
      new Promise((resolve, reject) => {
        app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
      }),
    send,
    post: (route, body, more_ = {}) =>
      send(`/api${route}`, {
        ...more_,
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json', ...more_.headers },
      }),
    stop: () => app.close(),
  };
}

/** The whole API on a store of its own. */
export async function startApi(): Promise<TestApi> {
  const wired = await wireControl(recordingLog().log);
  const edge = await startEdge(wired.control);
  const clientFor = (credential: ClientCredential): Client => makeClient({ baseUrl: edge.baseUrl, credential });
  const logIn = async (username: string, password: string): Promise<Account> => {
    const { accessToken: token } = await makeClient({ baseUrl: edge.baseUrl }).login({ username, password });
    return { username, password, token, client: clientFor({ kind: 'token', token }) };
  };
  const admin = await logIn('admin', ADMIN_PASSWORD);
  let accounts = 0;
  return {
    ...edge,
    wired,
    admin,
    async newAccount() {
      accounts += 1;
      const username = `user-${accounts}`;
      const password = `password of ${username}`;
      await admin.client.createUser({ username, password, balance: 100_000 });
      return logIn(username, password);
    },
    async stop() {
      await edge.stop();
      await wired.stop();
    },
  };
}

/** A launch with every field valid. */
export const launchRequest = (changed: Partial<LaunchRequest> = {}): LaunchRequest => ({
  name: 'an instance',
  imageId: ids.image,
  instanceTypeId: ids.type,
  region: ids.region,
  billing: { chargeMode: 'perHour', duration: 1 },
  remoteStorages: [],
  instanceConfiguration: {
    extraDataDiskSizeDB: 0,
    enableCommonData: false,
    enableDocker: false,
    dockerStorageSize: 0,
    initScript: '',
  },
  isSpotInstance: false,
  nodePorts: [],
  ...changed,
});

function recordingLog() {
  const logged: LogLine[] = [];
  const at = (level: string) => (facts: Record<string, unknown>, text: string) =>
    void logged.push({ level, facts, text });
  return { logged, log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } };
}

function addressOf(address: AddressInfo | string | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('the server listens on no port');
  return address;
}

function bytesOf(body: unknown): Buffer | null {
  if (body === undefined) return null;
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

/**
 * Uses `node:http` with a connection per request, since `fetch` refuses some headers and bodies
 * under test.
 */
function exchange(
  port: number,
  path: string,
  { method, headers, bytes }: { method: string; headers: Record<string, string>; bytes: Buffer | null },
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const length = bytes && !('transfer-encoding' in headers) ? { 'content-length': String(bytes.length) } : {};
    const asked = request({ host: '127.0.0.1', port, path, method, headers: { ...length, ...headers }, agent: false });
    asked.on('error', reject);
    asked.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: jsonOf(text) });
      });
    });
    asked.end(bytes ?? undefined);
  });
}

/** Sends raw text, and returns all bytes until the server closes. */
export function sendRaw(port: number, ...parts: (string | Buffer)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => {
      for (const part of parts) socket.write(part);
    });
    socket.on('data', (chunk) => chunks.push(chunk));
    // A server that refuses a body before reading all of it resets the connection: the answer
    // before the reset counts.
    socket.on('error', (error) => (chunks.length > 0 ? undefined : reject(error)));
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('utf8')));
  });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
