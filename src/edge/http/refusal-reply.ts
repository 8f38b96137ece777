/** Answers refused and failed requests: body of docs/interface.md §7, details in headers. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SECOND_FACTOR_HEADER } from '../../contract/access/second-factor.ts';
import {
  NOT_LOGGED_IN_CODE,
  PROBLEM_TYPE,
  type ErrorCode,
  type Problem,
  type UnroutedCode,
} from '../../contract/common.ts';
import type { Log } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { errorKinds } from './status.ts';

/** Error format of a route: `plain` is docs/interface.md §7, `problem` RFC 9457. */
export interface ErrorStyle {
  errors: 'plain' | 'problem';
  /** Adds `code: -1` to `not_logged_in`; false on login itself. */
  withCode: boolean;
}

/** Refusal of a request that reaches no route. */
export interface Unrouted {
  code: UnroutedCode | 'not_found';
  message: string;
  allow?: string;
}

export const PLAIN: ErrorStyle = { errors: 'plain', withCode: true };
export const JSON_TYPE = 'application/json; charset=utf-8';

export function errorBody(code: ErrorCode, message: string, { errors, withCode }: ErrorStyle, current?: object) {
  const { status, title } = errorKinds[code];
  const marked = withCode && code === 'not_logged_in' ? { code: NOT_LOGGED_IN_CODE } : {};
  if (errors === 'plain') return { status, contentType: JSON_TYPE, body: JSON.stringify({ ...marked, message }) };
  const problem: Problem = { type: `urn:berth:problem:${code}`, title, status, detail: message, message };
  return { status, contentType: PROBLEM_TYPE, body: JSON.stringify({ ...problem, ...marked, current }) };
}

/** Runs the check of a hook; without a promise, unless the check has one. */
export function checkThen(check: () => unknown, done: (error?: Error) => void): void {
  let checked;
  try {
    checked = check();
  } catch (error) {
    return done(error instanceof Error ? error : new Error('refused without an error', { cause: error }));
  }
  if (checked instanceof Promise) checked.then(() => done(), done);
  else done();
}

/** Sends the error and logs faults. Never sends the text of an unknown exception. */
export function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { log, style }: { log: Pick<Log, 'warn' | 'error'>; style: ErrorStyle },
): void {
  const refusal = refusalOf(error);
  const code = refusal?.code ?? 'internal';
  const message =
    refusal?.message ??
    `the server failed; quote the request id ${request.id} to the operator, who finds the cause in the log`;
  const { status, contentType, body } = errorBody(code, message, style, refusal?.current);
  const about = { requestId: request.id, method: request.method, path: pathOf(request.url), status, code };
  if (!refusal) log.error({ ...about, err: error }, 'request failed');
  else if (refusal.detail !== undefined)
    log.warn({ ...about, detail: refusal.detail, text: refusal.message }, 'request refused');
  reply.code(status).header('content-type', contentType).header('x-error-code', code);
  reply.header('x-request-id', request.id).header('cache-control', 'no-store');
  if (refusal?.retryAfterS !== undefined) reply.header('retry-after', String(Math.ceil(refusal.retryAfterS)));
  if (refusal?.secondFactor !== undefined) reply.header(SECOND_FACTOR_HEADER, refusal.secondFactor);
  if (refusal?.hint !== undefined) reply.header('x-error-hint', refusal.hint);
  if (code === 'not_logged_in') reply.header('www-authenticate', 'Bearer realm="berth"');
  reply.send(body);
}

export const pathOf = (url: string): string => url.split('?', 1)[0] ?? url;

/** Null for a fault of the server. Translates aborts, and the framework's errors about bodies. */
function refusalOf(error: unknown): Refusal | null {
  if (error instanceof Refusal) return error;
  if (error instanceof Error && (error.name === 'AbortError' || error.name === 'TimeoutError'))
    return new Refusal('unavailable', 'the server is stopping, or the request took too long: send it again', {
      retryAfterS: 1,
    });
  if (!(error instanceof Error) || !('code' in error) || !('statusCode' in error)) return null;
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new Refusal('body_not_json', 'the header "content-type" is not a media type: send "application/json"');
    case 'FST_ERR_BAD_URL':
      return new Refusal(
        'not_found',
        'the path is not percent-encoded UTF-8: write each byte as "%" and two hexadecimal digits',
      );
    default:
      return error.statusCode === 400
        ? new Refusal('body_not_json', 'the request ended before its body was complete')
        : null;
  }
}
