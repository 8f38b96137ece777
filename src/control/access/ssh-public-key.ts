/**
 * Parses an OpenSSH public key to the last byte (RFC 4253 §6.6, RFC 5656 §3.1, RFC 8709 §4,
 * PROTOCOL.u2f): it becomes one line of `authorized_keys`, without options.
 */
import { Refusal } from '../../domain/kernel/refusal.ts';

export interface SshPublicKey {
  type: string;
  bits: number;
  blob: Uint8Array;
  /** Limited to 200 visible characters. */
  comment: string;
  line: string;
}

export const MIN_RSA_BITS = 3072;
const MAX_RSA_BITS = 16384;
const MAX_COMMENT_CHARACTERS = 200;

const refuse = (reason: string): never => {
  throw new Refusal('field_value', `field "publicKey" ${reason}`);
};

const EXAMPLE = 'send the one line of the .pub file, which starts with a type such as ssh-ed25519';

const refusePrivateKey = (): never =>
  refuse(
    'is a PRIVATE key. It was not stored, but it left your machine: treat it as exposed, create a new pair with ' +
      '"ssh-keygen -t ed25519", and send only the line of the new .pub file',
  );

const readerOf = (blob: Uint8Array) => {
  const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
  let position = 0;
  return {
    next(what: string): Uint8Array {
      if (position + 4 > blob.length) return refuse(`is cut short: its blob ends before the ${what}; ${EXAMPLE}`);
      const length = view.getUint32(position);
      if (length > blob.length - position - 4)
        return refuse(`is cut short: its blob ends inside the ${what}; ${EXAMPLE}`);
      const part = blob.subarray(position + 4, position + 4 + length);
      position += 4 + length;
      return part;
    },
    end(): void {
      if (position !== blob.length) refuse(`has ${blob.length - position} bytes after the end of the key; ${EXAMPLE}`);
    },
  };
};

type Reader = ReturnType<typeof readerOf>;

const asciiOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

const readEd25519 = (reader: Reader): number => {
  const point = reader.next('public key');
  if (point.length !== 32) refuse(`has an ed25519 key of ${point.length} bytes; it must have 32;  ${EXAMPLE}`);
  return 256;
};

const curveBits: Record<string, number> = { nistp256: 256, nistp384: 384, nistp521: 521 };

const readEcdsa = (reader: Reader, curve: string): number => {
  const named = asciiOf(reader.next('curve').subarray(0, 32));
  if (named !== curve)
    refuse(`names the curve ${JSON.stringify(named)} in its blob and ${curve} in its type; ${EXAMPLE}`);
  const bits = curveBits[curve] ?? 0;
  const point = reader.next('point');
  // OpenSSH reads only uncompressed points (SEC 1 §2.3.3).
  if (point.length !== 1 + 2 * Math.ceil(bits / 8) || point[0] !== 4) refuse(`has no point of ${curve}; ${EXAMPLE}`);
  return bits;
};

/** Bits of a positive, minimally encoded mpint (RFC 4251 §5); 0 for any other. */
const bitsOfPositive = (bytes: Uint8Array): number => {
  const [first, second] = bytes;
  if (first === undefined || first >= 0x80) return 0;
  if (first !== 0) return (bytes.length - 1) * 8 + (32 - Math.clz32(first));
  return second === undefined || second < 0x80 ? 0 : (bytes.length - 1) * 8;
};

const isOdd = (bytes: Uint8Array): boolean => ((bytes.at(-1) ?? 0) & 1) === 1;

const readRsa = (reader: Reader): number => {
  const exponent = reader.next('exponent');
  const modulus = reader.next('modulus');
  const bits = bitsOfPositive(modulus);
  if (bits === 0 || !isOdd(modulus)) refuse(`has no RSA modulus; ${EXAMPLE}`);
  const exponentBits = bitsOfPositive(exponent);
  // OpenSSL rejects exponents over 64 bits with a modulus of this length.
  if (exponentBits < 2 || exponentBits > 64 || !isOdd(exponent)) refuse(`has no usable RSA exponent; ${EXAMPLE}`);
  if (bits < MIN_RSA_BITS) {
    refuse(
      `is an RSA key of ${bits} bits; use at least ${MIN_RSA_BITS} bits, or better, a key of "ssh-keygen -t ed25519"`,
    );
  }
  if (bits > MAX_RSA_BITS) refuse(`is an RSA key of ${bits} bits; use at most ${MAX_RSA_BITS} bits`);
  return bits;
};

