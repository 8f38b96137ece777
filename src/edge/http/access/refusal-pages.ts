/** Pages for browsers whose head is refused: too many cookies, or a foreign host. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { CLEAR_PATH, clearingHeaders, wantsPage } from '../../full-cookies.ts';
import { refuseCrossSite } from '../credentials.ts';
import { plainName } from '../host-header.ts';
import { escaped } from '../html.ts';
import type { Unrouted } from '../refusal-reply.ts';
import { errorKinds } from '../status.ts';
import { failurePage, MAX_FORM_BYTES, page, paragraph, refuseOnPage, sendPage } from './form-page.ts';
import { formTextsFor } from './form-texts.ts';

const SHOWN_CHARACTERS = 100;

type Head = { headers: FastifyRequest['headers'] };

export const asksForPage = ({ method, headers }: Pick<FastifyRequest, 'method' | 'headers'>): boolean =>
  (method === 'GET' || method === 'HEAD') && wantsPage(headers.accept);

/** Null for a refusal without a page. */
export function refusalPage({ headers }: Head, { code }: Unrouted): string | null {
  const texts = formTextsFor({ headers });
  const host = (headers.host ?? texts.thisHost).slice(0, SHOWN_CHARACTERS);
  switch (code) {
    case 'headers_too_large': {
      const form = `<form method="post" action="${CLEAR_PATH}"><button>${escaped(texts.clearCookies)}</button></form>`;
      return page(texts, texts.tooManyCookies, paragraph(texts.tooManyCookiesText(host)) + form);
    }
    case 'misdirected': {
      const name = plainName(host.replace(/:\d*$/, ''));
      const setting = `<p><code>BERTH_API_HOSTS=${escaped(name)}</code></p>`;
      return page(texts, texts.wrongName, paragraph(texts.wrongNameText(name)) + setting);
    }
    default:
      return null;
  }
}

/** Returns whether a page was sent. */
export function sendRefusalPage(request: FastifyRequest, reply: FastifyReply, refused: Unrouted): boolean {
  const text = wantsPage(request.headers.accept) ? refusalPage(request, refused) : null;
  if (text === null) return false;
  sendPage(request, reply.header('x-error-code', refused.code), errorKinds[refused.code].status, text);
  return true;
}

export function mountClearCookies(app: FastifyInstance, { ownOrigins }: { ownOrigins?: readonly string[] }): void {
  const own = new Set(ownOrigins);
  // A reload of the page.
  app.get(CLEAR_PATH, (_request, reply) => reply.redirect('/', 303));
  app.post(CLEAR_PATH, { bodyLimit: MAX_FORM_BYTES, config: { audited: null } }, async (request, reply) => {
    try {
      refuseCrossSite(request, own);
    } catch (error) {
      return refuseOnPage(request, reply, error, failurePage);
    }
    for (const [name, value] of clearingHeaders(request.headers.cookie ?? '')) reply.header(name, value);
    const texts = formTextsFor(request);
    const link = `<p><a href="/">${escaped(texts.toConsole)}</a></p>`;
    return sendPage(request, reply, 200, page(texts, texts.cookiesCleared, link));
  });
}
