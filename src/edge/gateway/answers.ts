/** The gateway's own answers, with cause and remedy: a page, or `{"message"}` for programs. */
import type { Duplex } from 'node:stream';
import type { ErrorCode } from '../../contract/common.ts';
import { transientStatuses, type InstanceStatus } from '../../domain/compute/instance-states.ts';
import type { GatewayRoute } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { CLEAR_PATH, clearingHeaders, wantsPage } from '../full-cookies.ts';
import { endLate } from '../malformed-requests.ts';
import { headersBesidesPolicy } from '../security-headers.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
import type { InstanceTarget } from './routing.ts';

export interface Answer {
  status: number;
  code: ErrorCode;
  title: string;
  message: string;
  /** Remedies: a list on a page, the rest of the sentence for programs. */
  help?: readonly string[];
  retryAfterS?: number;
  refreshS?: number;
  link?: { href: string; text: string };
  /** A button, which POSTs nothing but itself. */
  form?: { action: string; text: string };
  headers?: readonly string[];
  /** Reads a body of any size to its end: browsers send it before they follow a redirect. */
  readsBody?: true;
  /** JupyterLab's page, in place of one of ours. */
  page?: string;
}

const REASONS: { [status: number]: string } = {
  200: 'OK',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  410: 'Gone',
  417: 'Expectation Failed',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
};

const UNAVAILABLE = { status: 503, code: 'unavailable' } as const;
const NOT_FOUND = { status: 404, code: 'not_found' } as const;
const FORBIDDEN = { status: 403, code: 'forbidden' } as const;
const TOO_MANY = { status: 503, code: 'too_many_requests' } as const;
const AGAIN_SOON = { retryAfterS: 3, refreshS: 3 } as const;

const toConsole = (apiUrl: string): { href: string; text: string } => ({
  href: `${apiUrl}/`,
  text: 'Go to the console',
});

export const badRequest = (why: string, status = 400): Answer => ({
  status,
  code: 'field_value',
  title: 'This request is not forwarded',
  message: why,
});

export const headTooLarge = (limitBytes: number): Answer => ({
  status: 431,
  code: 'headers_too_large',
  title: 'Too many cookies',
  message: `the headers are larger than ${limitBytes} bytes`,
  help: ['in browsers these are mostly cookies of other programs on the same host: clear the cookies of this host'],
  form: { action: CLEAR_PATH, text: 'Clear the cookies of this host' },
});

export function malformed(code: string | undefined, headLimitBytes: number): Answer {
  if (code === 'HPE_HEADER_OVERFLOW') return headTooLarge(headLimitBytes);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return badRequest('the head of the request took too long', 408);
  return badRequest('the request is not well-formed HTTP/1.1');
}

export const cookiesCleared = (cookies: string, apiUrl: string): Answer => ({
  status: 200,
  code: 'internal',
  title: 'Cookies cleared',
  message: 'the cookies of this host are cleared: log in again, and open the notebook or port from the console',
  link: toConsole(apiUrl),
  headers: clearingHeaders(cookies).flat(),
});

const WITHOUT_LOGIN = [
  'log in to the API, and open the instance with POST /api/instance/open',
  'the operator can set BERTH_API_URL, so that this page leads to a login',
];

/** `login` is null where the address of the API is not known. */
export const notLoggedInHere = (login: Answer['link'] | null): Answer => ({
  status: 401,
  code: 'not_logged_in',
  title: 'Not logged in here',
  message: 'you are not logged in, or the login expired',
  help: [
    ...(login === null ? WITHOUT_LOGIN : []),
    'programs send an access token as "Authorization: Bearer <token>", or an API key as X-API-Key',
  ],
  ...(login === null ? {} : { link: login }),
  headers: ['WWW-Authenticate', 'Bearer realm="berth"'],
});

export const keyLimited = (why: string): Answer => ({
  ...FORBIDDEN,
  title: 'This login or key does not open this',
  message: why,
});

export const linkEnded = (login: Answer['link'] | null): Answer => ({
  ...notLoggedInHere(login),
  title: 'This link does not open this page',
  message: 'the link has expired, was revoked, or is for another port',
  help: ['ask the person who sent the link for a new link, and open the whole link'],
});

export const opening = (what: 'page' | 'instance', address: string, setCookie: string | undefined): Answer => ({
  status: 303,
  code: 'internal',
  title: 'Opening',
  message: `the ${what} is at the address in Location`,
  headers: ['Location', address, ...(setCookie === undefined ? [] : ['Set-Cookie', setCookie])],
});

