/** Address and login of an engine on another host. Pure. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { Endpoint } from './docker-client.ts';

export interface RemoteEngineAddress {
  /** `tcp://host:port`, always with TLS, or `ssh://user@host[:port][/path/of/docker.sock]`. */
  endpoint: string;
  /** Authority of the engine's certificate, in PEM. */
  ca?: string | undefined;
  /** Public key of the ssh host, as in a line of known_hosts without the name. */
  hostKey?: string | undefined;
}

const TLS_PORT = 2_376;
const SSH_PORT = 22;
const SOCKET = '/var/run/docker.sock';
const PEM = /-----BEGIN ([A-Z0-9 ]+)-----[\s\S]*?-----END \1-----/g;

const kindOf = ({ endpoint }: RemoteEngineAddress): 'tls' | 'ssh' | null =>
  endpoint.startsWith('tcp://') ? 'tls' : endpoint.startsWith('ssh://') ? 'ssh' : null;

/** Throws an Error that names the field, and what works. */
export function remoteEndpoint(address: RemoteEngineAddress, secret: string | null): Endpoint {
  const kind = kindOf(address);
  if (kind === null)
    throw new Error(
      `"endpoint" is ${address.endpoint}; send tcp://host:${TLS_PORT}, which is TLS with certificates, or ssh://user@host. Unencrypted ports are not used: whoever reaches one is root of its host`,
    );
  const url = URL.canParse(address.endpoint) ? new URL(address.endpoint) : null;
  if (url === null || url.hostname === '' || url.search !== '' || url.hash !== '' || url.password !== '')
    throw new Error(`"endpoint" is ${address.endpoint}; send tcp://host:${TLS_PORT} or ssh://user@host`);
  if (secret === null)
    throw new Error(
      kind === 'tls'
        ? 'there are no "credentials"; send the client certificate and its key, in PEM, one after the other'
        : 'there are no "credentials"; send the private key of the ssh user',
    );
  return kind === 'tls' ? tlsEndpoint(url, address, secret) : sshEndpoint(url, address, secret);
}

function tlsEndpoint(url: URL, { ca, hostKey }: RemoteEngineAddress, secret: string): Endpoint {
  if (hostKey !== undefined) throw new Error('"hostKey" belongs to an endpoint with ssh; leave it out');
  if (url.username !== '' || (url.pathname !== '' && url.pathname !== '/'))
    throw new Error('"endpoint" has more than a host and a port; send tcp://host:2376');
  if (ca === undefined) throw new Error('there is no "ca"; send the authority of the engine\'s certificate, in PEM');
  readable('"ca"', () => new X509Certificate(ca));
  const blocks = [...secret.matchAll(PEM)];
  const keys = blocks.filter(([, label = '']) => label.endsWith('PRIVATE KEY')).map(([text]) => text);
  const certificates = blocks.filter(([, label]) => label === 'CERTIFICATE').map(([text]) => text);
  const [key = ''] = keys;
  if (keys.length !== 1 || certificates.length === 0)
    throw new Error(
      `"credentials" have ${certificates.length} certificates and ${keys.length} private keys; send the client certificate and its one key, in PEM, one after the other`,
    );
  const certificate = readable('the certificate in "credentials"', () => new X509Certificate(certificates[0] ?? ''));
  const privateKey = readable('the key in "credentials"', () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey))
    throw new Error('the key in "credentials" is of another certificate; send the certificate and its key');
  return {
    protocol: 'https',
    host: bare(url.hostname),
    port: Number(url.port || TLS_PORT),
    ca: Buffer.from(ca),
    cert: Buffer.from(certificates.join('\n')),
    key: Buffer.from(key),
  };
}

function sshEndpoint(url: URL, { ca, hostKey }: RemoteEngineAddress, secret: string): Endpoint {
  if (ca !== undefined) throw new Error('"ca" belongs to an endpoint with TLS; leave it out');
  if (url.username === '') throw new Error('"endpoint" has no user; send ssh://user@host');
  const [, text = ''] = /^\S+ ([A-Za-z0-9+/]+=*)(?: .*)?$/.exec(hostKey?.trim() ?? '') ?? [];
  const key = Buffer.from(text, 'base64');
  if (!isHostKey(key))
    throw new Error(
      '"hostKey" is no public key of a host; send type and key as ssh-keyscan HOST prints them, such as ssh-ed25519 AAAA…, after a check against the host',
    );
  return {
    ssh: {
      host: bare(url.hostname),
      port: Number(url.port || SSH_PORT),
      username: decodeURIComponent(url.username),
      privateKey: secret,
      hostKey: key,
      socketPath: url.pathname === '' || url.pathname === '/' ? SOCKET : decodeURIComponent(url.pathname),
    },
  };
}

const KEY_TYPES = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'];

const isHostKey = (key: Buffer): boolean =>
  key.length > 4 && KEY_TYPES.includes(key.toString('latin1', 4, 4 + Math.min(key.readUInt32BE(0), 64)));

function readable<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw new Error(`${what} cannot be read; send it in PEM, without a passphrase`);
  }
}

/** Without the brackets of an IPv6 address. */
const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, '');
