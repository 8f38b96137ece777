/**
 * Ssh fronts before local drivers: the instance's network is loopback with mapped ports, and
 * commands run locally by `/bin/sh`. Clients are ssh2's.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { Client, utils, type ConnectConfig } from 'ssh2';
import type { GatewayRoute, SshBackend } from '../../../src/control/index.ts';
import type { SshIdentity, SshLogin } from '../../../src/control/access/routing/gateway-types.ts';
import { makeSshHostKeys } from '../../../src/control/access/routing/ssh-host-key.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import { makeSshFronts, type SshFronts, type SshFrontsDeps } from '../../../src/edge/ssh/fronts.ts';
import { ALICE, idOf, onCleanup } from './harness.ts';

const hostKeys = makeSshHostKeys(new Uint8Array(32).fill(7));

export interface KeyPair {
  private: string;
  /** Base64 of the public key, as stored. */
  blob: string;
}

/** Ed25519, by Node: ssh2 sometimes generates malformed keys. */
export function keyPair(): KeyPair {
  const text = makeSshHostKeys(randomBytes(32))('key');
  const key = utils.parseKey(text);
  if (key instanceof Error) throw key;
  return { private: text, blob: key.getPublicSSH().toString('base64') };
}

export interface FakeExec {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  terminal: { columns: number; rows: number } | null;
  resizes: { columns: number; rows: number }[];
}

export interface SshFixture {
  id: InstanceId;
  fronts: SshFronts;
  identity: SshIdentity;
  /** Local port mapped to the instance's port 22. */
  port(): number;
  /** Serves another instance, at `port()` from then on. */
  serve(digit: string, ownerId?: string): Promise<void>;
  /** Ends the run of the instance. */
  endRun(): void;
  execs: FakeExec[];
  /** Delivered signals, by process; local processes receive them for real. */
  signals: string[];
  /** Connections that the front holds open. */
  accepted: Set<Socket>;
  asked: { count: number };
  logged: string[];
  recorded: SshLogin[];
  login(key: KeyPair, more?: ConnectConfig): Promise<Client>;
}

const route = (instanceId: InstanceId, sshFront: boolean, ownerId: string): GatewayRoute => ({
  instanceId,
  regionId: 'own',
  ownerId,
  access: new Map(),
  nodePorts: new Map(),
  running: true,
  status: 'Running',
  notebookToken: '',
  sshFront,
  notebook: null,
  wake: 'off',
});

export const routeUpdate = (id: InstanceId, sshFront: boolean, ownerId = ALICE) => ({
  snapshot: null,
  routes: [route(id, sshFront, ownerId)],
  gone: [],
});

