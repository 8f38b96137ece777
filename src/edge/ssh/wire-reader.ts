/** Reads fields of the ssh protocol (RFC 4251 §5). Throws where the data ends early. */
export interface WireReader {
  bytes(): Buffer;
  text(): string;
  uint32(): number;
  uint64(): bigint;
  /** Bytes read so far. */
  readonly at: number;
  readonly isEnd: boolean;
}

export function readerOf(whole: Buffer): WireReader {
  let position = 0;
  const skip = (length: number): number => {
    const from = position;
    if (from + length > whole.length) throw new Error('the data is incomplete');
    position += length;
    return from;
  };
  const uint32 = (): number => whole.readUInt32BE(skip(4));
  const bytes = (): Buffer => {
    const length = uint32();
    const from = skip(length);
    return whole.subarray(from, from + length);
  };
  return {
    bytes,
    text: () => bytes().toString('latin1'),
    uint32,
    uint64: () => whole.readBigUInt64BE(skip(8)),
    get at() {
      return position;
    },
    get isEnd() {
      return position === whole.length;
    },
  };
}

/** A string: its length in 4 bytes, then its bytes. */
export function wireField(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