export const linkUsed = (login: Answer['link'] | null): Answer => ({
  status: 410,
  code: 'not_found',
  title: 'This link has been used',
  message: 'such a link opens an instance once, within a minute: log in, or ask the API for a new link',
  ...(login === null ? {} : { link: login }),
});

/** The same answer for unknown instances and those of other accounts. */
export const notFound = (login: Answer['link'] | null): Answer => ({
  ...NOT_FOUND,
  title: 'No such instance',
  message: 'ent: instance not found: check the address, or log in with the account of its owner',
  ...(login === null ? {} : { link: login }),
});

export const nothingHere = (apiUrl: string, portDomain: string | null): Answer => ({
  ...NOT_FOUND,
  title: 'Nothing here',
  message:
    portDomain === null
      ? 'the addresses of this gateway are /notebook/<instanceId>/ and /forward/<instanceId>/<port>/'
      : `the addresses of this gateway are /notebook/<instanceId>/, /forward/<instanceId>/<port>/ and <port>-<instanceId>.${portDomain}`,
  link: toConsole(apiUrl),
});

export const noSuchFile = (): Answer => ({
  ...NOT_FOUND,
  title: 'No such file',
  message: 'the gateway has no such script of JupyterLab: reload the page of the notebook',
});

export const crossSite = (): Answer => ({
  ...FORBIDDEN,
  title: 'This request came from another page',
  message:
    'the login cookie is valid only for requests from pages of this gateway: ' +
    'programs send an access token or an API key in a header instead of the cookie',
});

export const serviceWorkerRefused = (): Answer => ({
  ...FORBIDDEN,
  title: 'Service worker refused',
  message: 'a page of an instance that is not yours cannot install a service worker on this gateway',
});

const STARTING: ReadonlySet<string> = new Set(transientStatuses);
const FAILED: ReadonlySet<string> = new Set<InstanceStatus>(['StartingFailed', 'InitializationFailed']);
const START_IT = 'the owner can start the instance from the console, or with POST /api/instance/start';

export function notRunning(status: string, apiUrl: string): Answer {
  const answer = { ...UNAVAILABLE, message: `the instance is ${status}` };
  if (STARTING.has(status))
    return {
      ...answer,
      title: 'The instance is starting',
      help: ['the instance answers here when it runs; the start takes seconds, or longer while the image is pulled'],
      ...AGAIN_SOON,
    };
  const link = toConsole(apiUrl);
  if (FAILED.has(status))
    return {
      ...answer,
      title: 'The instance could not be started',
      help: [
        'the owner finds the cause in the console, or in diagnosisMessage of POST /api/instance/get',
        'after fixing the cause, the owner can start the instance again with POST /api/instance/start',
      ],
      link,
    };
  return { ...answer, title: 'The instance is not running', help: [START_IT], link };
}

export const restarting = (): Answer => ({
  ...UNAVAILABLE,
  title: 'The instance is not running at the moment',
  message: 'the instance has just stopped, or is restarting',
  help: [`if the instance stays stopped, ${START_IT}`],
  ...AGAIN_SOON,
});

const WITHOUT_JUPYTER = 'an image without Jupyter has no notebook: use ssh, or the port of your own program';
const NOTEBOOK_LOG =
  'its log is the source "notebook" of the logs of the instance, and /var/log/berth/notebook.log inside';

/** Only for the owner. */
export function notebookNotListening(notebook: GatewayRoute['notebook']): Answer {
  if (notebook?.state === 'none')
    return {
      ...UNAVAILABLE,
      title: 'This image has no Jupyter',
      message: 'the instance is running, and its image has no notebook server',
      help: [
        'use ssh, a terminal of the console, or the port of your own program',
        'to have a notebook, install JupyterLab in the instance, so that jupyter-lab is in PATH, and restart the instance',
      ],
    };
  if (notebook?.state === 'failed')
    return {
      ...UNAVAILABLE,
      title: 'The notebook server does not start',
      message: `the instance is running, but its notebook server ended at each start${
        notebook.text === '' ? '' : `; the last line of its log: ${notebook.text}`
      }`,
      help: [
        NOTEBOOK_LOG,
        'mend the cause by ssh or in a terminal of the console: the server is started again by itself',
      ],
      // No Retry-After: waiting does not help, and the page of a launch ends its wait.
      refreshS: AGAIN_SOON.refreshS,
    };
  return {
    ...UNAVAILABLE,
    title: 'The notebook does not answer yet',
    message: 'the instance is running, but its notebook does not listen yet',
    help: [
      'wait a moment: a notebook starts some seconds after its instance',
      NOTEBOOK_LOG,
      ...(notebook === null ? [WITHOUT_JUPYTER] : []),
    ],
    ...AGAIN_SOON,
  };
}

