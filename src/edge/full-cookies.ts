/**
 * Heads that are too large, mostly by the cookies of other programs on the host: more is parsed
 * than taken, so that browsers get a page whose button clears the cookies.
 */
export const MAX_HEAD_BYTES = 32 * 1024;
/** Below the 64 KiB that Node reads at once: their start is at hand when a head is refused. */
export const PARSED_SHARE = 1.875;

export const CLEAR_PATH = '/.berth/cookies';

const SEPARATORS_BYTES = 4;
const MAX_CLEARED = 200;
const COOKIE_NAME = /^[!#$%&'*+.^`|~\w-]+$/;

export function headBytes(rawHeaders: readonly string[]): number {
  let bytes = 0;
  for (const text of rawHeaders) bytes += text.length;
  return bytes + (rawHeaders.length / 2) * SEPARATORS_BYTES;
}

/**
 * Whether a part of a head that was not parsed is a browser's: its start asks for a page, or the
 * rest of a longer one is cookies.
 */
export function isOfBrowser(packet: unknown): boolean {
  if (!Buffer.isBuffer(packet)) return false;
  const text = packet.toString('latin1');
  if (/^[A-Z]+ /.test(text)) return /\naccept:[^\r\n]*text\/html/i.test(text);
  return /^[^\r\n;]*; ?[!#$%&'*+.^`|~\w-]+=/.test(text);
}

export const wantsPage = (accept: string | undefined): boolean => accept?.includes('text/html') === true;

/** Browsers take the first of them over https alone; the others reach no cookie of a domain. */
export const clearingHeaders = (cookies: string): [string, string][] => [
  ['Clear-Site-Data', '"cookies"'],
  ...namesOf(cookies).map((name): [string, string] => ['Set-Cookie', `${name}=; Path=/; Max-Age=0`]),
];

const namesOf = (cookies: string): string[] =>
  [...new Set(cookies.split(';').map((pair) => pair.split('=', 1)[0]?.trim() ?? ''))]
    .filter((name) => COOKIE_NAME.test(name))
    .slice(0, MAX_CLEARED);
