/**
 * Serves ssh for one instance whose image has no sshd: joins its network and listens on port 22.
 * After a stop or restart of the instance it reconnects with back-off.
 */
import { retry } from '../../async/retry.ts';
import { untilAborted, withDeadline } from '../../async/abort.ts';
import ssh2, { type Connection } from 'ssh2';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Forwarding, SshBackend, Log } from '../../control/index.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import { SSH_PORT } from '../../domain/ports.ts';
import { makeAgent } from './agent.ts';
import { hangUpCommand } from './commands.ts';
import { makeClient, type Client } from './client.ts';
import type { UnauthenticatedConnections } from './unauthenticated.ts';
import { serveForwards } from './forwards.ts';
import type { InstanceNetwork, NetworkConnection } from './instance-driver.ts';
import type { BufferedBytes } from './buffered-bytes.ts';
import { authenticate } from './login.ts';
import { makeLimit, makeTokenBucket, type KeyedLimit, type RateLimit } from '../../async/limits.ts';
import { serveSession } from './session.ts';
import { forgetSession } from './ssh2-inside.ts';

const JOIN_MS = 30_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;
const MOST_CLIENTS = 128;
const MOST_COMMANDS = 256;
const MOST_CHANNELS = 1_024;
/** Keeps the identity cached for times when the API is away. */
const ASK_AGAIN_MS = 60_000;
const GOODBYE_MS = 500;

export interface FrontDeps {
  id: InstanceId;
  backend: SshBackend;
  access: Forwarding['ssh'];
  unauthenticated: UnauthenticatedConnections;
  limit: KeyedLimit;
  buffered: BufferedBytes;
  limits: FrontLimits;
  log: Log;
}

export interface FrontLimits {
  /** Deadline of the login. A person may have to find a security key. */
  loginMs: number;
  /** Limits new connections: a key exchange blocks the process for a millisecond. */
  connectionRate: RateLimit;
  /** Interval and number of keep-alive probes before a silent client is disconnected. */
  keepaliveMs: number;
  keepalives: number;
}

export const frontLimits: FrontLimits = {
  loginMs: 120_000,
  connectionRate: { burst: 200, perSecond: 50 },
  // Same as the sshd settings in `images/start.sh`.
  keepaliveMs: 60_000,
  keepalives: 60,
};

export interface Front {
  /** Disconnects clients whose key was deleted. */
  check(): Promise<void>;
  stop(): Promise<void>;
}

const algorithms = {
  kex: ['curve25519-sha256', 'curve25519-sha256@libssh.org', 'ecdh-sha2-nistp256', 'diffie-hellman-group14-sha256'],
  cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'aes256-ctr', 'aes128-ctr'],
  hmac: ['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-512-etm@openssh.com', 'hmac-sha2-256', 'hmac-sha2-512'],
  compress: ['none'],
} satisfies ConstructorParameters<typeof ssh2.Server>[0]['algorithms'];

/** Normal end of a run. */
class RunEnded extends Error {}

