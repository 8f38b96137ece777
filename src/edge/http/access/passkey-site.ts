/** Origin of the page that uses a passkey: one of this API, by a host name, over TLS or here. */
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { PasskeySite } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';

type Asked = Pick<FastifyRequest, 'headers' | 'protocol'>;

const isSuited = ({ protocol, hostname }: URL): boolean =>
  (protocol === 'https:' || hostname === 'localhost') && isIP(hostname.replaceAll(/[[\]]/g, '')) === 0;

/** Null where browsers allow no passkey. */
function siteAt(origin: string): PasskeySite | null {
  const url = URL.parse(origin);
  return url !== null && isSuited(url) ? { rpId: url.hostname, origin } : null;
}

const ownOrigin = ({ headers, protocol }: Asked): string => `${protocol}://${(headers.host ?? '').toLowerCase()}`;

export const offersPasskeys = (request: Asked, origins: ReadonlySet<string>): boolean =>
  [ownOrigin(request), ...origins].some((origin) => siteAt(origin) !== null);

/** `origins`: public ones of this API behind a proxy. */
export function passkeySiteOf(request: Asked, origins: ReadonlySet<string>): PasskeySite {
  const { origin = '' } = request.headers;
  const site = origins.has(origin) || origin === ownOrigin(request) ? siteAt(origin) : null;
  if (site !== null) return site;
  throw new Refusal(
    'unsupported',
    'passkeys work in a browser at the host name of the console, over https or at localhost: open the console there. Behind a proxy, the operator sets BERTH_API_URL',
  );
}
