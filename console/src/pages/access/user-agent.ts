/** Browser and system in a User-Agent header, as far as it tells. Pure. */

const browsers = [
  ['Edge', /\bEdg\//],
  ['Opera', /\bOPR\//],
  ['Firefox', /\bFirefox\//],
  ['Chrome', /\bChrome\/|\bHeadlessChrome\//],
  ['Safari', /\bSafari\//],
  ['curl', /^curl\//],
  ['Node.js', /^node$|^undici$/],
  ['Python', /python/i],
] as const;

const systems = [
  ['Android', /\bAndroid\b/],
  ['iOS', /\b(?:iPhone|iPad)\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac OS X\b/],
  ['Linux', /\bLinux\b/],
] as const;

export interface Program {
  /** Empty: unknown. */
  browser: string;
  system: string;
}

export function programOf(userAgent: string): Program {
  const find = (known: readonly (readonly [string, RegExp])[]): string =>
    known.find(([, pattern]) => pattern.test(userAgent))?.[0] ?? '';
  return { browser: find(browsers), system: find(systems) };
}
