/** Name of a login provider: its URL, with which it signs. */

/** Over plain HTTP only on this machine: tokens would be readable. */
export function isIssuer(name: string): boolean {
  const parsed = URL.parse(name);
  if (!parsed || parsed.search + parsed.hash !== '' || /\s/.test(name)) return false;
  const isHere = ['localhost', '127.0.0.1', '[::1]'].includes(parsed.hostname);
  return parsed.protocol === 'https:' || (parsed.protocol === 'http:' && isHere);
}
