/**
 * A certificate and its key, as files that others renew: looked at again and again, and taken once both are whole and belong together. What
 * can't be used is said in the log, and what was used before stays.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Log } from '../control/base/log.ts';

export interface TlsPair {
  cert: string;
  key: string;
}

export interface TlsFiles {
  readonly first: TlsPair;
  /** Told of each pair that takes its place. */
  follow(taken: (pair: TlsPair) => void): void;
  stop(): void;
}

const LOOK_EVERY_MS = 5_000;

/** Throws an Error that says which file is wrong. */
export async function openTlsFiles(
  { cert, key }: { cert: string; key: string },
  log: Pick<Log, 'info' | 'error'>,
  lookEveryMs = LOOK_EVERY_MS,
): Promise<TlsFiles> {
  const read = async (): Promise<TlsPair> => ({ cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') });
  const followers: ((pair: TlsPair) => void)[] = [];
  const first = checked(await read());
  let seen = JSON.stringify(first);

  async function look(): Promise<void> {
    try {
      const pair = await read();
      if (JSON.stringify(pair) === seen) return;
      // Said once for each: a renewal writes one of the two first.
      seen = JSON.stringify(pair);
      checked(pair);
      for (const taken of followers) taken(pair);
      log.info({ cert }, 'a new certificate is in use');
    } catch (error) {
      log.error({ err: error, cert, key }, 'the certificate can not be used; the one before stays in use');
    }
  }
  const timer = setInterval(() => void look(), lookEveryMs);
  timer.unref();
  return {
    first,
    follow: (taken) => void followers.push(taken),
    stop: () => clearInterval(timer),
  };
}

/** Throws what is wrong with a pair. Of an empty file, which one that is being written is for a moment, a context alone would say nothing. */
function checked(pair: TlsPair): TlsPair {
  if (!new X509Certificate(pair.cert).checkPrivateKey(createPrivateKey(pair.key)))
    throw new Error('the key is not that of the certificate');
  createSecureContext({ ...pair });
  return pair;
}