export const noNotebookPage = ({ instanceId }: InstanceTarget, apiUrl: string): Answer => ({
  ...NOT_FOUND,
  title: 'There is no notebook page',
  message: 'the instance runs the command of its image: open the port of its program',
  link: { href: `${apiUrl}/instances/${instanceId}?tab=ports`, text: 'See its ports in the console' },
});

export const notListening = (port: number): Answer => ({
  ...UNAVAILABLE,
  title: 'Nothing answers yet',
  message: `the instance is running, but nothing listens on port ${port}`,
  help: [
    'start the program that serves this port, or wait until it has started',
    'let the program listen on 0.0.0.0: a program that listens only on 127.0.0.1 is reached by "ssh -L", or by its owner with the access "loopback" of the port',
    `check whether the program listens on another port than ${port}: the address must have its port`,
  ],
  ...AGAIN_SOON,
});

export const loopbackOnly = ({ port, instanceId }: InstanceTarget, apiUrl: string): Answer => ({
  ...UNAVAILABLE,
  title: 'The program listens on loopback only',
  message: `a program listens on port ${port}, but only on 127.0.0.1 or ::1 inside the instance`,
  help: [
    'let the program listen on 0.0.0.0, or reach it by "ssh -L"',
    'or open the port to yourself alone: choose the access "loopback" in the console, or with POST /api/instance/port/access',
  ],
  link: { href: `${apiUrl}/instances/${instanceId}?tab=ports&loopback=${port}`, text: 'Open it in the console' },
  ...AGAIN_SOON,
});

export const clientStalled = (afterMs: number): Answer => ({
  status: 408,
  code: 'unavailable',
  title: 'The request timed out',
  message: `the client sent nothing of its request for ${seconds(afterMs)}, the limit of this gateway`,
  help: ['send the request again'],
});

export const instanceStalled = (afterMs: number): Answer => ({
  status: 504,
  code: 'unavailable',
  title: 'The program does not answer',
  message: `the program inside the instance has sent nothing for ${seconds(afterMs)}, the limit of this gateway`,
  help: ['check the program and its log', 'let the program send some data while it works'],
});

const seconds = (ms: number): string => `${ms / 1_000} s`;

export const unreachable = (): Answer => ({
  ...UNAVAILABLE,
  title: 'The instance cannot be reached at the moment',
  message: 'the gateway could not connect to the instance: try again in a moment',
  retryAfterS: 5,
  refreshS: 5,
});

export const tooMany = (): Answer => ({
  ...TOO_MANY,
  title: 'Too many requests at once',
  message: 'the instance has as many concurrent requests as the gateway allows: try again in a moment',
  retryAfterS: 1,
});

export const tooManyConnections = (): Answer => ({
  ...TOO_MANY,
  title: 'Too many connections',
  message:
    'this gateway has as many client connections as it allows, in total or from your address: try again in a moment',
  retryAfterS: 5,
});

export const died = (): Answer => ({
  status: 502,
  code: 'unavailable',
  title: 'The program closed the connection',
  message:
    'the program inside the instance closed the connection, or sent data that is not HTTP, before it answered: check the log of the program',
});

export const internal = (): Answer => ({
  status: 500,
  code: 'internal',
  title: 'Error of the gateway',
  message: 'the gateway failed to handle this request; the operator finds the cause in the log of the gateway',
});

/** Answer for a refusal by control; null for any other error. */
export function unavailable(error: unknown): Answer | null {
  if (!(error instanceof Refusal) || error.code !== 'unavailable') return null;
  const { message, retryAfterS = 5 } = error;
  return { ...UNAVAILABLE, title: 'Not possible at the moment', message, retryAfterS, refreshS: retryAfterS };
}

export const redirectBelow = ({ prefix, upstreamPath }: InstanceTarget): Answer => ({
  status: 307,
  code: 'not_found',
  title: 'Moved',
  message: 'the address below the prefix of the port is in Location',
  headers: ['Location', prefix + upstreamPath],
  readsBody: true,
});

export const redirectToSlash = (location: string): Answer => ({
  status: 307,
  code: 'not_found',
  title: 'Moved',
  message: 'the address with a final slash is in Location',
  headers: ['Location', location],
});

export const stopping = (): Answer => ({
  ...UNAVAILABLE,
  title: 'The gateway is stopping',
  message: 'the gateway is stopping: try again in a moment',
  retryAfterS: 2,
  refreshS: 2,
});

const pagePolicy = (formAction: string): string =>
  `default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action ${formAction}; frame-ancestors 'none'`;

const sentenceOf = ({ message, help = [] }: Answer): string =>
  help.length === 0 ? message : `${message}: ${help.join('; ')}`;