export function startFront(deps: FrontDeps): Front {
  const { id, backend, access, unauthenticated, limits, log } = deps;
  const ending = new AbortController();
  const buffered = deps.buffered.forInstance();
  const share = () => deps.limit.tryAcquire(id);
  const acquireClient = makeLimit(MOST_CLIENTS, share);
  const acquireChannel = makeLimit(MOST_CHANNELS, share);
  const acquireCommand = makeLimit(MOST_COMMANDS, share);
  const takeToken = makeTokenBucket(limits.connectionRate, () => performance.now());
  /** Key of each logged-in client. */
  const known = new Map<Client, string>();
  let askedAtMs = -Infinity;

  const welcome = (network: InstanceNetwork, ssh: Connection, toldApart: () => void): void => {
    const client = makeClient({ ssh, log, instanceId: id, buffered, acquireChannel });
    const agent = makeAgent(client, backend, id);
    client.gone.addEventListener('abort', () => known.delete(client), { once: true });
    authenticate({
      client,
      access: () => access(id),
      onLogin(key) {
        const over = acquireClient();
        if (over === null) return client.end('the instance, or all of them together, have too many ssh connections');
        client.gone.addEventListener('abort', over, { once: true });
        known.set(client, key);
        toldApart();
      },
    });
    ssh.once('ready', () => {
      serveForwards(client, network);
      ssh.on('session', (accept, reject) => {
        const over = client.tryAcquire();
        if (over === null) return reject();
        const session = accept();
        session.once('close', () => {
          forgetSession(ssh, session);
          over();
        });
        const connection = connectionOf(ssh._sock);
        serveSession({ client, agent, session, connection, backend, id, log, tryAcquire: acquireCommand });
      });
    });
  };

  /** Serves until the current run of the instance ends. */
  async function serve(signal: AbortSignal): Promise<void> {
    const identity = await access(id);
    if (identity === null) throw new Error('the instance is gone');
    askedAtMs = performance.now();
    const network = await backend.joinNetwork(id, withDeadline(signal, JOIN_MS));
    const sockets = new Map<Duplex, () => void>();
    const settings = { keepaliveInterval: limits.keepaliveMs, keepaliveCountMax: limits.keepalives };
    const server = new ssh2.Server({ hostKeys: [identity.hostKey], ident: 'Berth', algorithms, ...settings });
    server.on('connection', (ssh) => {
      const toldApart = sockets.get(ssh._sock);
      if (toldApart) welcome(network, ssh, toldApart);
      else ssh._sock.destroy();
    });
    const arrived = (socket: NetworkConnection): void => {
      socket.on('error', () => {});
      if (!takeToken()) return void socket.destroy();
      const close = (): void => void socket.destroy();
      const late = setTimeout(close, limits.loginMs);
      const forget = unauthenticated.add({ instanceId: id, address: socket.remoteAddress ?? '', close });
      const toldApart = (): void => {
        clearTimeout(late);
        forget();
      };
      sockets.set(socket, toldApart);
      // A half-open connection is useless.
      socket.once('end', close);
      socket.once('close', () => {
        sockets.delete(socket);
        toldApart();
      });
      server.injectSocket(socket);
    };
    try {
      const listening = await network.listen({ host: '', port: SSH_PORT }, arrived, withDeadline(signal, JOIN_MS));
      log.info({ id }, 'serves ssh for an instance without sshd');
      hangUpLeftBehind(signal);
      await Promise.race([network.ended, untilAborted(signal)]);
      listening.close();
      for (const client of known.keys()) client.ssh.end();
      if (signal.aborted && known.size > 0) await sleep(GOODBYE_MS);
    } finally {
      for (const socket of sockets.keys()) socket.destroy();
      network.close();
    }
  }

  /** Hangs up terminals that a killed gateway process left behind. */
  function hangUpLeftBehind(signal: AbortSignal): void {
    backend.exec(id, hangUpCommand, withDeadline(signal, JOIN_MS)).catch((error: unknown) => {
      if (!signal.aborted) log.debug({ id, err: error }, 'could not look for terminals that were left behind');
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

  let loggedMessage = '';
  /** Logs a repeated failure once. */
  function logFailure(error: unknown): void {
    if (error instanceof RunEnded) return;
    const message = error instanceof Error ? error.message : String(error);
    const level = error instanceof EngineFault && error.kind === 'not_found' ? 'debug' : 'warn';
    if (message !== loggedMessage) log[level]({ id, err: error }, 'ssh cannot be served for an instance; retrying');
    loggedMessage = message;
  }
  const keeping = retry(serveRun, {
    signal: ending.signal,
    firstMs: FIRST_PAUSE_MS,
    maxMs: LONGEST_PAUSE_MS,
    onError: logFailure,
  });

  return {
    async check() {
      if (known.size === 0 && performance.now() - askedAtMs < ASK_AGAIN_MS) return;
      const identity = await access(id);
      askedAtMs = performance.now();
      for (const [client, key] of known)
        if (identity === null || !identity.keys.includes(key)) client.end('its key was deleted');
    },
    async stop() {
      ending.abort();
      await keeping;
    },
  };
}

/** Value of SSH_CONNECTION; an unknown port is 0. */
function connectionOf(socket: Connection['_sock']): string {
  const of = (name: string): string => {
    const value: unknown = Reflect.get(socket, name);
    return typeof value === 'string' || typeof value === 'number' ? String(value).replace(/^::ffff:/, '') : '';
  };
  const [from, to] = [of('remoteAddress') || '0.0.0.0', of('localAddress') || '0.0.0.0'];
  return `${from} ${of('remotePort') || '0'} ${to} ${of('localPort') || SSH_PORT}`;
}
