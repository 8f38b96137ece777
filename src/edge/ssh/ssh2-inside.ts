/**
 * What of ssh2 (1.17.0) lies behind its own interface and is reached for all the same, each with its reason. Another version of it has to be
 * read again at these places.
 */
import type { Duplex } from 'node:stream';
import type { Connection, ServerChannel, Session } from 'ssh2';

interface Outgoing {
  /** Of the client's own choosing: with 0, ssh2 would write for ever. */
  packetSize: number;
  /** Once it is not open, ssh2 keeps what is written, and never says that it was. */
  state: 'open' | 'eof' | 'closing' | 'closed';
}

declare module 'ssh2' {
  interface Server {
    /** It needs no more than a stream. */
    injectSocket(socket: Duplex): void;
  }
  interface Connection {
    /** The connection as it was handed over: by that it is known again. */
    _sock: Duplex;
    _protocol: {
      /** Set while keys are exchanged: what is sent then is kept, without bound. */
      _kexinit: unknown;
      openssh_authAgent(channel: number, windowBytes: number, packetBytes: number): void;
    };
    _chanMgr: { add(opened: ChannelOpened): number; remove(channel: number): void };
  }
  interface Session {
    _chanInfo: { incoming: { id: number } };
    _channel: unknown;
  }
  interface Channel {
    /** What did not fit into the client's window. It is not taken off once it is written, and would be written again after the next block. */
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

/** As ssh2 has them for all its channels. */
const WINDOW_BYTES = 2 * 1024 * 1024;
const PACKET_BYTES = 32 * 1024;
const AGENT = 'auth-agent@openssh.com';

/** Opens a channel to the client's agent: ssh2 has the message for it, and no call. */
export function openAgentChannel(client: Connection, opened: (channel: ServerChannel | null) => void): void {
  const told: ChannelOpened = Object.assign(
    (error: Error | undefined, channel: ServerChannel) => opened(error ? null : channel),
    { type: AGENT },
  );
  const channel = client._chanMgr.add(told);
  if (channel === -1) return opened(null);
  client._protocol.openssh_authAgent(channel, WINDOW_BYTES, PACKET_BYTES);
}

const isOutgoing = (value: unknown): value is Outgoing =>
  typeof value === 'object' && value !== null && 'packetSize' in value && 'state' in value;

export function outgoingOf({ outgoing }: ServerChannel): Outgoing {
  if (!isOutgoing(outgoing)) throw new Error('this version of ssh2 keeps its channels in another way');
  return outgoing;
}

export const isExchangingKeys = (client: Connection): boolean => client._protocol._kexinit !== undefined;

/** To be called when a client closes a session: ssh2 keeps those that nothing was begun in. */
export function forgetSession(client: Connection, session: Session): void {
  if (session._channel === undefined) client._chanMgr.remove(session._chanInfo.incoming.id);
}

/** To be called when a write of the channel is done. */
export function forgetWritten(channel: ServerChannel): void {
  channel._chunk = channel._chunkcb = channel._chunkErr = channel._chunkcbErr = undefined;
}
