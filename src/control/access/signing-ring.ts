/**
 * Signs with one Ed25519 key; retired keys verify until their last token expires. Other processes
 * may rotate: each login reads the current key id, and an unknown key id reloads the keys.
 */
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
import type { WriteDeps } from '../base/idempotent.ts';

export const ALGORITHM = 'EdDSA';
export const TOKEN_LIFE_S = 86_400;
/** A concurrent login may still sign with the key just retired. */
const ROTATION_SLACK_MS = 60_000;
/** Tokens can name any key id: this bounds the reloads. */
const RELOAD_EVERY_MS = 1000;

export interface SigningRing {
  signer(): Promise<{ kid: string; privateKey: CryptoKey }>;
  verifier(kid: string): Promise<CryptoKey | null>;
  rotate(): Promise<string>;
  /** Rotates an old key, and deletes keys whose tokens have all expired. */
  sweep(): Promise<void>;
}

interface Ring {
  current: { kid: string; privateKey: CryptoKey } | null;
  /** A Map, so that an id like `__proto__` finds nothing. */
  publicKeys: ReadonlyMap<string, { key: CryptoKey; untilMs: number }>;
}

const keyFrom = async (row: SigningKeyRow, column: 'privateJwk' | 'publicJwk'): Promise<CryptoKey> => {
  const key = await importJWK(parseSigningKey(row[column], row.kid, column), ALGORITHM);
  if (key instanceof Uint8Array) throw new Error('a stored signing key is not an Ed25519 key');
  return key;
};

/** Bounds the use of a leaked key to a month. */
const ROTATE_AFTER_MS = 30 * 24 * 3600 * 1000;

type RingDeps = Pick<WriteDeps, 'store' | 'time'> & { randomBytes: RandomBytes };

export const makeSigningRing = (deps: RingDeps): SigningRing => {
  const { store, time } = deps;
  const lifeMs = TOKEN_LIFE_S * 1000 + ROTATION_SLACK_MS;
  let ring: Ring = { current: null, publicKeys: new Map() };
  let reading: Promise<void> | null = null;
  let readAtMs = -Infinity;

  const read = async (): Promise<void> => {
    const atMs = time.now();
    const currentId = await currentSigningKeyId(store.read);
    const rows = await signingKeysSince(store.read, atMs - lifeMs);
    const publicKeys = new Map<string, { key: CryptoKey; untilMs: number }>();
    for (const row of rows) {
      const untilMs = row.retiredAtMs === null ? Infinity : row.retiredAtMs + lifeMs;
      publicKeys.set(row.kid, { key: await keyFrom(row, 'publicJwk'), untilMs });
    }
    const row = rows.find(({ kid, privateJwk }) => kid === currentId && privateJwk !== '');
    ring = { current: row ? { kid: row.kid, privateKey: await keyFrom(row, 'privateJwk') } : null, publicKeys };
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

  const succeed = async (over: string | undefined): Promise<string> => {
    const pair = await generateKeyPair(ALGORITHM, { crv: 'Ed25519', extractable: true });
    const key = {
      kid: secretFrom(deps.randomBytes),
      privateJwk: JSON.stringify(await exportJWK(pair.privateKey)),
      publicJwk: JSON.stringify(await exportJWK(pair.publicKey)),
    };
    await store.write((tx) => replaceSigningKey(tx, over, key, time.now()));
    await reload();
    if (ring.current === null) throw new Error('the database has no signing key for tokens');
    return ring.current.kid;
  };

  return {
    async signer() {
      const currentId = await currentSigningKeyId(store.read);
      if (currentId === undefined) await succeed(undefined);
      else if (ring.current?.kid !== currentId) await reload();
      if (ring.current === null) throw new Error('the database has no signing key for tokens');
      return ring.current;
    },

    async verifier(kid) {
      const sinceReadMs = time.now() - readAtMs;
      if (!ring.publicKeys.has(kid) && (sinceReadMs < 0 || sinceReadMs >= RELOAD_EVERY_MS)) await reload();
      const found = ring.publicKeys.get(kid);
      return found && time.now() < found.untilMs ? found.key : null;
    },

    async rotate() {
      return succeed(await currentSigningKeyId(store.read));
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
