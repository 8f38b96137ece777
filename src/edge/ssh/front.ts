/**
 * Serves ssh for one instance whose image has no sshd: joins its network and listens on port 22.
 * After a stop or restart of the instance it reconnects with back-off.
 */
import { retry } from '../../async/retry.ts';
import { onAbort, untilAborted, withDeadline } from '../../async/abort.ts';
import ssh2, { type Connection } from 'ssh2';
import { createHash } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Forwarding, InstanceNetwork, SshBackend, SshLogin, Log } from '../../control/index.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import { SSH_PORT } from '../../domain/access/port-access.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import { withoutMapping } from '../address-list.ts';
import { hangUpCommand } from './session-commands.ts';
import { makeSshClient, type SshClient } from './ssh-client.ts';
import type { UnauthenticatedConnections } from './unauthenticated.ts';
import { makeAgent, serveForwards, type NetworkConnection } from './forwards.ts';
import type { BufferedBytes } from './buffered-bytes.ts';
import { authenticate } from './login.ts';
import { makeLimit, makeTokenBucket, type TryAcquire } from '../../async/limits.ts';
import { answerMlkem, isSupportedKex, MLKEM } from './post-quantum.ts';
import { serveSession } from './session.ts';
import { forgetSession } from './ssh2-inside.ts';

const JOIN_MS = 30_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;
const MAX_CLIENTS = 128;
const MAX_COMMANDS = 256;
const MAX_CHANNELS = 1_024;
/** Keeps the identity cached for times when the API is away. */
const RECHECK_MS = 60_000;
const GOODBYE_MS = 500;

/** Limits all instances of an account together. False: none left. */
export interface AccountRates {
  takeConnection: () => boolean;
  takeExchange: () => boolean;
}

export interface FrontDeps {
  id: InstanceId;
  account: AccountRates & { tryAcquire: TryAcquire };
  backend: SshBackend;
  access: Forwarding['ssh'];
  recordLogin: Forwarding['recordSshLogin'];
  unauthenticated: UnauthenticatedConnections;
  buffered: BufferedBytes;
  limits: FrontLimits;
  log: Log;
}

export const frontLimits = {
  /** Deadline of the login. A person may have to find a security key. */
  loginMs: 120_000,
  /** A login takes the process four milliseconds, and a further exchange of keys two. */
  connectionRate: { burst: 200, perSecond: 25 },
  accountConnectionRate: { burst: 400, perSecond: 50 },
  accountExchangeRate: { burst: 100, perSecond: 10 },
  /**
   * Interval and number of keep-alive probes before a silent client is disconnected. Same as the
   * sshd settings in `images/start.sh`.
   */
  keepaliveMs: 60_000,
  keepalives: 60,
};

export type FrontLimits = typeof frontLimits;

export interface Front {
  /** Disconnects clients whose key was deleted. */
  check(): Promise<void>;
  stop(): Promise<void>;
}

const kex = [
  MLKEM,
  'curve25519-sha256',
  'curve25519-sha256@libssh.org',
  'ecdh-sha2-nistp256',
  'diffie-hellman-group14-sha256',
].filter(isSupportedKex);

const algorithms = {
  kex,
  cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'aes256-ctr', 'aes128-ctr'],
  hmac: ['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-512-etm@openssh.com', 'hmac-sha2-256', 'hmac-sha2-512'],
  compress: ['none'],
} satisfies ConstructorParameters<typeof ssh2.Server>[0]['algorithms'];

class RunEnded extends Error {}

export function startFront(deps: FrontDeps): Front {
  const { id, backend, access, limits, log } = deps;
  const ending = new AbortController();
  const clients = makeClients(deps);
  const takeOwn = makeTokenBucket(limits.connectionRate, () => performance.now());
  const takeToken = (): boolean => takeOwn() && deps.account.takeConnection();
  let identityReadAtMs = -Infinity;

  /** Serves until the current run of the instance ends. */
  async function serve(signal: AbortSignal): Promise<void> {
    const identity = await access(id);
    if (identity === null) throw new Error('the instance is gone');
    identityReadAtMs = performance.now();
    const network = await backend.joinNetwork(id, withDeadline(signal, JOIN_MS));
    const settings = { keepaliveInterval: limits.keepaliveMs, keepaliveCountMax: limits.keepalives };
    const server = new ssh2.Server({ hostKeys: [identity.hostKey], ident: 'Berth', algorithms, ...settings });
    const sockets = makeSockets(deps, takeToken);
    server.on('connection', (ssh, { header }) => {
      answerMlkem(ssh, kex);
      const onLogin = sockets.onLoginOf(ssh._sock);
      if (onLogin) clients.add(network, ssh, { onLogin, program: header.identRaw });
      else ssh._sock.destroy();
    });
    const onConnection = (socket: NetworkConnection): void => {
      if (sockets.accept(socket)) server.injectSocket(socket);
    };
    try {
      const listening = await network.listen({ host: '', port: SSH_PORT }, onConnection, withDeadline(signal, JOIN_MS));
      log.info({ id }, 'serves ssh for an instance without sshd');
      hangUpLeftBehind(signal);
      await Promise.race([network.ended, untilAborted(signal)]);
      listening.close();
      for (const client of clients.loggedIn.keys()) client.ssh.end();
      if (signal.aborted && clients.loggedIn.size > 0) await sleep(GOODBYE_MS);
    } finally {
      sockets.destroyAll();
      network.close();
    }
  }

  /** Hangs up terminals that a killed gateway process left behind. */
  function hangUpLeftBehind(signal: AbortSignal): void {
    backend.exec(id, hangUpCommand, withDeadline(signal, JOIN_MS)).catch((error: unknown) => {
      if (!signal.aborted) log.debug({ id, err: error }, 'could not search for orphaned terminals');
    });
  }

  /** Resets the back-off only after a run that lasted. */
  async function serveRun(resetBackOff: () => void): Promise<never> {
    const beganMs = performance.now();
    try {
      await serve(ending.signal);
    } finally {
      if (performance.now() - beganMs > LONGEST_PAUSE_MS) resetBackOff();
    }
    throw new RunEnded();
  }

  const serving = retry(serveRun, {
    signal: ending.signal,
    firstMs: FIRST_PAUSE_MS,
    maxMs: LONGEST_PAUSE_MS,
    onError: makeFailureLog(deps),
  });

  return {
    async check() {
      if (clients.loggedIn.size === 0 && performance.now() - identityReadAtMs < RECHECK_MS) return;
      const identity = await access(id);
      identityReadAtMs = performance.now();
      for (const [client, key] of clients.loggedIn)
        if (identity === null || ![...identity.keys, ...identity.authorities].includes(key))
          client.end('the key of the login was deleted');
    },
    async stop() {
      ending.abort();
      await serving;
    },
  };
}

