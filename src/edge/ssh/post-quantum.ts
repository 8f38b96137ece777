/**
 * Key exchange `mlkem768x25519-sha256` (draft-ietf-sshm-mlkem-hybrid-kex) for servers of ssh2
 * 1.17.0, by the ML-KEM of Node. ssh2 sees curve25519-sha256, of which only keys and secret differ.
 */
import { createHash, createPublicKey, diffieHellman, encapsulate, generateKeyPairSync } from 'node:crypto';
import { createRequire } from 'node:module';
import type { Connection, KexAlgorithm } from 'ssh2';
import type { KeyExchange, PacketReader } from './ssh2-inside.ts';

export const MLKEM = 'mlkem768x25519-sha256';
const INSTEAD = 'curve25519-sha256';
const KEM_BYTES = 1_184;
const X25519_BYTES = 32;
const KEXINIT = 20;
const KEXDH_INIT = 30;
const COOKIE_END = 17;

const constants: { SUPPORTED_KEX: string[] } = createRequire(import.meta.url)('ssh2/lib/protocol/constants.js');
if (!constants.SUPPORTED_KEX.includes(MLKEM)) constants.SUPPORTED_KEX.push(MLKEM);

export const isSupportedKex = (name: string): name is KexAlgorithm => constants.SUPPORTED_KEX.includes(name);

/** Call before the first packet of the client. */
export function answerMlkem({ _protocol: protocol }: Connection, offered: readonly string[]): void {
  const readers = protocol._packetRW;
  let reader = readers.read;
  let clientInit: Buffer | null = null;
  const hook: PacketReader = {
    cleanup: () => reader.cleanup(),
    read(given) {
      const payload = reader.read(given);
      if (payload[0] === KEXINIT) {
        const rewritten = withoutMlkem(payload, offered);
        clientInit = rewritten && payload;
        return rewritten ?? payload;
      }
      if (payload[0] === KEXDH_INIT && clientInit && protocol._kex) useMlkem(protocol._kex, clientInit);
      return payload;
    },
  };
  // ssh2 replaces the reader after each exchange.
  Object.defineProperty(readers, 'read', {
    get: () => hook,
    set(next: PacketReader) {
      reader = next;
    },
  });
}

/** The client's KEXINIT as ssh2 is to see it; null if another algorithm is chosen. */
function withoutMlkem(payload: Buffer, offered: readonly string[]): Buffer | null {
  if (payload.length < COOKIE_END + 4) return null;
  const begin = COOKIE_END + 4;
  const end = begin + payload.readUInt32BE(COOKIE_END);
  const names = payload.toString('latin1', begin, end).split(',');
  if (names.find((name) => offered.includes(name)) !== MLKEM) return null;
  const list = Buffer.from(names.map((name) => (name === MLKEM ? INSTEAD : name)).join(','), 'latin1');
  const length = Buffer.alloc(4);
  length.writeUInt32BE(list.length);
  return Buffer.concat([payload.subarray(0, COOKIE_END), length, list, payload.subarray(end)]);
}

function useMlkem(exchange: KeyExchange, clientInit: Buffer): void {
  let reply: Buffer = Buffer.alloc(0);
  Object.assign(exchange, {
    _remoteKexinit: clientInit,
    convertPublicKey: (key: Buffer) => key,
    getPublicKey: () => reply,
    computeSecret(key: Buffer) {
      try {
        const answer = mlkemAnswer(key);
        reply = answer.reply;
        return answer.secret;
      } catch (error) {
        return error;
      }
    },
  } satisfies Partial<Record<keyof KeyExchange, unknown>>);
}

function mlkemAnswer(clientKey: Buffer): { reply: Buffer; secret: Buffer } {
  if (clientKey.length !== KEM_BYTES + X25519_BYTES) throw new Error(`a key of ${clientKey.length} bytes`);
  const kem = createPublicKey({
    key: clientKey.subarray(0, KEM_BYTES),
    format: 'raw-public',
    asymmetricKeyType: 'ml-kem-768',
  });
  const theirs = createPublicKey({
    key: clientKey.subarray(KEM_BYTES),
    format: 'raw-public',
    asymmetricKeyType: 'x25519',
  });
  const { sharedKey, ciphertext } = encapsulate(kem);
  const { privateKey, publicKey } = generateKeyPairSync('x25519');
  const classic = diffieHellman({ privateKey, publicKey: theirs });
  return {
    reply: Buffer.concat([ciphertext, publicKey.export({ format: 'raw-public' })]),
    secret: createHash('sha256').update(sharedKey).update(classic).digest(),
  };
}
