/** CORS (Fetch, 3.2): pages of the operator's list of origins may use the cookie, too. */
import type { FastifyInstance } from 'fastify';
import { SECOND_FACTOR_HEADER } from '../../contract/access/second-factor.ts';
import { WAIT_HEADER } from '../../contract/compute/instance.ts';
import { QUOTE_HEADER } from '../../contract/compute/quote.ts';
import { OPERATION_HEADER } from '../../contract/compute/operation.ts';
import { IGNORED_HEADER } from '../../contract/route.ts';
import { pathOf } from './refusal-reply.ts';
import { addVary } from './reply-headers.ts';
import type { AllowedMethods } from './unrouted.ts';

const PREFLIGHT_S = 600;
const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-Match',
  'If-Modified-Since',
  'If-None-Match',
  'If-Range',
  'If-Unmodified-Since',
  'Last-Event-ID',
  'Range',
  'X-API-Key',
  'X-Request-Id',
  QUOTE_HEADER,
  WAIT_HEADER,
].join(', ');
const ANSWER_HEADERS = [
  'Accept-Ranges',
  'Content-Disposition',
  'Content-Range',
  'ETag',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-Error-Code',
  'X-Error-Hint',
  IGNORED_HEADER,
  'X-Request-Id',
  OPERATION_HEADER,
  SECOND_FACTOR_HEADER,
].join(', ');

export function mountCors(app: FastifyInstance, origins: ReadonlySet<string>, allowed: AllowedMethods): void {
  if (origins.size === 0) return;
  app.addHook('onRequest', ({ headers, method, url }, reply, done) => {
    addVary(reply, 'Origin');
    const { origin } = headers;
    if (origin === undefined || !origins.has(origin)) return done();
    reply
      .header('access-control-allow-origin', origin)
      .header('access-control-allow-credentials', 'true')
      .header('access-control-expose-headers', ANSWER_HEADERS);
    const methods = allowed(pathOf(url));
    const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
    if (!isPreflight || methods === '') return done();
    reply
      .code(204)
      .header('access-control-allow-methods', methods)
      .header('access-control-allow-headers', REQUEST_HEADERS)
      .header('access-control-max-age', String(PREFLIGHT_S))
      .send();
  });
}
