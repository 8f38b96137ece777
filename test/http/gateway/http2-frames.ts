/** Raw HTTP/2 frames, for misbehaving clients. */
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect } from 'node:tls';
import type { TLSSocket } from 'node:tls';
import { onCleanup } from './harness.ts';
import type { Harness } from './harness.ts';

export const DATA = 0;
export const HEADERS = 1;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PING = 6;
export const GOAWAY = 7;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;
export const END_STREAM = 1;
export const END_HEADERS = 4;

export interface Frame {
  type: number;
  flags: number;
  stream: number;
  payload: Buffer;
}

export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};

/** Header block without compression. */
export function block(fields: readonly (readonly [string, string])[]): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of fields) {
    parts.push(Buffer.from([0]), sized(name), sized(value));
  }
  return Buffer.concat(parts);
}

function sized(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const length = [127];
  let rest = bytes.length - 127;
  for (; rest >= 128; rest >>= 7) length.push((rest & 127) | 128);
  return Buffer.concat([Buffer.from([...length, rest]), bytes]);
}

export const get = (path: string, more: readonly (readonly [string, string])[] = []): Buffer =>
  block([[':method', 'GET'], [':scheme', 'https'], [':path', path], [':authority', 'gw.test'], ...more]);

export interface RawClient {
  socket: TLSSocket;
  /** Received frames, without acknowledgements. */
  frames: Frame[];
  /** Closed by the gateway; this side stays open. */
  closed: boolean;
}

/** Connects; if `polite`, exchanges and acknowledges settings. */
export async function rawClient(harness: Harness, polite = true): Promise<RawClient> {
  const socket = connect({
    socket: connectTcp({ port: harness.port, host: '127.0.0.1', allowHalfOpen: true }),
    rejectUnauthorized: false,
    ALPNProtocols: ['h2'],
  });
  const client: RawClient = { socket, frames: [], closed: false };
  onCleanup(async () => void socket.destroy());
  socket.on('error', () => {});
  socket.on('end', () => (client.closed = true));
  socket.on('close', () => (client.closed = true));
  let pending = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 9) {
      const length = pending.readUIntBE(0, 3);
      if (pending.length < 9 + length) return;
      const [type, flags] = [pending.readUInt8(3), pending.readUInt8(4)];
      client.frames.push({ type, flags, stream: pending.readUInt32BE(5), payload: pending.subarray(9, 9 + length) });
      pending = pending.subarray(9 + length);
      if (type === SETTINGS && flags === 0 && polite) socket.write(frame(SETTINGS, 1, 0));
    }
  });
  await once(socket, 'secureConnect');
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0)]));
  return client;
}

export const resetCodeOf = (client: RawClient, stream: number): number | null =>
  client.frames.find((one) => one.type === RST_STREAM && one.stream === stream)?.payload.readUInt32BE(0) ?? null;
