/**
 * Signs with one Ed25519 key, stored sealed; retired keys verify until their last token expires.
 * Other processes may rotate: each login reads the current key id, and an unknown key id reloads
 * the keys.
 */
import { KeyObject } from 'node:crypto';
import { exportJWK, generateKeyPair, importJWK, type CryptoKey } from 'jose';
import {
  currentSigningKeyId,
  deleteSigningKeysRetiredBefore,
  signingKeysSince,
  replaceSigningKey,
  type SigningKeyRow,
} from '../../store/tables/signing-keys.ts';
import { parseSigningKey } from '../../store/tables/json-schemas.ts';
import { secretFrom, type RandomBytes } from './random.ts';
import type { Seal, Time, WriteDeps } from '../kernel/ports.ts';

export const ALGORITHM = 'EdDSA';
export const TOKEN_LIFE_S = 86_400;
/** A concurrent login may still sign with the key just retired. */
const ROTATION_SLACK_MS = 60_000;
/** Tokens can name any key id: this bounds the reloads. */
const RELOAD_EVERY_MS = 1000;

export interface SigningRing {
  signer(): Promise<SigningKey>;
  /** Creates the first key, and rotates a current key that was not sealed by this installation. */
  ensure(): Promise<SigningKey>;
  verifier(kid: string): Promise<KeyObject | null>;
  rotate(): Promise<string>;
  /** Rotates an old key, and deletes keys whose tokens have all expired. */
  sweep(): Promise<void>;
}

interface SigningKey {
  kid: string;
  privateKey: CryptoKey;
}

interface Ring {
  current: SigningKey | null;
  /** A Map, so that an id like `__proto__` finds nothing. */
  publicKeys: ReadonlyMap<string, { key: KeyObject; untilMs: number }>;
}

const keyFrom = async (jwk: string, kid: string, column: 'privateJwk' | 'publicJwk'): Promise<CryptoKey> => {
  const key = await importJWK(parseSigningKey(jwk, kid, column), ALGORITHM);
  if (key instanceof Uint8Array) throw new Error('a stored signing key is not an Ed25519 key');
  return key;
};

/** Bounds the use of a leaked key to a month. */
const ROTATE_AFTER_MS = 30 * 24 * 3600 * 1000;

const sealContext = (kid: string): string => `signing key ${kid}`;

type RingDeps = Pick<WriteDeps, 'store'> & {
  time: Pick<Time, 'now' | 'elapsed'>;
  randomBytes: RandomBytes;
  seal: Seal;
};

export const makeSigningRing = (deps: RingDeps): SigningRing => {
  const { store, time, seal } = deps;
  const lifeMs = TOKEN_LIFE_S * 1000 + ROTATION_SLACK_MS;
  let ring: Ring = { current: null, publicKeys: new Map() };
  let reading: Promise<void> | null = null;
  let readAtMs = -Infinity;

  /** Null for a key that is sealed under another key. */
  const signingKeyOf = async (row: SigningKeyRow | undefined): Promise<SigningKey | null> => {
    const jwk = row && seal.open(row.privateJwk, sealContext(row.kid));
    return row && jwk ? { kid: row.kid, privateKey: await keyFrom(jwk, row.kid, 'privateJwk') } : null;
  };

  const read = async (): Promise<void> => {
    const atMs = time.elapsed();
    const currentId = await currentSigningKeyId(store.read);
    const rows = await signingKeysSince(store.read, time.now() - lifeMs);
    const publicKeys = new Map<string, { key: KeyObject; untilMs: number }>();
    for (const row of rows) {
      const untilMs = row.retiredAtMs === null ? Infinity : row.retiredAtMs + lifeMs;
      const key = KeyObject.from(await keyFrom(row.publicJwk, row.kid, 'publicJwk'));
      publicKeys.set(row.kid, { key, untilMs });
    }
    ring = { current: await signingKeyOf(rows.find(({ kid }) => kid === currentId)), publicKeys };
    readAtMs = atMs;
  };

  /** Reads one at a time. A call during a read waits for the next: rows may have changed. */
  const reload = async (): Promise<void> => {
    if (reading) await reading.catch(() => undefined);
    reading ??= read().finally(() => {
      reading = null;
    });
    await reading;
  };

  const succeed = async (over: string | undefined): Promise<SigningKey> => {
    const pair = await generateKeyPair(ALGORITHM, { crv: 'Ed25519', extractable: true });
    const kid = secretFrom(deps.randomBytes);
    const key = {
      kid,
      privateJwk: seal.seal(JSON.stringify(await exportJWK(pair.privateKey)), sealContext(kid)),
      publicJwk: JSON.stringify(await exportJWK(pair.publicKey)),
    };
    await store.write((tx) => replaceSigningKey(tx, over, key, time.now()));
    await reload();
    return current();
  };

  const current = (): SigningKey => {
    if (ring.current === null) throw new Error('the database has no signing key that this server can open');
    return ring.current;
  };

  return {
    async signer() {
      const currentId = await currentSigningKeyId(store.read);
      if (currentId === undefined) return succeed(undefined);
      if (ring.current?.kid !== currentId) await reload();
      return current();
    },

    async ensure() {
      const currentId = await currentSigningKeyId(store.read);
      await reload();
      return ring.current && ring.current.kid === currentId ? ring.current : succeed(currentId);
    },

    async verifier(kid) {
      if (!ring.publicKeys.has(kid) && time.elapsed() - readAtMs >= RELOAD_EVERY_MS) await reload();
      const found = ring.publicKeys.get(kid);
      return found && time.now() < found.untilMs ? found.key : null;
    },

    async rotate() {
      return (await succeed(await currentSigningKeyId(store.read))).kid;
    },

    async sweep() {
      const rows = await signingKeysSince(store.read, time.now() - lifeMs);
      const current = await currentSigningKeyId(store.read);
      const signing = rows.find(({ kid }) => kid === current);
      if (signing && time.now() - signing.createdAtMs > ROTATE_AFTER_MS) await this.rotate();
      await store.write((tx) => deleteSigningKeysRetiredBefore(tx, time.now() - lifeMs));
    },
  };
};
