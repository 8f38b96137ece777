/** Servers of registries, `host[:port]` as names of images have them: what is one, which are the same, and which are the host's own. Pure. */

/** The server of names that name none. */
export const DOCKER_HUB = 'docker.io';
const ALSO_THE_HUB = ['index.docker.io', 'registry-1.docker.io', 'registry.hub.docker.com'];

const SERVER =
  /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?$/;

const urlOf = (server: string): string => `http://${server}`;

/** Of one in small letters. Ports end at 65535, and addresses have four parts of at most 255. */
export const isRegistryServer = (text: string): boolean => SERVER.test(text) && URL.canParse(urlOf(text));

export const canonicalServer = (server: string): string => (ALSO_THE_HUB.includes(server) ? DOCKER_HUB : server);

/** Engines ask at 443, and then at 80, where no port is named. */
export const isSameServer = (one: string, other: string): boolean => asOne(one) === asOne(other);

function asOne(server: string): string {
  const { hostname, host } = new URL(urlOf(server));
  return canonicalServer(host.endsWith(':443') ? hostname : host);
}

/**
 * Loopback, link-local and unspecified addresses in any spelling (`127.1`, `0x7f000001`, `::ffff:127.0.0.1`), and `localhost`: what the
 * host of the engine alone can reach. A name that some name server gives such an address is not seen through.
 */
export function isLocalServer(server: string): boolean {
  const { hostname } = new URL(urlOf(server));
  if (hostname === 'localhost' || hostname.endsWith('.localhost')) return true;
  if (hostname.startsWith('[')) return isLocalIPv6(wordsOf(hostname.slice(1, -1)));
  return /^\d+\.\d+\.\d+\.\d+$/.test(hostname) && isLocalIPv4(hostname.split('.').map(Number));
}

const isLocalIPv4 = ([first, second]: readonly number[]): boolean =>
  first === 0 || first === 127 || (first === 169 && second === 254);

/** `::` and `::1` begin as 0.0.0.0 does. */
function isLocalIPv6(words: readonly number[]): boolean {
  const [first = 0] = words;
  const [mark = 0, high = 0] = words.slice(5);
  const holdsIPv4 = words.slice(0, 5).every((word) => word === 0) && (mark === 0 || mark === 0xffff);
  return (first & 0xffc0) === 0xfe80 || (holdsIPv4 && isLocalIPv4([high >> 8, high & 0xff]));
}

/** The eight of an address as URLs write it: nothing but hexadecimal words, and `::` once at most. */
function wordsOf(address: string): number[] {
  const [head = '', tail = ''] = address.split('::');
  const parts = (text: string): number[] => (text === '' ? [] : text.split(':').map((word) => parseInt(word, 16)));
  const [first, last] = [parts(head), parts(tail)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}
