/**
 * Records requests in the audit log before their answer. A route opts in by `config.audited`, its
 * name in the log, which `rowOptions` derives from the route table.
 */
import { z } from 'zod';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { subjectIds } from '../../contract/common.ts';
import type { Route } from '../../contract/route.ts';
import { routeNames, routeOf } from '../../contract/routes.ts';
import type { Audit, Log } from '../../control/index.ts';
import { AUDIT_OK } from '../../domain/audit.ts';
import { isObject, unwrapSchema } from './schema-shape.ts';

declare module 'fastify' {
  interface FastifyRequest {
    auditNote: AuditNote | null;
  }
  interface FastifyContextConfig {
    /** Name in the audit log; absent: not recorded. */
    audited?: string | undefined;
  }
}

interface AuditNote {
  subjects: unknown[];
  loginName: string | null;
  isRecorded: boolean;
}

const nameOf = new Map<Route, string>(routeNames.map((name) => [routeOf(name), name]));

/** Changes something, or needs a role. */
export const auditedName = (route: Route): string | undefined =>
  !route.reads || route.who === 'operator' || route.who === 'admin' ? nameOf.get(route) : undefined;

export const auditNoteOf = (request: FastifyRequest): AuditNote =>
  (request.auditNote ??= { subjects: [], loginName: null, isRecorded: false });

export type RecordRequest = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** Call before the routes are mounted. Returns the recorder, for answers that are no replies. */
export function mountAudit(
  app: FastifyInstance,
  { audit, log }: { audit: Pick<Audit, 'record'>; log: Pick<Log, 'error'> },
): RecordRequest {
  app.decorateRequest('auditNote', null);
  const record: RecordRequest = async (request, reply) => {
    const note = auditNoteOf(request);
    const { audited } = request.routeOptions.config;
    if (audited === undefined || note.isRecorded) return;
    note.isRecorded = true;
    const code = reply.getHeader('x-error-code');
    try {
      await audit.record({
        route: audited,
        outcome: typeof code === 'string' ? code : AUDIT_OK,
        caller: request.caller,
        loginName: note.loginName,
        address: request.ip,
        userAgent: request.headers['user-agent'] ?? '',
        subjects: [...note.subjects, ...addressedIds(request)],
        requestId: request.id,
      });
    } catch (error) {
      // A refusal changed nothing, so it stays the answer.
      if (code === undefined) throw error;
      log.error({ err: error, requestId: request.id }, 'a refused request could not be recorded in the audit log');
    }
  };
  app.addHook('onRoute', (options) => {
    if (options.config?.audited === undefined) return;
    options.onSend = async (request: FastifyRequest, reply: FastifyReply, payload: unknown) => {
      await record(request, reply);
      return payload;
    };
  });
  return record;
}

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
