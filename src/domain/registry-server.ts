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
  if (hostname === 'localhost' || hostname.endsWith('.localhost')) return true;
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
