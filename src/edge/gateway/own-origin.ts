/** Origin of this gateway's own pages, for instance `https://gateway.example`. */
import { cookiesCleared, crossSite, type Answer } from './answers.ts';
import type { Head } from './head.ts';
import type { Sender } from './upstream-headers.ts';

/** `isOfPort`: of the host of a port. */
export type OwnOrigin = (sender: Sender, isOfPort: boolean) => string;

/** `publicOrigin`: that browsers see behind a TLS proxy. */
export function makeOwnOrigin(publicOrigin: string | null): OwnOrigin {
  if (publicOrigin === null) return ({ proto, host }) => `${proto}://${host.toLowerCase()}`;
  const { origin, protocol } = new URL(publicOrigin);
  return ({ host }, isOfPort) => (isOfPort ? `${protocol}//${host.toLowerCase()}` : origin);
}

export function clearCookies({ origin, cookies }: Head, sender: Sender, ownOrigin: OwnOrigin, apiUrl: string): Answer {
  const isOwn = [true, false].some((isOfPort) => origin === ownOrigin(sender, isOfPort));
  return isOwn ? cookiesCleared(cookies.join('; '), apiUrl) : crossSite();
}
