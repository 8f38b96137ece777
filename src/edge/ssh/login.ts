/** Authentication: user root with a key or certificate of the owner. Other logins are refused. */
import type { AuthContext, PublicKeyAuthContext } from 'ssh2';
import { onAbort } from '../../async/abort.ts';
import type { Forwarding, SshIdentity } from '../../control/index.ts';
import type { SshClient } from './ssh-client.ts';
import { acceptedCertificate, isCertificate } from './certificate.ts';
import { isValidSignature, isValidWireSignature } from './signature.ts';

const MAX_TRIES = 20;

export interface SshLoginDeps {
  client: SshClient;
  access: () => ReturnType<Forwarding['ssh']>;
  /** Called with the base64 key before the client is accepted. */
  onLogin: (key: string, identity: SshIdentity) => void;
  /** Called once for a client that leaves after refusals alone. */
  onRefused: () => void;
}

export function authenticate({ client, access, onLogin, onRefused }: SshLoginDeps): void {
  let tries = 0;
  let isIn = false;

  /** `offered`: the key is accepted; its signature follows with the next request. */
  async function verify(request: AuthContext): Promise<'in' | 'offered' | 'refused'> {
    if (request.method !== 'publickey' || request.username !== 'root') return 'refused';
    const identity = await access();
    if (identity === null) return 'refused';
    const trusted = trustedKeyOf(request, identity);
    if (trusted === null) return 'refused';
    const { signature, blob: signed } = request;
    if (signature === undefined || signed === undefined) return 'offered';
    if (!trusted.isSignedBy(signed, signature) || client.gone.aborted) return 'refused';
    onLogin(trusted.key, identity);
    isIn = !client.gone.aborted;
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

  onAbort(client.gone, () => {
    if (!isIn && tries > 0) onRefused();
  });
  client.ssh.on('authentication', (request) => {
    // The API is away and nothing is cached.
    reply(request).catch((error: unknown) => client.end(`the login could not be verified: ${String(error)}`));
  });
}

interface TrustedKey {
  /** Base64 key of the account that the login rests on. */
  key: string;
  isSignedBy(signed: Buffer, signature: Buffer): boolean;
}

function trustedKeyOf({ key, hashAlgo: hash }: PublicKeyAuthContext, identity: SshIdentity): TrustedKey | null {
  if (isCertificate(key.algo)) {
    const accepted = acceptedCertificate(key.data, identity, Date.now());
    if (accepted === null) return null;
    const { key: blob, authority } = accepted;
    return {
      key: authority,
      isSignedBy: (signed, signature) => isValidWireSignature({ blob, signed, signature }),
    };
  }
  const text = key.data.toString('base64');
  if (!identity.keys.includes(text)) return null;
  const proof = { type: key.algo, blob: key.data, hash };
  return { key: text, isSignedBy: (signed, signature) => isValidSignature({ ...proof, signed, signature }) };
}

/** The reply must repeat the client's algorithm; ssh2 names every RSA key `ssh-rsa`. */
function algorithmOf({ key, hashAlgo }: PublicKeyAuthContext): string {
  if (key.algo !== 'ssh-rsa' || hashAlgo === undefined) return key.algo;
  return hashAlgo === 'sha512' ? 'rsa-sha2-512' : 'rsa-sha2-256';
}
