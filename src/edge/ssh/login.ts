/** Authentication: user root with a key of the owning account. Everything else is refused silently. */
import type { AuthContext, PublicKeyAuthContext } from 'ssh2';
import type { Forwarding } from '../../control/index.ts';
import type { Client } from './client.ts';
import { isValidSignature } from './signature.ts';

/** Each key that an agent offers counts. */
const MOST_TRIES = 20;

export interface LoginDeps {
  client: Client;
  access: () => ReturnType<Forwarding['ssh']>;
  /** Called with the base64 key before the client is accepted. */
  onLogin: (key: string) => void;
}

export function authenticate({ client, access, onLogin }: LoginDeps): void {
  let tries = 0;

  /** `offered`: the key is accepted; its signature follows with the next request. */
  async function judge(asked: AuthContext): Promise<'in' | 'offered' | 'refused'> {
    if (asked.method !== 'publickey' || asked.username !== 'root') return 'refused';
    const key = asked.key.data.toString('base64');
    const identity = await access();
    if (identity === null || !identity.keys.includes(key)) return 'refused';
    if (asked.signature === undefined || asked.blob === undefined) return 'offered';
    const proof = { type: asked.key.algo, blob: asked.key.data, hash: asked.hashAlgo };
    if (!isValidSignature({ ...proof, signed: asked.blob, signature: asked.signature })) return 'refused';
    if (client.gone.aborted) return 'refused';
    onLogin(key);
    return 'in';
  }

  async function decide(asked: AuthContext): Promise<void> {
    const verdict = await judge(asked);
    if (client.gone.aborted) return;
    if (verdict === 'offered' && asked.method === 'publickey') asked.key.algo = algorithmOf(asked);
    if (verdict !== 'refused') return asked.accept();
    tries += 1;
    if (tries > MOST_TRIES) return client.end('too many tries to log in');
    asked.reject(['publickey']);
  }

  client.ssh.on('authentication', (asked) => {
    // The API is away and nothing is cached.
    decide(asked).catch((error: unknown) => client.end(`its login could not be judged: ${String(error)}`));
  });
}

/** The reply must repeat the client's algorithm; ssh2 names every RSA key `ssh-rsa`. */
function algorithmOf({ key, hashAlgo }: PublicKeyAuthContext): string {
  if (key.algo !== 'ssh-rsa' || hashAlgo === undefined) return key.algo;
  return hashAlgo === 'sha512' ? 'rsa-sha2-512' : 'rsa-sha2-256';
}
