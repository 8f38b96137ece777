/**
 * # An engine over ssh
 *
 * One connection to the host of the engine carries everything: a channel to the engine's socket for
 * each request, and a channel to a port of an instance for each dial. It needs no program on the
 * host but sshd. The connection opens with the first use, and with the first one after a loss.
 *
 * The host's key is pinned: another key ends the connection before the user is authenticated.
 */
import { createHash } from 'node:crypto';
import { Agent } from 'node:http';
import { PassThrough, type Duplex } from 'node:stream';
import { Client, type ClientChannel, type ClientErrorExtensions } from 'ssh2';
import { raceAbort } from '../async/abort.ts';
import { ConnectionError } from './faults.ts';

export interface SshTarget {
  host: string;
  port: number;
  username: string;
  /** Without a passphrase. */
  privateKey: string;
  /** Public key of the host in the encoding of RFC 4253, §6.6. */
  hostKey: Buffer;
  /** Socket of the engine, on the host. */
  socketPath: string;
}

export interface SshConnection {
  /** Sends each request through a channel of its own. */
  agent: Agent;
  /** Connects from the host. Rejects with the code `ECONNREFUSED` where nothing listens. */
  connect(host: string, port: number, signal: AbortSignal): Promise<Duplex>;
  close(): void;
}

const READY_MS = 10_000;
/** A lost host is noticed after three unanswered messages. */
const KEEPALIVE_MS = 10_000;

export function openSshConnection(target: SshTarget): SshConnection {
  let current: Promise<Client> | null = null;
  let isClosed = false;

  function client(): Promise<Client> {
    if (isClosed) return Promise.reject(new ConnectionError('the connection to the container engine was closed'));
    if (current !== null) return current;
    const opening = openClient(target, () => {
      if (current === opening) current = null;
    });
    current = opening;
    opening.catch(() => {
      if (current === opening) current = null;
    });
    return opening;
  }

  const openChannel = async (
    open: (ssh: Client, done: (error: Error | undefined, channel: ClientChannel) => void) => void,
  ): Promise<ClientChannel> => {
    const ssh = await client();
    return new Promise((resolve, reject) =>
      // ssh2 throws if the connection has ended meanwhile.
      open(ssh, (error, channel) => (error ? reject(error) : resolve(channel))),
    );
  };

  return {
    agent: new ChannelAgent(() =>
      openChannel((ssh, done) => void ssh.openssh_forwardOutStreamLocal(target.socketPath, done)).catch((error) => {
        throw socketError(error, target);
      }),
    ),
    async connect(host, port, signal) {
      signal.throwIfAborted();
      const opening = openChannel((ssh, done) => void ssh.forwardOut('127.0.0.1', 0, host, port, done));
      opening.then(
        (channel) => signal.aborted && channel.destroy(),
        () => {},
      );
      const channel = await raceAbort(opening, signal).catch((error: unknown) => {
        throw refusalOf(error);
      });
      return channel.on('error', () => {});
    },
    close() {
      isClosed = true;
      current?.then(
        (ssh) => ssh.end(),
        () => {},
      );
    },
  };
}

function openClient(target: SshTarget, onEnd: () => void): Promise<Client> {
  const { host, port, username, privateKey, hostKey } = target;
  const ssh = new Client();
  let offered: Buffer | null = null;
  return new Promise((resolve, reject) => {
    ssh.on('ready', () => resolve(ssh));
    ssh.on('error', (error: Error & ClientErrorExtensions) => {
      onEnd();
      reject(openingError(error, target, offered));
    });
    ssh.on('close', () => {
      onEnd();
      reject(new ConnectionError(`the ssh connection to ${host} was closed`));
    });
    try {
      ssh.connect({
        host,
        port,
        username,
        privateKey,
        hostVerifier: (key: Buffer) => {
          offered = key;
          return key.equals(hostKey);
        },
        // The pinned key, and no other that the host has.
        algorithms: { serverHostKey: algorithmsOf(hostKey) },
        readyTimeout: READY_MS,
        keepaliveInterval: KEEPALIVE_MS,
      });
    } catch {
      reject(new ConnectionError('the private key in "credentials" cannot be read; send one without a passphrase'));
    }
  });
}

type HostKeyAlgorithm = 'ssh-ed25519' | 'ecdsa-sha2-nistp256' | 'rsa-sha2-512' | 'rsa-sha2-256';

/** RSA keys sign by newer names than their own. */
function algorithmsOf(hostKey: Buffer): HostKeyAlgorithm[] {
  const all: HostKeyAlgorithm[] = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'rsa-sha2-512', 'rsa-sha2-256'];
  const type = hostKey.toString('latin1', 4, 4 + hostKey.readUInt32BE(0));
  return all.filter((name) => (type === 'ssh-rsa' ? name.startsWith('rsa-') : name === type));
}

export const fingerprintOf = (key: Buffer): string =>
  `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;

function openingError(
  error: Error & ClientErrorExtensions,
  { host, username, hostKey }: SshTarget,
  offered: Buffer | null,
): Error {
  if (offered !== null && !offered.equals(hostKey))
    return new ConnectionError(
      `${host} has the host key ${fingerprintOf(offered)}, and "hostKey" is ${fingerprintOf(hostKey)}; check which host answers, then send its key`,
    );
  if (/no matching host key/i.test(error.message))
    return new ConnectionError(
      `${host} has no host key of the type in "hostKey", ${fingerprintOf(hostKey)}; check which host answers, then send its key`,
    );
  if (error.level === 'client-authentication')
    return new ConnectionError(`${host} denies the private key in "credentials" for the user ${username}`);
  if (error.level === 'client-timeout') return new ConnectionError(`${host} does not answer as an ssh server`);
  return new ConnectionError(`the ssh connection to ${host} does not open: ${error.message}`);
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const socketError = (error: unknown, { host, socketPath, username }: SshTarget): Error =>
  error instanceof ConnectionError
    ? error
    : new ConnectionError(
        `the user ${username} of ${host} cannot open ${socketPath} over ssh (${textOf(error)}); the engine must run, the user may open its socket, and sshd must allow AllowStreamLocalForwarding and AllowTcpForwarding`,
      );

/** sshd reports only its words. */
function refusalOf(error: unknown): unknown {
  const words = textOf(error);
  const code = /connection refused|no route to host|connect failed/i.test(words) ? 'ECONNREFUSED' : undefined;
  return code === undefined ? error : Object.assign(new Error(words), { code });
}

/** Node's agent expects a socket of the network; the channel ignores what concerns one. */
class ChannelAgent extends Agent {
  readonly #open: () => Promise<ClientChannel>;

  constructor(open: () => Promise<ClientChannel>) {
    super({ keepAlive: false });
    this.#open = open;
  }

  override createConnection(_options: unknown, done?: (error: Error | null, stream: Duplex) => void): undefined {
    this.#open().then(
      (channel) => done?.(null, asSocket(channel)),
      (error: Error) => done?.(error, new PassThrough()),
    );
  }
}

function asSocket(channel: ClientChannel): Duplex {
  const nothing = (): ClientChannel => channel;
  return Object.assign(channel, {
    setKeepAlive: nothing,
    setNoDelay: nothing,
    setTimeout: nothing,
    ref: nothing,
    unref: nothing,
    destroySoon: () => channel.end(),
  });
}
