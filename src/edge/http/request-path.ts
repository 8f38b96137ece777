/** Paths of requests: below the prefix of a proxy or not, with slashes too many or not. */

const FILES = /^\/+api\/+storage\/+volume\/+[^/]+\/+files(?=\/)/;

/** Address whose path has no prefix, no empty segment and no final slash; names of files stay. */
export function plainAddress(url: string, prefix: string): string {
  const address = withoutPrefix(url, prefix);
  const mark = address.indexOf('?');
  const end = mark < 0 ? address.length : mark;
  const isPlain = end < 2 || (address.charCodeAt(end - 1) !== SLASH && !hasEmptySegment(address, end));
  if (isPlain || address.charCodeAt(0) !== SLASH) return address;
  const path = address.slice(0, end);
  const folder = FILES.exec(path)?.[0];
  const [head, rest] = folder === undefined ? [path, ''] : [folder, path.slice(folder.length)];
  const plain = head.replaceAll(/\/{2,}/g, '/').replace(/(?<=.)\/$/, '');
  return plain + rest + address.slice(end);
}

const SLASH = 0x2f;

function hasEmptySegment(address: string, end: number): boolean {
  const at = address.indexOf('//');
  return at >= 0 && at < end;
}

function withoutPrefix(url: string, prefix: string): string {
  if (prefix === '' || !url.startsWith(prefix)) return url;
  const rest = url.slice(prefix.length);
  if (rest === '' || rest.startsWith('?')) return `/${rest}`;
  return rest.startsWith('/') ? rest : url;
}
