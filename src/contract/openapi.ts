/**
 * The OpenAPI 3.1 document of the API, made from the table of routes: zod's own JSON Schema for bodies (as sent) and answers (as
 * received), errors as the server gives them. Browser-safe, and pure: the same table gives the same document.
 */
import { z } from 'zod';
import { MAX_BODY_BYTES, pagerAnswer, pagerRequest } from './common.ts';
import { errorCodes, notLoggedInError, plainError, problem, PROBLEM_TYPE } from './errors.ts';
import type { ErrorCode } from './errors.ts';
import { EVENTS_PATH } from './events.ts';
import { FILE_PATH, fileWritten } from './file.ts';
import { instance, launchRequest, regionInfo } from './instance.ts';
import { LOGS_PATH, logStreamRequest } from './log.ts';
import { operation as operationObject, OPERATION_HEADER } from './operation.ts';
import { ADMIN_ROLE } from '../domain/roles.ts';
import { ACCESS_COOKIE, BASE_PATH, routeNames, routes } from './routes.ts';
import type { Route, RouteName } from './routes.ts';
import { filePaths } from './openapi-files.ts';
import { streamPaths } from './openapi-streams.ts';
import { socketOperations } from './openapi-sockets.ts';
import { volume } from './volume.ts';
import { DEFAULT_WAIT_S, MAX_WAIT_S, WAIT_HEADER } from './wait.ts';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type JsonObject = { [name: string]: Json };

/** Status and title of each code: the server's table (`edge/http/status.ts`), handed in. */
export type ErrorKinds = Record<ErrorCode, { status: number; title: string }>;

/** Schemas that have a name of their own in the document; all others stand where they are used. */
const named: Record<string, z.ZodType> = {
  Instance: instance,
  LaunchRequest: launchRequest,
  RegionInfo: regionInfo,
  Volume: volume,
  Operation: operationObject,
  PagerRequest: pagerRequest,
  Pager: pagerAnswer,
  Error: plainError,
  NotLoggedIn: notLoggedInError,
  Problem: problem,
};

const names = z.registry<{ id: string }>();
for (const [id, schema] of Object.entries(named)) names.add(schema, { id });

const ref = (kind: string, name: string): JsonObject => ({ $ref: `#/components/${kind}/${name}` });