/** Keys of security keys also name their application. */
const withApplication = (reader: Reader, bits: number): number => {
  const application = asciiOf(reader.next('application').subarray(0, 256));
  if (!/^[\x21-\x7e]{1,255}$/.test(application)) refuse(`names no application of its security key; ${EXAMPLE}`);
  return bits;
};

/** Reads the rest of a key of each accepted type, and returns its bits. */
const readers = new Map<string, (reader: Reader) => number>([
  ['ssh-ed25519', readEd25519],
  ['ecdsa-sha2-nistp256', (reader) => readEcdsa(reader, 'nistp256')],
  ['ecdsa-sha2-nistp384', (reader) => readEcdsa(reader, 'nistp384')],
  ['ecdsa-sha2-nistp521', (reader) => readEcdsa(reader, 'nistp521')],
  ['ssh-rsa', readRsa],
  ['sk-ssh-ed25519@openssh.com', (reader) => withApplication(reader, readEd25519(reader))],
  ['sk-ecdsa-sha2-nistp256@openssh.com', (reader) => withApplication(reader, readEcdsa(reader, 'nistp256'))],
]);

/** Decodes canonical base64: padded, with unused bits zero. */
const bytesOf = (base64: string): Uint8Array => {
  const looksRight = base64.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(base64);
  const binary = looksRight ? atob(base64) : '';
  if (!looksRight || btoa(binary) !== base64) return refuse(`is incomplete: its second part is not base64; ${EXAMPLE}`);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
};

const refuseType = (type: string, rest: readonly string[]): never => {
  if (/-cert-v\d+@openssh\.com$/.test(type)) return refuse(`is a certificate; ${EXAMPLE}`);
  if (type === 'ssh-dss')
    return refuse('is a DSA key, which sshd no longer accepts; create a key with "ssh-keygen -t ed25519"');
  if (rest.some((word) => readers.has(word))) {
    return refuse('has options before its type; send the line from the type on, without options');
  }
  return refuse(
    `starts with ${JSON.stringify(type.slice(0, 60))}, which is not an accepted type: ${[...readers.keys()].join(', ')}`,
  );
};

const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu;

const cleanComment = (text: string): string =>
  [...text.replace(/\t/g, ' ').replace(unprintable, '')].slice(0, MAX_COMMENT_CHARACTERS).join('').trim();

/** Throws `field_value` with the reason and an example. */
export const parseSshPublicKey = (text: string): SshPublicKey => {
  // Check private keys first: PEM, OpenSSH (also without armor) and PuTTY.
  if (/(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File|Private-Lines:|b3BlbnNzaC1rZXktdjE/.test(text))
    refusePrivateKey();
  if (/BEGIN (SSH2 |RSA )?PUBLIC KEY/.test(text)) {
    refuse('is not in the OpenSSH format; convert it with "ssh-keygen -i -f key.pub" (-m PKCS8 for a PEM file)');
  }
  const trimmed = text.trim();
  if (trimmed === '') refuse(`is empty; ${EXAMPLE}`);
  if (/[\r\n]/.test(trimmed)) refuse('has several lines; send one key per request, as one line');

  const [, type = '', base64 = '', tail = ''] = /^([^ \t]+)[ \t]*([^ \t]*)[ \t]*(.*)$/su.exec(trimmed) ?? [];
  const readBits = readers.get(type);
  if (!readBits) return refuseType(type, [base64, ...tail.split(/[ \t]+/)]);
  if (base64 === '') refuse(`is incomplete: nothing follows its type; ${EXAMPLE}`);

  const blob = bytesOf(base64);
  const reader = readerOf(blob);
  const inner = asciiOf(reader.next('type').subarray(0, 64));
  if (inner !== type) refuse(`has the type ${type}, but its blob has the type ${JSON.stringify(inner)}; ${EXAMPLE}`);
  const bits = readBits(reader);
  reader.end();

  const comment = cleanComment(tail);
  return { type, bits, blob, comment, line: comment === '' ? `${type} ${base64}` : `${type} ${base64} ${comment}` };
};
