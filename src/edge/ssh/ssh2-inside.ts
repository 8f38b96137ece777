/**
 * Private members of ssh2 1.17.0 used here, each with its reason. `checkSsh2` fails at load when a
 * version has another shape; then read ssh2 again at these places.
 */
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { Duplex } from 'node:stream';
import ssh2, { type Connection, type ServerChannel, type Session } from 'ssh2';
import { errorText } from '../../domain/kernel/unknown-error.ts';

interface Outgoing {
  /** Chosen by the client; with 0, ssh2 would loop forever. */
  packetSize: number;
  /** Unless `open`, ssh2 buffers writes and never calls back. */
  state: 'open' | 'eof' | 'closing' | 'closed';
}

/** Members for `post-quantum.ts`. */
export interface PacketReader {
  read(payload: Buffer): Buffer;
  cleanup(): void;
}

export interface KeyExchange {
  _remoteKexinit: Buffer;
  convertPublicKey(key: Buffer): Buffer;
  computeSecret(key: Buffer): Buffer | Error;
  getPublicKey(): Buffer;
}

declare module 'ssh2' {
  interface Server {
    injectSocket(socket: Duplex): void;
  }
  interface Connection {
    /** Stream given to `injectSocket`; identifies the connection. */
    _sock: Duplex;
    _protocol: {
      /** Set during a key exchange, when writes are buffered without bound. */
      _kexinit: unknown;
      _packetRW: { read: PacketReader };
      _kex: KeyExchange | undefined;
      openssh_authAgent(channel: number, windowBytes: number, packetBytes: number): void;
    };
    _chanMgr: { add(opened: ChannelOpened): number; remove(channel: number): void };
  }
  interface Session {
    _chanInfo: { incoming: { id: number } };
    _channel: unknown;
  }
  interface Channel {
    /** Data beyond the client's window. ssh2 would send it again after the write. */
    _chunk: Buffer | undefined;
    _chunkcb: (() => void) | undefined;
    _chunkErr: Buffer | undefined;
    _chunkcbErr: (() => void) | undefined;
  }
}

interface ChannelOpened {
  (error: Error | undefined, channel: ServerChannel): void;
  type: string;
}

/** Rejects if ssh2 lacks the members used here. Channels are checked by `outgoingOf`. */
export async function checkSsh2(): Promise<void> {
  // ssh2 generates malformed Ed25519 keys at a rate of 3 in 1,000.
  const { privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'sec1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const server = new ssh2.Server({ hostKeys: [privateKey] });
  const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() });
  const connected = once(server, 'connection', { signal: AbortSignal.timeout(CHECK_MS) });
  server.injectSocket(socket);
  // ssh2 reports a connection once its client has identified itself.
  socket.push('SSH-2.0-check\r\n');
  try {
    const [connection]: unknown[] = await connected;
    const missing = missingMembers(connection);
    if (missing.length > 0) throw new Error(`it lacks ${missing.join(', ')}`);
  } catch (cause) {
    const why = errorText(cause);
    throw new Error(`This version of ssh2 differs from 1.17.0 (${why}): adapt src/edge/ssh/ssh2-inside.ts.`, { cause });
  } finally {
    socket.destroy();
  }
}

export function missingMembers(connection: unknown): string[] {
  const at = (value: unknown, name: string): unknown =>
    typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  const [protocol, channels] = [at(connection, '_protocol'), at(connection, '_chanMgr')];
  const members = {
    _sock: typeof at(connection, '_sock') === 'object',
    '_protocol._kexinit': typeof protocol === 'object' && protocol !== null && '_kexinit' in protocol,
    '_protocol._packetRW.read.read': typeof at(at(at(protocol, '_packetRW'), 'read'), 'read') === 'function',
    '_protocol.openssh_authAgent': typeof at(protocol, 'openssh_authAgent') === 'function',
    '_chanMgr.add': typeof at(channels, 'add') === 'function',
    '_chanMgr.remove': typeof at(channels, 'remove') === 'function',
  };
  return Object.entries(members).flatMap(([name, isThere]) => (isThere ? [] : [name]));
}

/** Same as ssh2 for all its channels. */
const WINDOW_BYTES = 2 * 1024 * 1024;
const PACKET_BYTES = 32 * 1024;
const CHECK_MS = 10_000;
const AGENT = 'auth-agent@openssh.com';

export function openAgentChannel(client: Connection, opened: (channel: ServerChannel | null) => void): void {
  const callback: ChannelOpened = Object.assign(
    (error: Error | undefined, channel: ServerChannel) => opened(error ? null : channel),
    { type: AGENT },
  );
  const channel = client._chanMgr.add(callback);
  if (channel === -1) return opened(null);
  client._protocol.openssh_authAgent(channel, WINDOW_BYTES, PACKET_BYTES);
}

const isOutgoing = (value: unknown): value is Outgoing =>
  typeof value === 'object' && value !== null && 'packetSize' in value && 'state' in value;

export function outgoingOf(channel: ServerChannel): Outgoing {
  const { outgoing } = channel;
  if (!isOutgoing(outgoing) || !('_chunk' in channel))
    throw new Error('This version of ssh2 has other channels than 1.17.0: adapt src/edge/ssh/ssh2-inside.ts to it.');
  return outgoing;
}

export const isExchangingKeys = (client: Connection): boolean => client._protocol._kexinit !== undefined;

/** Call when a client closes a session: ssh2 leaks sessions in which nothing was started. */
export function forgetSession(client: Connection, session: Session): void {
  if (session._channel === undefined) client._chanMgr.remove(session._chanInfo.incoming.id);
}

/** Call after each completed write of the channel. */
export function forgetWritten(channel: ServerChannel): void {
  channel._chunk = channel._chunkcb = channel._chunkErr = channel._chunkcbErr = undefined;
}
