/** Who may log in: root, with a key of the account that the instance is of. Everything else is refused, and nothing is told of it. */
import type { AuthContext, PublicKeyAuthContext } from 'ssh2';
import type { Forwarding } from '../../control/index.ts';
import type { Client } from './client.ts';
import { isValidSignature } from './signature.ts';

/** An agent offers its keys one by one; each is a try. */
const MOST_TRIES = 20;

export interface LoginDeps {
  client: Client;
  access: () => ReturnType<Forwarding['ssh']>;
  /** The key that opened it, in base64; the login is told to the client after that. */
  onLogin: (key: string) => void;
}

export function authenticate({ client, access, onLogin }: LoginDeps): void {
  let tries = 0;

  /** `offered`: it is a good key, and what proves it comes with the next try. */
  async function judge(asked: AuthContext): Promise<'in' | 'offered' | 'refused'> {
    if (asked.method !== 'publickey' || asked.username !== 'root') return 'refused';
    const key = asked.key.data.toString('base64');
    const identity = await access();
    if (identity === null || !identity.keys.includes(key)) return 'refused';
    if (asked.signature === undefined || asked.blob === undefined) return 'offered';
    const proof = { type: asked.key.algo, blob: asked.key.data, hash: asked.hashAlgo };
    if (!isValidSignature({ ...proof, signed: asked.blob, signature: asked.signature })) return 'refused';
    // Its leave was taken while that was asked for.
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
    // The API is away and this account was never asked for, or it went while it was answered.
    decide(asked).catch((error: unknown) => client.end(`its login could not be judged: ${String(error)}`));
  });
}

/** The answer repeats what the client named; ssh2 calls all of RSA by the name that stands for SHA-1. */
function algorithmOf({ key, hashAlgo }: PublicKeyAuthContext): string {
  if (key.algo !== 'ssh-rsa' || hashAlgo === undefined) return key.algo;
  return hashAlgo === 'sha512' ? 'rsa-sha2-512' : 'rsa-sha2-256';
}
