/** Authentication: user root with a key of the owning account. All else is refused silently. */
import type { AuthContext, PublicKeyAuthContext } from 'ssh2';
import type { Forwarding } from '../../control/index.ts';
import type { SshClient } from './ssh-client.ts';
import { isValidSignature } from './signature.ts';

const MAX_TRIES = 20;

export interface SshLoginDeps {
  client: SshClient;
  access: () => ReturnType<Forwarding['ssh']>;
  /** Called with the base64 key before the client is accepted. */
  onLogin: (key: string) => void;
}

export function authenticate({ client, access, onLogin }: SshLoginDeps): void {
  let tries = 0;

  /** `offered`: the key is accepted; its signature follows with the next request. */
  async function verify(request: AuthContext): Promise<'in' | 'offered' | 'refused'> {
    if (request.method !== 'publickey' || request.username !== 'root') return 'refused';
    const key = request.key.data.toString('base64');
    const identity = await access();
    if (identity === null || !identity.keys.includes(key)) return 'refused';
    if (request.signature === undefined || request.blob === undefined) return 'offered';
    const proof = { type: request.key.algo, blob: request.key.data, hash: request.hashAlgo };
    if (!isValidSignature({ ...proof, signed: request.blob, signature: request.signature })) return 'refused';
    if (client.gone.aborted) return 'refused';
    onLogin(key);
    return 'in';
  }

  async function reply(request: AuthContext): Promise<void> {
    const verdict = await verify(request);
    if (client.gone.aborted) return;
    if (verdict === 'offered' && request.method === 'publickey') request.key.algo = algorithmOf(request);
    if (verdict !== 'refused') return request.accept();
    tries += 1;
    if (tries > MAX_TRIES) return client.end('too many login attempts');
    request.reject(['publickey']);
  }

  client.ssh.on('authentication', (request) => {
    // The API is away and nothing is cached.
    reply(request).catch((error: unknown) => client.end(`the login could not be verified: ${String(error)}`));
  });
}

/** The reply must repeat the client's algorithm; ssh2 names every RSA key `ssh-rsa`. */
function algorithmOf({ key, hashAlgo }: PublicKeyAuthContext): string {
  if (key.algo !== 'ssh-rsa' || hashAlgo === undefined) return key.algo;
  return hashAlgo === 'sha512' ? 'rsa-sha2-512' : 'rsa-sha2-256';
}