/** The page has the rights of an instance's. */
export const pageOfImage = (page: string): Answer => ({
  status: 200,
  code: 'internal',
  title: 'JupyterLab',
  message: 'the notebook starts',
  page,
});

function renderedPage(page: string): { headers: string[]; body: Buffer } {
  const body = Buffer.from(page, 'utf8');
  const headers = ['Content-Type', 'text/html; charset=utf-8', 'Content-Length', String(body.length)];
  headers.push('Cache-Control', 'no-store', 'Vary', 'Accept, Cookie', 'X-Content-Type-Options', 'nosniff');
  headers.push('Content-Security-Policy', "frame-ancestors 'self'");
  return { headers, body };
}

function rendered(answer: Answer, asPage: boolean): { headers: string[]; body: Buffer } {
  if (answer.page !== undefined) return renderedPage(answer.page);
  const body = Buffer.from(asPage ? page(answer) : `${JSON.stringify({ message: sentenceOf(answer) })}\n`, 'utf8');
  const headers = ['Content-Type', asPage ? 'text/html; charset=utf-8' : 'application/json; charset=utf-8'];
  headers.push('Content-Length', String(body.length), 'Cache-Control', 'no-store', 'Vary', 'Accept, Cookie');
  for (const [name, value] of headersBesidesPolicy) headers.push(name, value);
  headers.push('Content-Security-Policy', pagePolicy(answer.form === undefined ? "'none'" : "'self'"));
  // The form needs its origin, and what is sent again its page.
  if (answer.form !== undefined || answer.readsBody) headers.push('Referrer-Policy', 'same-origin');
  if (answer.status >= 400) headers.push('X-Error-Code', answer.code);
  if (answer.retryAfterS !== undefined) headers.push('Retry-After', String(answer.retryAfterS));
  headers.push(...(answer.headers ?? []));
  return { headers, body };
}

/** Time for an uploading client to finish sending, so that it reads the answer. */
const LINGER_MS = 5_000;

export function sendAnswer(req: ClientRequest, res: ClientResponse, answer: Answer, accept: string): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const { headers, body } = rendered(answer, wantsPage(accept));
  res.writeHead(answer.status, undefined, headers);
  res.end(req.method === 'HEAD' ? undefined : body);
  drainOrCut(req, answer.readsBody);
}

/** Discards the rest of an unwanted body for a while, or while it keeps coming; then cuts. */
export function drainOrCut(req: ClientRequest, whileItComes = false): void {
  if (req.complete || req.destroyed) return;
  req.resume();
  const timer = setTimeout(() => {
    if (!req.complete) req.destroy();
  }, LINGER_MS);
  timer.unref();
  if (whileItComes) req.on('data', () => timer.refresh());
  req.once('close', () => clearTimeout(timer));
}

/** Answers on a raw socket: for an upgrade, or after an unparsable head. */
export function sendRawAnswer(socket: Duplex, answer: Answer, accept = ''): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const { headers, body } = rendered(answer, wantsPage(accept));
  let head = `HTTP/1.1 ${answer.status} ${REASONS[answer.status] ?? 'Error'}\r\nConnection: close\r\n`;
  for (let at = 0; at + 1 < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  endLate(socket, Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), body]));
}

const escapes: { [char: string]: string } = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escaped = (text: string): string => text.replace(/[&<>"']/g, (char) => escapes[char] ?? '');

export const linkText = ({ href, text }: { href: string; text: string }): string =>
  `<a href="${escaped(href)}">${escaped(text)}</a>`;

const asSentence = (text: string): string => `${escaped(text.charAt(0).toUpperCase() + text.slice(1))}.`;

function page({ title, message, help = [], link, form, refreshS }: Answer): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${refreshS === undefined ? '' : `<meta http-equiv="refresh" content="${refreshS}">\n`}<title>${escaped(title)} · Berth</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem }
h1 { font-size: 1.4rem; margin: 0 0 .5rem }
ul { padding-left: 1.2rem }
a { color: inherit }
</style>
<h1>${escaped(title)}</h1>
<p>${asSentence(message)}</p>
${help.length === 0 ? '' : `<ul>${help.map((one) => `<li>${asSentence(one)}</li>`).join('\n')}</ul>\n`}${
    link === undefined ? '' : `<p>${linkText(link)}</p>\n`
  }${
    form === undefined
      ? ''
      : `<form method="post" action="${escaped(form.action)}"><button>${escaped(form.text)}</button></form>\n`
  }${refreshS === undefined ? '' : '<p>This page reloads automatically.</p>\n'}</html>
`;
}
