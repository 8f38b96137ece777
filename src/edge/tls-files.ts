/**
 * Certificate and key files with renewal: checked periodically, used once both files match. A bad
 * pair is logged, and the previous pair stays active.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Log } from '../control/index.ts';

export interface TlsPair {
  cert: string;
  key: string;
}

export interface Certificates {
  readonly first: TlsPair;
  follow: (taken: (pair: TlsPair) => void) => void;
}

export interface TlsFiles extends Certificates {
  stop(): void;
}

const CHECK_EVERY_MS = 5_000;

/** Throws an Error that names the bad file. */
export async function openTlsFiles(
  { cert, key }: TlsPair,
  log: Pick<Log, 'info' | 'error'>,
  checkEveryMs = CHECK_EVERY_MS,
): Promise<TlsFiles> {
  const read = async (): Promise<TlsPair> => ({ cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') });
  const followers: ((pair: TlsPair) => void)[] = [];
  const first = validated(await read());
  let lastRead = JSON.stringify(first);

  async function look(): Promise<void> {
    try {
      const pair = await read();
      if (JSON.stringify(pair) === lastRead) return;
      // Logs each change once: a renewal writes one of the two files first.
      lastRead = JSON.stringify(pair);
      validated(pair);
      for (const taken of followers) taken(pair);
      log.info({ cert }, 'loaded a new certificate');
    } catch (error) {
      log.error({ err: error, cert, key }, 'the certificate is unusable; the previous one stays active');
    }
  }
  const timer = setInterval(() => void look(), checkEveryMs);
  timer.unref();
  return {
    first,
    follow: (taken) => void followers.push(taken),
    stop: () => clearInterval(timer),
  };
}

/** Throws if key and certificate do not match. A secure context alone accepts an empty file. */
function validated(pair: TlsPair): TlsPair {
  if (!new X509Certificate(pair.cert).checkPrivateKey(createPrivateKey(pair.key)))
    throw new Error('the key does not belong to the certificate');
  createSecureContext({ ...pair });
  return pair;
}