export function openapiDocument({ version, errorKinds }: { version: string; errorKinds: ErrorKinds }): JsonObject {
  const schemas: JsonObject = {};
  const paths: JsonObject = {};
  for (const name of routeNames) {
    const route: Route = routes[name];
    paths[route.path] = { [route.method.toLowerCase()]: operation(name, route, errorKinds, schemas) };
  }
  const streams = streamPaths({
    problems: (codes) => problems(errorKinds, codes),
    commonHeaders: { 'X-Request-Id': ref('headers', 'RequestId') },
    whoMayCall: whoMayCall.account,
    logQuery: asObject(schemaOf(logStreamRequest, 'input', schemas)['properties'] ?? {}),
  });
  paths[EVENTS_PATH] = { get: streams.events };
  paths[LOGS_PATH] = { ...asObject(paths[LOGS_PATH] ?? {}), get: streams.logs };
  for (const { path, operation: socket } of socketOperations({
    problems: (codes) => problems(errorKinds, codes),
    schemaOf: (schema) => schemaOf(schema, 'input', schemas),
  }))
    paths[path] = { ...asObject(paths[path] ?? {}), get: socket };
  paths[FILE_PATH] = filePaths({
    problems: (codes) => problems(errorKinds, codes),
    commonHeaders: { 'X-Request-Id': ref('headers', 'RequestId') },
    written: schemaOf(fileWritten, 'output', schemas),
  });
  for (const schema of [plainError, notLoggedInError, problem]) schemaOf(schema, 'output', schemas);
  return {
    openapi: '3.1.1',
    info: {
      title: 'Berth',
      version,
      description:
        'A cloud of notebook instances: launch and list instances, create and list storage volumes, and what belongs to it. ' +
        'All operations take and answer JSON. A success body never has a `message` member; an error body always has one.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: BASE_PATH }],
    security: [{ cookie: [] }, { bearer: [] }, { apiKey: [] }],
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).toSorted(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: {
        cookie: {
          type: 'apiKey',
          in: 'cookie',
          name: ACCESS_COOKIE,
          description: 'The token of a login, which lasts a day',
        },
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'The same token. An Authorization header that is there decides alone',
        },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'A key of `/user/key/create`' },
      },
      responses: responseComponents(errorKinds),
      parameters: {
        IdempotencyKey: {
          name: 'Idempotency-Key',
          in: 'header',
          required: false,
          description:
            'The same key with the same body answers the first result again; with another body it is refused (422). ' +
            'Make a fresh one, for example a UUID, for each thing you want done once',
          schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$' },
        },
        WaitForCapacity: {
          name: WAIT_HEADER,
          in: 'header',
          required: false,
          description:
            'Where the region has no room: waits in line instead of being refused (409), in the order of coming. ' +
            'Room is kept for the first of each account for 10 minutes; an account may have 10 in line in a region. ' +
            `\`true\` waits for at most ${DEFAULT_WAIT_S / 3_600} hours, a number for so many seconds`,
          schema: { oneOf: [{ const: 'true' }, { type: 'integer', minimum: 1, maximum: MAX_WAIT_S }] },
        },
      },
      headers: {
        ErrorCode: { description: 'What was wrong, for programs', schema: { type: 'string', enum: [...errorCodes] } },
        RequestId: {
          description: "The caller's own `X-Request-Id`, or one made for this request",
          schema: { type: 'string' },
        },
        OperationId: {
          description:
            'The operation that this began: `/operation/get` says how it fares. The same for an answer that is given again. ' +
            'Answers without it are of routes that are done when they answer',
          schema: { type: 'string' },
        },
        RetryAfter: { description: 'Seconds after which the same request may succeed', schema: { type: 'integer' } },
      },
    },
  };
}

function operation(name: RouteName, route: Route, errorKinds: ErrorKinds, schemas: JsonObject): JsonObject {
  const takesBody = route.method === 'POST';
  const required = !route.body.safeParse({}).success;
  const success: JsonObject = {
    description: 'Done',
    headers: {
      'X-Request-Id': ref('headers', 'RequestId'),
      ...(route.operation ? { [OPERATION_HEADER]: ref('headers', 'OperationId') } : {}),
    },
    content: { 'application/json': { schema: schemaOf(route.answer, 'output', schemas) } },
  };
  return {
    operationId: name,
    summary: route.summary,
    description: `${whoMayCall[route.who]} Source of the rule: ${route.source}.`,
    tags: [tagOf(route.path)],
    ...(route.who === 'anyone' ? { security: [] } : {}),
    ...parametersOf(route),
    ...(takesBody
      ? {
          requestBody: {
            required,
            description: `At most ${MAX_BODY_BYTES} bytes; unknown members are ignored, null counts as not set`,
            content: { 'application/json': { schema: schemaOf(route.body, 'input', schemas) } },
          },
        }
      : {}),
    responses: { 200: success, ...errorResponses(route, errorKinds) },
  };
}

/** Refers to one response per status. */
const problems = (errorKinds: ErrorKinds, codes: readonly ErrorCode[]): JsonObject =>
  Object.fromEntries(
    codesByStatus(errorKinds, (code) => codes.includes(code)).map(([status]) => [
      String(status),
      ref('responses', `Problem${status}`),
    ]),
  );

const parametersOf = ({ idempotent, waits }: Route): JsonObject => {
  const names = [...(idempotent ? ['IdempotencyKey'] : []), ...(waits ? ['WaitForCapacity'] : [])];
  return names.length === 0 ? {} : { parameters: names.map((name) => ref('parameters', name)) };
};

const whoMayCall: Record<Route['who'], string> = {
  anyone: 'Needs no login.',
  account: 'Needs a login or an API key; acts on what the caller owns.',
  admin: `Needs a login or an API key of an account in the group \`${ADMIN_ROLE}\`.`,
};

const tagOf = (path: string): string => path.split('/')[1] ?? '';

