/**
 * A listening API over real control on the simulated engine, with running instances and readers of
 * its two WebSockets.
 */
import type { IncomingMessage } from 'node:http';
import { onTestFinished } from 'vitest';
import WebSocket from 'ws';
import { makeClient, type Client } from '../../../src/contract/client.ts';
import { EXEC_PROTOCOL, TERMINAL_PROTOCOL } from '../../../src/contract/compute/exec.ts';
import { routes } from '../../../src/contract/routes.ts';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { openTempStore } from '../../fixtures/store.ts';
import { startEdge, type BareApi } from './harness.ts';

export interface Person {
  token: string;
  client: Client;
  /** Launches an instance and waits until it runs. */
  launch(): Promise<string>;
  /** The same account with another login. */
  another(): Promise<Person>;
}

export interface ExecFixture {
  world: World;
  api: BareApi;
  admin: Person;
  another(name: string): Promise<Person>;
}

export async function execFixture(options: WorldOptions = {}, more: Partial<ApiOptions> = {}): Promise<ExecFixture> {
  const { store, remove } = await openTempStore();
  onTestFinished(remove);
  const world = await makeWorld(store, {
    machine: { cpuCores: 64, memoryMiB: 200 * 1024, architecture: 'amd64', gpus: [] },
    ...options,
  });
  const api = await startEdge(world.running.control, more);
  onTestFinished(() => api.stop());
  const person = async (username: string, password: string): Promise<Person> => {
    const { accessToken: token } = await makeClient({ baseUrl: api.baseUrl }).login({ username, password });
    const client = makeClient({ baseUrl: api.baseUrl, credential: { kind: 'token', token } });
    return {
      token,
      client,
      another: () => person(username, password),
      async launch() {
        const { instanceId } = await client.launch(world.launchInput());
        await world.until(instanceId, hasStatus('Running'));
        return instanceId;
      },
    };
  };
  return {
    world,
    api,
    admin: await person('admin', 'correct horse'),
    async another(name) {
      await world.account(name);
      return person(name, 'battery staple');
    },
  };
}

export interface Refused {
  status: number;
  text: string;
  code: string | undefined;
}

export class RefusedUpgrade extends Error {
  readonly refused: Refused;
  constructor(refused: Refused) {
    super(`${refused.status} ${refused.text}`);
    this.refused = refused;
  }
}

/**
 * Opens a WebSocket and attaches the reader before its first message; rejects with a
 * `RefusedUpgrade`.
 */
export async function openSocket<Reader>(
  port: number,
  path: string,
  { protocol, headers = {} }: { protocol: string; headers?: Record<string, string> },
  read: (socket: WebSocket) => Reader,
): Promise<Reader> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocol, { headers, perMessageDeflate: false });
  onTestFinished(() => socket.terminate());
  const reader = read(socket);
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
    socket.once('unexpected-response', (_request, reply: IncomingMessage) => {
      const chunks: Buffer[] = [];
      reply.on('data', (chunk: Buffer) => chunks.push(chunk));
      reply.on('end', () => {
        const code = reply.headers['x-error-code'];
        const text = Buffer.concat(chunks).toString();
        reject(
          new RefusedUpgrade({
            status: reply.statusCode ?? 0,
            text,
            code: typeof code === 'string' ? code : undefined,
          }),
        );
      });
    });
  });
  socket.on('error', () => {});
  return reader;
}

export const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

const queryOf = (query: Record<string, string | number | boolean | readonly string[]>): string =>
  new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) =>
      (typeof value === 'object' ? value : [String(value)]).map((one): [string, string] => [name, one]),
    ),
  ).toString();

export interface ExecSocket {
  socket: WebSocket;
  /** Bytes received on a channel so far. */
  on(channel: number): Buffer;
  send(channel: number, data?: string | Uint8Array): void;
  closed: Promise<{ code: number; why: string }>;
}

export interface Asking {
  token?: string;
  headers?: Record<string, string>;
  protocol?: string;
}

export async function openExec(
  port: number,
  query: Record<string, string | number | boolean | readonly string[]>,
  { token, headers, protocol = EXEC_PROTOCOL }: Asking,
): Promise<ExecSocket> {
  const path = `/api${routes.openExec.path}?${queryOf(query)}`;
  return openSocket(port, path, { protocol, headers: headers ?? bearer(token ?? '') }, readExec);
}

function readExec(socket: WebSocket): ExecSocket {
  const chunksByChannel = new Map<number, Buffer[]>();
  socket.on('message', (data: Buffer) => {
    const channel = data[0] ?? -1;
    chunksByChannel.set(channel, [...(chunksByChannel.get(channel) ?? []), data.subarray(1)]);
  });
  return {
    socket,
    on: (channel) => Buffer.concat(chunksByChannel.get(channel) ?? []),
    send: (channel, data = '') => socket.send(Buffer.concat([Buffer.of(channel), Buffer.from(data)])),
    closed: closeOf(socket),
  };
}

export interface TerminalSocket {
  socket: WebSocket;
  /** The screen since the last reset. */
  shown(): string;
  /** Text messages, parsed. */
  messages: Record<string, unknown>[];
  type(text: string): void;
  resize(columns: number, rows: number): void;
  closed: Promise<{ code: number; why: string }>;
  waitForText(text: string | RegExp): Promise<void>;
}

export async function openTerminal(
  port: number,
  query: Record<string, string | number>,
  { token, headers, protocol = TERMINAL_PROTOCOL }: Asking,
): Promise<TerminalSocket> {
  const path = `/api${routes.openTerminal.path}?${queryOf(query)}`;
  return openSocket(port, path, { protocol, headers: headers ?? bearer(token ?? '') }, readTerminal);
}

const MAX_SHOWN_CHARS = 1024 * 1024;

function readTerminal(socket: WebSocket): TerminalSocket {
  let shown = '';
  const messages: Record<string, unknown>[] = [];
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) return void (shown = (shown + data.toString()).slice(-MAX_SHOWN_CHARS));
    const one: Record<string, unknown> = JSON.parse(data.toString());
    messages.push(one);
    if (one['type'] === 'reset') shown = '';
  });
  return {
    socket,
    messages,
    shown: () => shown,
    type: (text) => socket.send(Buffer.from(text)),
    resize: (columns, rows) => socket.send(JSON.stringify({ type: 'resize', columns, rows })),
    closed: closeOf(socket),
    waitForText: (text) =>
      eventually(
        () => (typeof text === 'string' ? shown.includes(text) : text.test(shown)),
        () => JSON.stringify(shown.slice(-2_000)),
      ),
  };
}

const closeOf = (socket: WebSocket): Promise<{ code: number; why: string }> =>
  new Promise((resolve) => socket.once('close', (code, reason) => resolve({ code, why: reason.toString() })));
