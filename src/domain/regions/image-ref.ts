/** Image names `[server[:port]/]path[:tag][@digest]`: OCI grammar, Docker's server rule. */

/** Reserved for Berth's own images in an engine's store. */
const LOCAL_SERVER = 'berth.local';
const MAX_NAME_LENGTH = 255;

const PATH = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
/** Engines read these as image ids: alone, and after `sha256:`. */
const ID_PATTERN = /^[0-9a-f]{64}$/;
const ALGORITHM_PATTERN = /^(?:library\/)?sha256$/;

export interface ImageRef {
  /** Canonical; the key of credentials. */
  server: string;
  /** Engine reference; `:latest` is added if neither tag nor digest is given. */
  ref: string;
}

/** Returns a message if the name is invalid. */
export function parseImageRef(text: string): ImageRef | string {
  const at = text.indexOf('@');
  const digest = at === -1 ? null : text.slice(at + 1);
  const named = at === -1 ? text : text.slice(0, at);
  const colon = named.lastIndexOf(':');
  const tag = colon > named.lastIndexOf('/') ? named.slice(colon + 1) : null;
  const name = tag === null ? named : named.slice(0, colon);
  const { server, path } = splitServer(name);

  if (!isRegistryServer(server)) return `the server ${JSON.stringify(server)} is not a host or host:port`;
  if (server.replace(/:\d+$/, '') === LOCAL_SERVER) return `${LOCAL_SERVER} is not a registry`;
  if (!PATH.test(path) || name.length > MAX_NAME_LENGTH)
    return `${JSON.stringify(path)} is not an image name: use lower-case letters, digits, and single dots, dashes or underscores between them`;
  if (ID_PATTERN.test(path) || (ALGORITHM_PATTERN.test(path) && tag !== null && ID_PATTERN.test(tag)))
    return 'this is the id of an image; send a name';
  if (tag !== null && !TAG.test(tag))
    return `the tag ${JSON.stringify(tag)} is invalid: use letters, digits, dots, dashes and underscores`;
  if (digest !== null && !DIGEST.test(digest)) return 'the digest must be sha256: and 64 hexadecimal digits';
  return { server: canonicalServer(server), ref: digest === null && tag === null ? `${name}:latest` : text };
}

export const isLocalRef = (ref: string): boolean => ref.startsWith(`${LOCAL_SERVER}/`);

export const isPinned = (ref: string): boolean => ref.includes('@');

export const registryServerOf = (ref: string): string => canonicalServer(splitServer(ref).server);

/** Whether `ref` lies below `prefix` (server and path), in any spelling of the server. */
export function isUnderPrefix(ref: string, prefix: string): boolean {
  const [one, other] = [splitServer(ref), splitServer(prefix)];
  return one.path.startsWith(`${other.path}/`) && isSameServer(one.server, other.server);
}

export function parseRegistryServer(text: string): { server: string } | string {
  const server = canonicalServer(text.toLowerCase());
  if (!isRegistryServer(server)) return 'the server is not a host or host:port';
  return server.replace(/:\d+$/, '') === LOCAL_SERVER ? `${LOCAL_SERVER} is not a registry` : { server };
}

/** The first part is a server if it has a dot, a colon or a capital, or is `localhost`. */
function splitServer(name: string): { server: string; path: string } {
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(0, slash));
  return slash !== -1 && (/[.:A-Z]/.test(first) || first === 'localhost')
    ? { server: first.toLowerCase(), path: name.slice(slash + 1) }
    : { server: DOCKER_HUB, path: name };
}

export const DOCKER_HUB = 'docker.io';
const HUB_ALIASES = ['index.docker.io', 'registry-1.docker.io', 'registry.hub.docker.com'];

const SERVER =
  /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?$/;

const urlOf = (server: string): string => `http://${server}`;

/** Expects lower case. The URL parser checks ports and IPv4 parts. */
export const isRegistryServer = (text: string): boolean => SERVER.test(text) && URL.canParse(urlOf(text));

export const canonicalServer = (server: string): string => (HUB_ALIASES.includes(server) ? DOCKER_HUB : server);

/** Engines try ports 443 and 80 if none is named. */
export const isSameServer = (one: string, other: string): boolean => normalized(one) === normalized(other);

function normalized(server: string): string {
  const { hostname, host } = new URL(urlOf(server));
  return canonicalServer(host.endsWith(':443') ? hostname : host);
}

/**
 * Loopback, link-local and unspecified addresses in any spelling (`127.1`, `0x7f000001`,
 * `::ffff:127.0.0.1`), and `localhost`; no DNS.
 */
export function isLocalServer(server: string): boolean {
  const { hostname } = new URL(urlOf(server));
  if (/(^|\.)localhost\.?$/.test(hostname)) return true;
  if (hostname.startsWith('[')) return isLocalIPv6(wordsOf(hostname.slice(1, -1)));
  return /^\d+\.\d+\.\d+\.\d+$/.test(hostname) && isLocalIPv4(hostname.split('.').map(Number));
}

const isLocalIPv4 = ([first, second]: readonly number[]): boolean =>
  first === 0 || first === 127 || (first === 169 && second === 254);

/** `::` and `::1` embed 0.0.0.x. */
function isLocalIPv6(words: readonly number[]): boolean {
  const [first = 0] = words;
  const [mark = 0, high = 0] = words.slice(5);
  const holdsIPv4 = words.slice(0, 5).every((word) => word === 0) && (mark === 0 || mark === 0xffff);
  return (first & 0xffc0) === 0xfe80 || (holdsIPv4 && isLocalIPv4([high >> 8, high & 0xff]));
}

/** Eight words of an address as URLs normalize it: hexadecimal, with at most one `::`. */
function wordsOf(address: string): number[] {
  const [head = '', tail = ''] = address.split('::');
  const parts = (text: string): number[] => (text === '' ? [] : text.split(':').map((word) => parseInt(word, 16)));
  const [first, last] = [parts(head), parts(tail)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}