export async function openFixture(
  keys: KeyPair[],
  more: Partial<SshFrontsDeps> & { digit?: string; openExec?: SshBackend['openExec'] } = {},
): Promise<SshFixture> {
  const id = idOf(more.digit ?? '1');
  const execs: FakeExec[] = [];
  const signals: string[] = [];
  const accepted = new Set<Socket>();
  const logged: string[] = [];
  const asked = { count: 0 };
  const recorded: SshLogin[] = [];
  const identity: SshIdentity = {
    account: { accountId: ALICE, username: 'alice' },
    hostKey: hostKeys(id),
    keys: keys.map(({ blob }) => blob),
    authorities: [],
    principals: ['root', 'alice'],
  };
  let port = 0;
  let run = Promise.withResolvers<void>();
  const children = new Set<number>();

  const backend: SshBackend = {
    async joinNetwork() {
      const servers = new Set<Server>();
      const { promise: ended } = run;
      return {
        async connect(at, signal) {
          const socket = connect({ host: '127.0.0.1', port: at.port, allowHalfOpen: true });
          try {
            await once(socket, 'connect', { signal });
          } catch (cause) {
            socket.destroy();
            throw new EngineFault('busy', 'nothing listens there', { retry: true, cause });
          }
          return socket;
        },
        async listen(at, onConnection) {
          const server = createServer({ allowHalfOpen: true }, (socket) => {
            accepted.add(socket.once('close', () => accepted.delete(socket)));
            onConnection(socket);
          });
          servers.add(server);
          server.listen(at.port === 22 ? 0 : at.port, '127.0.0.1');
          await once(server, 'listening');
          const address = server.address();
          if (address === null || typeof address === 'string') throw new Error('no port');
          if (at.port === 22) port = address.port;
          return { port: at.port === 22 ? 22 : address.port, close: () => void server.close() };
        },
        ended,
        close() {
          for (const server of servers) server.close();
        },
      };
    },
    async listenUnix(_id, onConnection) {
      const path = join(tmpdir(), `berth-agent-${process.pid}-${Math.random().toString(36).slice(2)}`);
      const server = createServer({ allowHalfOpen: true }, onConnection).listen(path);
      await once(server, 'listening');
      return { pathInside: path, close: () => void server.close() };
    },
    openExec:
      more.openExec ??
      (async (_id, { command, env, terminal }) => {
        const exec: FakeExec = { command, env, terminal, resizes: [] };
        execs.push(exec);
        const [program = '', ...args] = command;
        // Then bash does not read the ~/.bashrc of the host's user, which may wait for a lock.
        const own = { PATH: '/usr/bin:/bin', SHLVL: '5' };
        const child = spawn(program, args, { env: { ...own, ...env }, detached: true });
        const { pid = 0 } = child;
        children.add(pid);
        const streams = { stdout: child.stdout.pipe(new PassThrough()), stderr: child.stderr.pipe(new PassThrough()) };
        child.stdin.on('error', () => {});
        const exited = new Promise<number>((resolve) => {
          child.once('close', (code, signal) => {
            children.delete(pid);
            resolve(code ?? 128 + (constants.signals[signal ?? 'SIGKILL'] ?? 0));
          });
        });
        return {
          stdin: child.stdin,
          ...streams,
          resize: async (size) => void exec.resizes.push(size),
          exited,
          kill: async () => void process.kill(-pid, 'SIGKILL'),
        };
      }),
    async exec(_id, command) {
      const [program = '', ...args] = command;
      const [signal = '', pid = ''] = args.slice(3);
      if (signal !== '') signals.push(`${signal} ${pid}`);
      if (!children.has(Number(pid))) return { exitCode: 0, stdout: '', stderr: '' };
      const child = spawn(program, args, { stdio: 'ignore' });
      const [exitCode]: number[] = await once(child, 'close');
      return { exitCode: exitCode ?? -1, stdout: '', stderr: '' };
    },
  };
  const log = {
    debug: () => {},
    info: () => {},
    warn: (_facts: object, text: string) => void logged.push(text),
    error: (_facts: object, text: string) => void logged.push(text),
  };
  const access = async (asking: string): Promise<SshIdentity | null> => {
    asked.count += 1;
    return asking === id || more.digit === undefined ? { ...identity } : null;
  };
  const fronts = makeSshFronts({
    backend,
    access,
    recordLogin: async (login) => void recorded.push(login),
    log,
    files: 8_192,
    ...more,
  });
  const clients = new Set<Client>();
  onCleanup(async () => {
    for (const client of clients) client.destroy();
    await fronts.stop();
    for (const pid of children) process.kill(-pid, 'SIGKILL');
  });
  const serve = async (digit: string, ownerId = ALICE): Promise<void> => {
    port = 0;
    fronts.update(routeUpdate(idOf(digit), true, ownerId));
    while (port === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await serve(more.digit ?? '1');

  return {
    id,
    fronts,
    identity,
    port: () => port,
    serve,
    endRun() {
      const before = run;
      run = Promise.withResolvers<void>();
      port = 0;
      before.resolve();
    },
    execs,
    signals,
    accepted,
    asked,
    logged,
    recorded,
    async login(key, config = {}) {
      const client = new Client();
      clients.add(client);
      client.on('error', () => {});
      const into = { host: '127.0.0.1', port, username: 'root', privateKey: key.private };
      const failed = once(client, 'error').then(([error]: Error[]) => {
        throw error ?? new Error('no reason');
      });
      client.connect({ ...into, ...config });
      await Promise.race([
        once(client, 'ready'),
        failed,
        once(client, 'close').then(() => Promise.reject(new Error('closed'))),
      ]);
      return client;
    },
  };
}

export interface Ran {
  code: number | null;
  signal: string | null;
  stdout: Buffer;
  stderr: string;
}

/** Runs a command to completion, with this stdin. */
export async function run(client: Client, command: string, stdin: Buffer = Buffer.alloc(0)): Promise<Ran> {
  const { promise, resolve, reject } = Promise.withResolvers<Ran>();
  client.exec(command, (error, channel) => {
    if (error) return reject(error);
    const stdout: Buffer[] = [];
    let stderr = '';
    const ran: Pick<Ran, 'code' | 'signal'> = { code: null, signal: null };
    channel.on('data', (bytes: Buffer) => stdout.push(bytes));
    channel.stderr.on('data', (bytes: Buffer) => (stderr += bytes.toString()));
    channel.on('exit', (code: number | null, signal?: string) => Object.assign(ran, { code, signal: signal ?? null }));
    channel.on('close', () => resolve({ ...ran, stdout: Buffer.concat(stdout), stderr }));
    channel.end(stdin);
  });
  return promise;
}