/** Refers to one response per status; each of them says the codes it can carry. */
const errorResponses = (route: Route, errorKinds: ErrorKinds): JsonObject =>
  Object.fromEntries(
    codesByStatus(errorKinds, (code) => canAnswer(route, code)).map(([status]) => [
      String(status),
      ref('responses', responseName(status, route)),
    ]),
  );

const responseName = (status: number, { errors, who }: Pick<Route, 'errors' | 'who'>): string => {
  if (errors === 'problem') return `Problem${status}`;
  return status === 401 && who === 'anyone' ? 'LoginRefused' : `Error${status}`;
};

function codesByStatus(errorKinds: ErrorKinds, wanted: (code: ErrorCode) => boolean): [number, ErrorCode[]][] {
  const statuses = new Map<number, ErrorCode[]>();
  for (const code of errorCodes) {
    const { status } = errorKinds[code];
    if (wanted(code)) statuses.set(status, [...(statuses.get(status) ?? []), code]);
  }
  return [...statuses];
}

function responseComponents(errorKinds: ErrorKinds): JsonObject {
  const responses: JsonObject = {};
  for (const [status, codes] of codesByStatus(errorKinds, (code) => code !== 'method_not_allowed')) {
    const description = codes.map((code) => `\`${code}\`: ${errorKinds[code].title}`).join('; ');
    const headers = {
      'X-Error-Code': ref('headers', 'ErrorCode'),
      'X-Request-Id': ref('headers', 'RequestId'),
      ...(status === 429 || status === 503 ? { 'Retry-After': ref('headers', 'RetryAfter') } : {}),
    };
    const answering = (contentType: string, schema: string): JsonObject => ({
      description,
      headers,
      content: { [contentType]: { schema: ref('schemas', schema) } },
    });
    const plainly = routeNames.some((name) => {
      const route: Route = routes[name];
      return route.errors === 'plain' && codes.some((code) => canAnswer(route, code));
    });
    if (plainly) responses[`Error${status}`] = answering('application/json', status === 401 ? 'NotLoggedIn' : 'Error');
    responses[`Problem${status}`] = answering(PROBLEM_TYPE, 'Problem');
    if (status === 401) responses['LoginRefused'] = answering('application/json', 'Error');
  }
  return responses;
}

/** What the route's own table row rules out; the rest is for control to say, and control may come to refuse more. */
function canAnswer(route: Route, code: ErrorCode): boolean {
  if (code === 'method_not_allowed') return false;
  if (code === 'precondition_failed' || code === 'range_not_satisfiable') return false;
  if (code === 'volume_full') return route.fills;
  if (code === 'idempotency_mismatch') return route.idempotent;
  const readsFields = route.body instanceof z.ZodObject && Object.keys(route.body.shape).length > 0;
  if (code === 'field_missing' || code === 'field_type' || code === 'field_value') return readsFields;
  if (code === 'body_not_json' || code === 'body_too_large') return route.method === 'POST';
  return true;
}

/** JSON Schema of a route's body or answer; schemas with a name move to the components and are referred to. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', schemas: JsonObject): JsonObject {
  const made = z.toJSONSchema(schema, { io, target: 'draft-2020-12', metadata: names });
  const { $schema: _dialect, $defs = {}, ...root } = asJson(made);
  if (typeof $defs === 'object' && $defs !== null && !Array.isArray($defs)) {
    for (const [id, definition] of Object.entries($defs)) schemas[id] = relinked(definition);
  }
  return asObject(relinked(root));
}

const asJson = (schema: unknown): JsonObject => asObject(JSON.parse(JSON.stringify(schema)));

function asObject(value: Json): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('a JSON Schema is an object here');
  return value;
}

/** `$defs` of zod become components; the ids that zod notes on each are the names these have already. */
function relinked(value: Json): Json {
  if (Array.isArray(value)) return value.map(relinked);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([name, member]) => !(name === 'id' && typeof member === 'string'));
  return Object.fromEntries(
    members.map(([name, member]): [string, Json] => [
      name,
      name === '$ref' && typeof member === 'string'
        ? member.replace('#/$defs/', '#/components/schemas/')
        : relinked(member),
    ]),
  );
}
