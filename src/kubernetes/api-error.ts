/**
 * Errors of the API server, classified once. Drivers translate a class to a fault of theirs.
 * Texts of the server are those of Kubernetes 1.30 to 1.36.
 */
import { z } from 'zod';
import type { Status } from './api-objects.ts';

export const failures = [
  'absent',
  'exists',
  /** A precondition or a concurrent change. */
  'conflict',
  /** The resource version is too old: list again. */
  'expired',
  /** The role of the service account lacks a verb. */
  'forbidden',
  'unauthorized',
  /** A ResourceQuota or LimitRange of the namespace. */
  'quota',
  /** An admission webhook or policy refused. */
  'denied',
  'invalid',
  'throttled',
  /** The server answered that it can't serve now. */
  'unavailable',
  /** No answer: connection, name or certificate. */
  'away',
] as const;
export type Failure = (typeof failures)[number];

interface ApiErrorOptions {
  httpStatus?: number;
  retryAfterMs?: number | undefined;
  status?: Partial<Status> | undefined;
  cause?: unknown;
}

/** `message` is for people: it names what was refused, and what would help where that is known. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly failure: Failure;
  readonly httpStatus: number;
  readonly retryAfterMs: number | undefined;
  /** Answer of the server; undefined without one. */
  readonly status: Partial<Status> | undefined;

  constructor(failure: Failure, message: string, options: ApiErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.failure = failure;
    this.httpStatus = options.httpStatus ?? 0;
    this.retryAfterMs = options.retryAfterMs;
    this.status = options.status;
  }
}

export const isFailure = (error: unknown, ...of: Failure[]): error is ApiError =>
  error instanceof ApiError && of.includes(error.failure);

const statusBody = z.object({
  kind: z.literal('Status'),
  message: z.string().optional(),
  reason: z.string().optional(),
  code: z.number().optional(),
  details: z
    .object({
      kind: z.string().optional(),
      name: z.string().optional(),
      retryAfterSeconds: z.number().optional(),
      causes: z
        .array(
          z.object({ reason: z.string().optional(), message: z.string().optional(), field: z.string().optional() }),
        )
        .optional(),
    })
    .optional(),
});

export interface FailedAnswer {
  httpStatus: number;
  body: string;
  retryAfter?: string | undefined;
  /** `GET /api/v1/…`, for the message of an answer without one. */
  request: string;
}

export function errorOfAnswer({ httpStatus, body, retryAfter, request }: FailedAnswer): ApiError {
  const parsed = statusBody.safeParse(jsonOf(body));
  const status = parsed.success ? (parsed.data as Partial<Status>) : undefined;
  const text = status?.message ?? (body.trim().slice(0, 300) || `the API server answered ${httpStatus} to ${request}`);
  const seconds = Number(retryAfter ?? status?.details?.retryAfterSeconds ?? Number.NaN);
  const retryAfterMs = Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
  const failure = classify(httpStatus, status?.reason ?? '', text);
  return new ApiError(failure, explain(failure, text), { httpStatus, retryAfterMs, status, cause: text });
}

/** Error event of a watch. */
export const errorOfStatus = (status: unknown, request: string): ApiError => {
  const parsed = statusBody.safeParse(status);
  const httpStatus = parsed.success ? (parsed.data.code ?? 500) : 500;
  return errorOfAnswer({ httpStatus, body: JSON.stringify(status), request });
};

const LIMITED = /exceeded quota|(maximum|minimum) (cpu|memory|storage|\S+) usage per/i;
const WEBHOOK = /admission webhook|ValidatingAdmissionPolicy|violates PodSecurity|denied the request/i;

function classify(httpStatus: number, reason: string, text: string): Failure {
  if (WEBHOOK.test(text) && httpStatus < 500) return 'denied';
  if (httpStatus === 409) return reason === 'AlreadyExists' ? 'exists' : 'conflict';
  if (httpStatus === 403) return LIMITED.test(text) ? 'quota' : isTerminating(text) ? 'unavailable' : 'forbidden';
  // A quota that is not computed yet is a server's error: `status unknown for quota`.
  if (/status unknown for quota/i.test(text)) return 'unavailable';
  const byStatus: Partial<Record<number, Failure>> = {
    400: 'invalid',
    401: 'unauthorized',
    404: 'absent',
    405: 'invalid',
    410: 'expired',
    412: 'conflict',
    413: 'invalid',
    415: 'invalid',
    422: 'invalid',
    429: 'throttled',
  };
  return byStatus[httpStatus] ?? 'unavailable';
}

const isTerminating = (text: string): boolean => /because it is being terminated/i.test(text);

const FORBIDDEN =
  /User "([^"]*)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?/;

const REFUSED =
  'the cluster refuses the credentials of this region, which have ended or were withdrawn; an administrator replaces them ("credentials" of POST /api/admin/region/update)';

function explain(failure: Failure, text: string): string {
  if (failure === 'unauthorized') return REFUSED;
  const [, user, verb, resource, group, namespace] = FORBIDDEN.exec(text) ?? [];
  if (failure !== 'forbidden' || user === undefined) return text;
  const of = group === '' ? '' : ` of ${group}`;
  const where = namespace === undefined ? 'in the cluster' : `in namespace ${namespace}`;
  return `the cluster does not allow ${user} to ${verb} ${resource}${of} ${where}; add the verb to its role`;
}

const systemError = z.object({ code: z.string(), message: z.string() });
const CERTIFICATE = /CERT|SIGNATURE|SELF_SIGNED|ALTNAME|UNABLE_TO_VERIFY/;

/** Error without an answer. Aborts keep their reason. */
export function errorOfConnection(error: unknown, server: string): ApiError {
  if (error instanceof ApiError) return error;
  const parsed = systemError.safeParse(error);
  const code = parsed.success ? parsed.data.code : '';
  const text = CERTIFICATE.test(code)
    ? `the certificate of ${server} is not trusted (${code}); enter the certificate authority of the cluster`
    : `the API server ${server} does not answer${code === '' ? '' : ` (${code})`}`;
  return new ApiError('away', text, { cause: error });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
