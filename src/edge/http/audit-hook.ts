/**
 * Records requests in the audit log before their answer. `config.audited` is the route's name in
 * the log; `rowOptions` derives it from the route table. A route that may change something can't
 * be mounted without a name, or a null that says that it only reads.
 */
import { z } from 'zod';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { subjectIds } from '../../contract/common.ts';
import { isAudited, type Route } from '../../contract/route.ts';
import { routeNames, routeOf } from '../../contract/routes.ts';
import { unwrapSchema } from '../../contract/schema-bounds.ts';
import type { Audit } from '../../control/index.ts';
import { AUDIT_OK, type AuditCredential } from '../../domain/access/audit.ts';
import { isObject } from './schema-shape.ts';

declare module 'fastify' {
  interface FastifyRequest {
    auditNote: AuditNote | null;
  }
  interface FastifyContextConfig {
    /** Name in the audit log; null: only reads, so it is not recorded. */
    audited?: string | null;
  }
}

interface AuditNote {
  subjects: unknown[];
  loginName: string | null;
  /** Credential of a request without a login. */
  credential?: AuditCredential;
  isRecorded: boolean;
}

const nameOf = new Map<Route, string>(routeNames.map((name) => [routeOf(name), name]));

export const auditedName = (route: Route): string | null => (isAudited(route) ? (nameOf.get(route) ?? null) : null);

export const auditNoteOf = (request: FastifyRequest): AuditNote =>
  (request.auditNote ??= { subjects: [], loginName: null, isRecorded: false });

export type RecordRequest = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** Call before the routes are mounted. Returns the recorder, for answers that are no replies. */
export function mountAudit(app: FastifyInstance, { audit }: { audit: Pick<Audit, 'record'> }): RecordRequest {
  app.decorateRequest('auditNote', null);
  const record: RecordRequest = async (request, reply) => {
    const note = auditNoteOf(request);
    const { audited } = request.routeOptions.config;
    if (typeof audited !== 'string' || note.isRecorded) return;
    note.isRecorded = true;
    const code = reply.getHeader('x-error-code');
    await audit.record({
      route: audited,
      outcome: typeof code === 'string' ? code : AUDIT_OK,
      caller: request.caller,
      loginName: note.loginName,
      ...(note.credential !== undefined && { credential: note.credential }),
      address: request.ip,
      userAgent: request.headers['user-agent'] ?? '',
      subjects: [...note.subjects, ...addressedIds(request)],
      requestId: request.id,
    });
  };
  app.addHook('onRoute', (options) => {
    const audited = options.config?.audited;
    if (audited === undefined && ![options.method].flat().every((method) => SAFE_METHODS.has(method)))
      throw new Error(`${String(options.method)} ${options.url} may change something: set config.audited`);
    if (typeof audited !== 'string') return;
    options.onSend = async (request: FastifyRequest, reply: FastifyReply, payload: unknown) => {
      await record(request, reply);
      return payload;
    };
  });
  return record;
}

/** RFC 9110, 9.2.1. */
const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

const isIdName = (name: string): boolean => name === 'id' || name.endsWith('Id');

/** IDs in the path and the query. */
const addressedIds = ({ params, query }: FastifyRequest): unknown[] =>
  [params, query].flatMap((given) =>
    isObject(given) ? Object.entries(given).flatMap(([name, value]) => (isIdName(name) ? [value] : [])) : [],
  );

/** Finds the values of the fields whose schema is `id`. */
export function makeFindIds(schema: z.core.$ZodType): (body: unknown) => unknown[] {
  const finders = isId(schema) ? [(value: unknown) => [value]] : findersOf(unwrapSchema(schema));
  return (body) => finders.flatMap((find) => find(body));
}

function findersOf(schema: z.core.$ZodType): ((value: unknown) => unknown[])[] {
  if (schema instanceof z.ZodArray) {
    const find = makeFindIds(schema.element);
    return [(value) => (Array.isArray(value) ? value.flatMap(find) : [])];
  }
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries<z.core.$ZodType>(schema.shape).map(([name, field]) => {
    const find = makeFindIds(field);
    return (value) => (isObject(value) ? find(value[name]) : []);
  });
}

/** `unwrapSchema` would go through the transform of `id`. */
function isId(schema: z.core.$ZodType): boolean {
  if (schema instanceof z.ZodType && subjectIds.get(schema) !== undefined) return true;
  const isWrapped =
    schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault;
  return isWrapped && isId(schema.unwrap());
}

/** IDs of new resources: members `id` and `…Id` of an answer, `id` of an object in it. */
export function idsInAnswer(answer: unknown): unknown[] {
  const object: unknown = Buffer.isBuffer(answer) ? JSON.parse(answer.toString('utf8')) : answer;
  if (!isObject(object)) return [];
  return Object.entries(object).flatMap(([name, value]) =>
    isObject(value) ? [value['id']] : isIdName(name) ? [value] : [],
  );
}