/** Clients of an instance: their logins, sessions and limits. */
function makeClients(deps: FrontDeps) {
  const { id, backend, access, log } = deps;
  const buffered = deps.buffered.forInstance();
  const { tryAcquire, takeExchange } = deps.account;
  const acquireClient = makeLimit(MAX_CLIENTS, tryAcquire);
  const acquireChannel = makeLimit(MAX_CHANNELS, tryAcquire);
  const acquireCommand = makeLimit(MAX_COMMANDS, tryAcquire);
  /** Key of each logged-in client. */
  const loggedIn = new Map<SshClient, string>();

  function add(network: InstanceNetwork, ssh: Connection, { onLogin, program }: NewClient): void {
    const client = makeSshClient({ ssh, log, instanceId: id, buffered, acquireChannel, takeExchange });
    const agentPath = makeAgent(client, backend, id);
    const { address, text: connection } = connectionOf(ssh._sock);
    const record = (made: Pick<SshLogin, 'account' | 'fingerprint'>): void =>
      void deps.recordLogin({ instanceId: id, ...made, address, program, atMs: Date.now() });
    onAbort(client.gone, () => loggedIn.delete(client));
    authenticate({
      client,
      access: () => access(id),
      onRefused: () => record({ account: null, fingerprint: '' }),
      onLogin(key, { account }) {
        const release = acquireClient();
        if (release === null)
          return client.end('the instance, or all instances together, have too many ssh connections');
        onAbort(client.gone, release);
        loggedIn.set(client, key);
        onLogin();
        record({ account, fingerprint: fingerprintOf(key) });
      },
    });
    ssh.once('ready', () => {
      serveForwards(client, network);
      ssh.on('session', (accept, reject) => {
        const release = client.tryAcquire();
        if (release === null) return reject();
        const session = accept();
        session.once('close', () => {
          forgetSession(ssh, session);
          release();
        });
        serveSession({ client, agentPath, session, connection, backend, id, log, tryAcquire: acquireCommand });
      });
    });
  }

  return { add, loggedIn };
}

/** Sockets of one run, each unauthenticated until its login. */
function makeSockets({ id, unauthenticated, limits }: FrontDeps, takeToken: () => boolean) {
  const sockets = new Map<Duplex, () => void>();
  return {
    onLoginOf: (socket: Duplex): (() => void) | undefined => sockets.get(socket),
    /** False above the rate limit: the socket is destroyed. */
    accept(socket: NetworkConnection): boolean {
      socket.on('error', () => {});
      if (!takeToken()) {
        socket.destroy();
        return false;
      }
      const close = (): void => void socket.destroy();
      const late = setTimeout(close, limits.loginMs);
      const forget = unauthenticated.add({ instanceId: id, address: socket.remoteAddress ?? '', close });
      const settle = (): void => {
        clearTimeout(late);
        forget();
      };
      sockets.set(socket, settle);
      // A half-open connection is useless.
      socket.once('end', close);
      socket.once('close', () => {
        sockets.delete(socket);
        settle();
      });
      return true;
    },
    destroyAll(): void {
      for (const socket of sockets.keys()) socket.destroy();
    },
  };
}

function makeFailureLog({ id, log }: FrontDeps): (error: unknown) => void {
  let loggedMessage = '';
  return (error) => {
    if (error instanceof RunEnded) return;
    const message = errorText(error);
    const level = error instanceof EngineFault && error.kind === 'not_found' ? 'debug' : 'warn';
    if (message !== loggedMessage) log[level]({ id, err: error }, 'ssh cannot be served for an instance; retrying');
    loggedMessage = message;
  };
}

interface NewClient {
  onLogin: () => void;
  program: string;
}

/** Format of `ssh-keygen -l`. */
const fingerprintOf = (key: string): string =>
  `SHA256:${createHash('sha256').update(Buffer.from(key, 'base64')).digest('base64').replace(/=+$/, '')}`;

/** `text` is the value of SSH_CONNECTION; an unknown port is 0. */
function connectionOf(socket: Connection['_sock']): { address: string; text: string } {
  const of = (name: string): string => {
    const value: unknown = Reflect.get(socket, name);
    return typeof value === 'string' || typeof value === 'number' ? withoutMapping(String(value)) : '';
  };
  const [from, to] = [of('remoteAddress') || '0.0.0.0', of('localAddress') || '0.0.0.0'];
  return { address: from, text: `${from} ${of('remotePort') || '0'} ${to} ${of('localPort') || SSH_PORT}` };
}
