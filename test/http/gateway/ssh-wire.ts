/** Fields as ssh writes them: RFC 4251, 5. */

/** A string: its length, then its bytes. */
export function field(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** A positive number. */
export function mpint(bytes: Buffer): Buffer {
  const short = bytes.subarray(bytes.findIndex((byte) => byte !== 0));
  return field((short[0] ?? 0) & 0x80 ? Buffer.concat([Buffer.from([0]), short]) : short);
}
