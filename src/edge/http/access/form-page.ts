/** Pages with a form: plain HTML without scripts, that other sites can neither frame nor send. */
import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { formTextsFor, type FormTexts } from './form-texts.ts';
import { escaped, HTML_TYPE } from '../html.ts';
import { setCommonHeaders } from '../reply-headers.ts';
import { errorKinds } from '../status.ts';

export const MAX_FORM_BYTES = 16 * 1024;
const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(;|$)/i;

/** `otherwise`: what programs do instead. */
export function formOf({ headers, body }: FastifyRequest, otherwise: string): URLSearchParams {
  if (FORM_TYPE.test(headers['content-type'] ?? '') && Buffer.isBuffer(body))
    return new URLSearchParams(body.toString('utf8'));
  throw new Refusal('field_value', `this page takes its own form only: ${otherwise}`);
}

/** The look of the console: one card, its accent color, light and dark as the browser says. */
const STYLE = `:root { color-scheme: light dark; --paper: #f8f9fa; --card: #fff; --line: #ced4da; --edge: #868e96; --text: #212529;
  --dim: #5c636a; --link: #00616d; --wrong: #b02a2a; --wrong-paper: #fdf0f0; --accent: #007582;
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans SC", sans-serif }
@media (prefers-color-scheme: dark) { :root { --paper: #1a1b1e; --card: #25262b; --line: #495057; --edge: #868e96; --text: #e9ecef;
  --dim: #a6adb4; --link: #70c0cd; --wrong: #ffa8a8; --wrong-paper: #3a2426 } }
* { box-sizing: border-box }
body { min-height: 100vh; margin: 0; padding: 16px; display: grid; place-items: center; background: var(--paper);
  color: var(--text) }
main { width: 100%; max-width: 360px; padding: 24px; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px }
header { display: flex; align-items: center; gap: 8px; margin-bottom: 16px; font-weight: 600 }
h1 { margin: 0 0 16px; font-size: 20px; line-height: 1.3 }
p { margin: 0 0 16px; color: var(--dim); overflow-wrap: anywhere }
[role=alert] { padding: 8px 12px; border-left: 3px solid var(--wrong); background: var(--wrong-paper);
  color: var(--wrong) }
label { display: block; margin-bottom: 4px; font-weight: 500 }
input, button { display: block; width: 100%; font: inherit; border-radius: 4px }
input { margin: 0 0 16px; padding: 8px 12px; color: inherit; background: var(--card); border: 1px solid var(--edge) }
button { padding: 8px 16px; font-weight: 600; color: #fff; background: var(--accent); border: 1px solid var(--accent);
  cursor: pointer }
button:hover { background: #00616d }
button[type=button] { color: var(--link); background: none }
button + p { margin-top: 16px }
[hidden] { display: none }
form + p, form + div { margin-top: 16px }
form:last-child, p:last-child { margin-bottom: 0 }
a { color: var(--link) }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }`;

const LOGO =
  '<svg width="28" height="28" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#007582"/>' +
  '<path d="M8 13h16M10 13v7m12-7v7M16 6v7M6 22c2.5 2.4 5 2.4 7.5 0s5-2.4 7.5 0 3.5 2 5 .8" fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round"/></svg>';

const PAGE_POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`;
const SCRIPT_POLICY = "; script-src 'self'; connect-src 'self'";

/** `Referrer-Policy: origin` shows the gateway that the link is the API's, without the address. */
export const pageHeaders = {
  'content-security-policy': PAGE_POLICY,
  'referrer-policy': 'origin',
  'x-frame-options': 'DENY',
};

export const sendPage = (
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  text: string,
  { hasScript = false } = {},
): FastifyReply => {
  setCommonHeaders(request, reply, HTML_TYPE).headers(pageHeaders);
  if (hasScript) reply.header('content-security-policy', PAGE_POLICY + SCRIPT_POLICY);
  return reply.code(status).send(text);
};

export const page = ({ language }: FormTexts, title: string, body: string, head = ''): string => `<!doctype html>
<html lang="${language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${head}<title>${title} · Berth</title>
<style>${STYLE}</style>
<main>
<header>${LOGO}Berth</header>
<h1>${title}</h1>
${body}
</main>
</html>
`;

export const paragraph = (text: string): string => `<p>${escaped(text)}</p>`;

interface Link {
  href: string;
  text: string;
}

export const linkTo = ({ href, text }: Link): string => `<p><a href="${escaped(href)}">${escaped(text)}</a></p>`;

export const failurePage = (trouble: string, texts: FormTexts, link?: Link, before?: string): string => {
  const sentences = [before, trouble].filter((text) => text !== undefined);
  return page(texts, texts.notPossible, [...sentences.map(paragraph), ...(link ? [linkTo(link)] : [])].join('\n'));
};

export const asSentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

export const alert = (trouble: string | null): string =>
  trouble === null ? '' : `<p role="alert">${escaped(trouble)}</p>`;

/** Answers a refusal with the page that `pageWith` makes of its sentence. */
export function refuseOnPage(
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
  pageWith: (trouble: string, texts: FormTexts) => string,
  options?: { hasScript: boolean },
): FastifyReply {
  if (!(error instanceof Refusal)) throw error;
  const { code, message, retryAfterS } = error;
  reply.header('x-error-code', code);
  if (retryAfterS !== undefined) reply.header('retry-after', String(Math.ceil(retryAfterS)));
  const text = pageWith(asSentence(message), formTextsFor(request));
  return sendPage(request, reply, errorKinds[code].status, text, options);
}
