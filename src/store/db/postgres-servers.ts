/** Servers of a database URL, with the parameters of libpq. */

export interface PostgresServers {
  url(): string;
  name(): string;
  /** Goes on to the next server, unless a concurrent connection did so. */
  leave(failedUrl: string, error: unknown): void;
  /** Attempts for one round over all servers. */
  readonly attempts: number;
}

interface Server {
  url: string;
  name: string;
  /** Used at a server without TLS, by `sslmode=prefer` alone. */
  plainUrl: string | null;
}

const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'];
const sessionAttributes = ['any', 'read-write', 'primary'];
const ENCODED = 'write the characters :/?#@ of a password as %XX';
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^@/?#]*)([^?#]*)(?:\?([^#]*))?$/;

const oneOf = (allowed: readonly string[], parameter: string, given: string | null): void => {
  if (given !== null && !allowed.includes(given))
    throw new Error(`${parameter}=${given} is not supported: use ${allowed.join(', ')}`);
};

export function parseDatabaseUrl(given: string): PostgresServers {
  const [matched, start = '', hosts = '', path = '', query = ''] = PARTS.exec(given) ?? [];
  if (matched === undefined) throw new Error(`it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE; ${ENCODED}`);
  const parameters = new URLSearchParams(query);
  oneOf(sslModes, 'sslmode', parameters.get('sslmode'));
  oneOf(sessionAttributes, 'target_session_attrs', parameters.get('target_session_attrs'));
  parameters.delete('target_session_attrs');
  setTls(parameters);
  const withParameters = (host: string, all: URLSearchParams): string =>
    `${start}${host}${path}${all.size === 0 ? '' : `?${all.toString()}`}`;
  const plain = new URLSearchParams(parameters);
  plain.set('sslmode', 'disable');
  const servers = hosts.split(',').map((host): Server => {
    if (!/^(?:%2f|$)/i.test(host) && !URL.canParse(`postgres://${host}/`))
      throw new Error(`its host must be HOST or HOST:PORT, with a port up to 65535; ${ENCODED}`);
    return {
      url: withParameters(host, parameters),
      name: nameOf(host, parameters),
      plainUrl: parameters.get('sslmode') === 'prefer' ? withParameters(host, plain) : null,
    };
  });
  return makeServers(servers);
}

function setTls(parameters: URLSearchParams): void {
  if (parameters.get('sslrootcert') === 'system') {
    const mode = parameters.get('sslmode') ?? 'verify-full';
    oneOf(['verify-full'], 'sslrootcert=system with sslmode', mode);
    parameters.delete('sslrootcert');
    parameters.set('sslmode', mode);
  }
  if (parameters.get('sslmode') === 'verify-ca' && !parameters.has('sslrootcert'))
    throw new Error('sslmode=verify-ca needs sslrootcert=FILE, the certificate of the authority');
  if (parameters.has('sslmode')) parameters.set('uselibpqcompat', 'true');
}

function nameOf(host: string, parameters: URLSearchParams): string {
  const named = parameters.get('host') ?? (host === '' ? 'localhost' : decodeURIComponent(host));
  const hasPort = named.startsWith('/') || /^(?:\[.*\]|[^:]*):\d+$/.test(named);
  return hasPort ? named : `${named}:${parameters.get('port') ?? '5432'}`;
}

export const hasNoTls = (error: unknown): boolean =>
  error instanceof Error && error.message.includes('not support SSL');

function makeServers(servers: readonly Server[]): PostgresServers {
  let at = 0;
  let isPlain = false;
  const server = (): Server => {
    const found = servers[at];
    if (!found) throw new Error('a database URL without a server');
    return found;
  };
  const url = (): string => (isPlain ? (server().plainUrl ?? server().url) : server().url);
  return {
    url,
    name: () => server().name,
    leave(failedUrl, error) {
      if (failedUrl !== url()) return;
      isPlain = !isPlain && server().plainUrl !== null && hasNoTls(error);
      if (!isPlain) at = (at + 1) % servers.length;
    },
    attempts: servers.reduce((sum, { plainUrl }) => sum + (plainUrl === null ? 1 : 2), 0),
  };
}
