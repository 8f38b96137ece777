/** Pages with a form: plain HTML without scripts, that other sites can neither frame nor send. */
import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../../domain/refusal.ts';
import { escaped, HTML_TYPE } from './html.ts';
import { setCommonHeaders } from './reply-headers.ts';
import { errorKinds } from './status.ts';

export const MAX_FORM_BYTES = 16 * 1024;
const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(;|$)/i;

/** `otherwise`: what programs do instead. */
export function formOf({ headers, body }: FastifyRequest, otherwise: string): URLSearchParams {
  if (FORM_TYPE.test(headers['content-type'] ?? '') && Buffer.isBuffer(body))
    return new URLSearchParams(body.toString('utf8'));
  throw new Refusal('field_value', `this page takes its own form only: ${otherwise}`);
}

const STYLE = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 24rem; margin: 15vh auto 0; padding: 0 1.5rem }
h1 { font-size: 1.4rem }
label, input, button { display: block; font: inherit }
input { width: 100%; box-sizing: border-box; margin: 0 0 1rem; padding: .4rem }
button { padding: .4rem 1.2rem; margin: 0 0 2rem }`;

const PAGE_POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`;

/** `Referrer-Policy: origin` shows the gateway that the link is the API's, without the address. */
export const sendPage = (request: FastifyRequest, reply: FastifyReply, status: number, text: string): FastifyReply =>
  setCommonHeaders(request, reply, HTML_TYPE)
    .header('content-security-policy', PAGE_POLICY)
    .header('referrer-policy', 'origin')
    .header('x-frame-options', 'DENY')
    .code(status)
    .send(text);

export const page = (title: string, body: string, head = ''): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${head}<title>${title} · Berth</title>
<style>${STYLE}</style>
<h1>${title}</h1>
${body}
</html>
`;

export const paragraph = (text: string): string => `<p>${escaped(text)}</p>`;

export const failurePage = (trouble: string): string => page('Not possible', paragraph(trouble));

const asSentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

export const alert = (trouble: string | null): string =>
  trouble === null ? '' : `<p role="alert">${escaped(trouble)}</p>`;

/** Answers a refusal with the page that `pageWith` makes of its sentence. */
export function refuseOnPage(
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
  pageWith: (trouble: string) => string,
): FastifyReply {
  if (!(error instanceof Refusal)) throw error;
  const { code, message, retryAfterS } = error;
  reply.header('x-error-code', code);
  if (retryAfterS !== undefined) reply.header('retry-after', String(Math.ceil(retryAfterS)));
  return sendPage(request, reply, errorKinds[code].status, pageWith(asSentence(message)));
}
