/** Puts what answers lead to below the path of the API's URL; cookies of other programs stay. */
import type { FastifyInstance } from 'fastify';

const ATTRIBUTE = /\b(href|action|src)="\/(?!\/)/g;
const OWN_COOKIE = /^((?:AccessToken|berth_[\w-]+)=[^;]*; Path=)(?=\/)/;

export const htmlBelow = (html: string, prefix: string): string =>
  prefix === '' ? html : html.replaceAll(ATTRIBUTE, `$1="${prefix}/`);

/** Throws at a later route below the prefix, which a proxy that strips it would hide. */
export function mountPrefix(app: FastifyInstance, prefix: string): void {
  if (prefix === '') return;
  const nameIn = (path: string): string | undefined => path.split('/', 2)[1];
  app.addHook('onRoute', ({ url }) => {
    if (nameIn(url) !== nameIn(prefix)) return;
    throw new Error(
      `BERTH_API_URL: must have a path that Berth does not serve itself, which ${url} is: such as /berth`,
    );
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    const location = reply.getHeader('location');
    if (typeof location === 'string' && /^\/(?!\/)/.test(location)) reply.header('location', prefix + location);
    const cookies = [reply.getHeader('set-cookie') ?? []].flat().map(String);
    if (cookies.some((cookie) => OWN_COOKIE.test(cookie))) {
      reply.removeHeader('set-cookie');
      reply.header(
        'set-cookie',
        cookies.map((cookie) => cookie.replace(OWN_COOKIE, `$1${prefix}`)),
      );
    }
    const isPage = typeof payload === 'string' && String(reply.getHeader('content-type')).startsWith('text/html');
    done(null, isPage ? htmlBelow(payload, prefix) : payload);
  });
}
