/**
 * The OpenAPI 3.1 document, derived from the route table: JSON Schema of zod, components for named
 * schemas, errors by status. Pure and browser-safe: the same table gives the same document.
 */
import type { LastingEffect } from '../domain/access/api-key.ts';
import { QUOTE_HEADER } from './compute/quote.ts';
import { z } from 'zod';
import {
  errorCodes,
  notLoggedInError,
  plainError,
  problem,
  PROBLEM_TYPE,
  unroutedCodes,
  type ErrorCode,
  type UnroutedCode,
} from './common.ts';
import { SECOND_FACTOR_HEADER } from './access/second-factor.ts';
import { bodyLimitOf } from './schema-bounds.ts';
import { closed, componentsOf } from './closed-schemas.ts';
import { exampleIds, exampleOf, type Json } from './examples.ts';
import { FILE_TYPE } from './storage/file.ts';
import { OPERATION_HEADER } from './compute/operation.ts';
import { IGNORED_HEADER, isOfInterface, type JsonRoute, type Route, type Success } from './route.ts';
import { ACCESS_COOKIE, BASE_PATH, routeNames, routeOf } from './routes.ts';
import type { RouteName } from './routes.ts';
import { DEFAULT_WAIT_S, MAX_WAIT_S, WAIT_HEADER } from './compute/instance.ts';

type JsonObject = { [name: string]: Json };
type StreamRoute = Exclude<Route, JsonRoute>;

/** Status and title of each code, from the server (`edge/http/status.ts`). */
export type ErrorKinds = Record<ErrorCode, { status: number; title: string }>;

interface Context {
  errorKinds: ErrorKinds;
  /** Named schemas, collected while operations are written. */
  schemas: JsonObject;
  /** Schemas of routes that ignore unknown members. */
  open: ReadonlySet<string>;
}

const ref = (kind: string, name: string): JsonObject => ({ $ref: `#/components/${kind}/${name}` });

const tags: Record<string, string> = {
  instance: 'Instances: launch, states, ports, logs, commands, usage',
  storage: 'Volumes, snapshots and files',
  operation: 'Progress of changes that take time',
  resource: 'Instance types, prices and stock',
  image: 'Images',
  registry: 'Credentials of registries',
  region: 'Regions',
  user: 'Login, account and keys',
  admin: 'Administration',
  balance: 'Balance',
  events: 'Event stream',
  billing: 'Vouchers and credits',
  price: 'History of prices',
  webhook: 'Requests to your programs about events',
};

export function openapiDocument({
  version,
  errorKinds,
  prefix = '',
}: Pick<Context, 'errorKinds'> & { version: string; prefix?: string }): JsonObject {
  const context: Context = { errorKinds, schemas: {}, open: openComponents(errorKinds) };
  const paths: JsonObject = {};
  for (const name of routeNames) {
    const route = routeOf(name);
    paths[route.path] = {
      ...asObject(paths[route.path] ?? {}),
      [route.method.toLowerCase()]:
        route.kind === 'json' ? jsonOperation(name, route, context) : streamOperation(name, route, context),
    };
  }
  for (const schema of [plainError, notLoggedInError, problem]) schemaOf(schema, 'output', context);
  return {
    openapi: '3.1.1',
    info: {
      title: 'Berth',
      version,
      description:
        'A cloud of notebook instances: launch and list instances, create and list storage volumes. ' +
        'A success body never has a `message` member; an error body always has one.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      contact: { name: 'The operator of this server' },
    },
    servers: [{ url: prefix + BASE_PATH }],
    security: [{ cookie: [] }, { bearer: [] }, { apiKey: [] }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(context.schemas).toSorted(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes,
      responses: responseComponents(errorKinds),
      parameters: parameterComponents,
      headers: headerComponents,
    },
  };
}

function openComponents(errorKinds: ErrorKinds): Set<string> {
  const context: Context = { errorKinds, schemas: {}, open: new Set() };
  const bodies = routeNames
    .map(routeOf)
    .flatMap((route) =>
      route.kind === 'json' && isOfInterface(route) ? [schemaOf(route.body, 'input', context)] : [],
    );
  return componentsOf(bodies, context.schemas);
}

/** RFC 9110, 5.5. All headers together have at most 32 KiB. */
const HEADER_VALUE = '^[\\t\\x20-\\x7e\\x80-\\xff]*$';

const securitySchemes: JsonObject = {
  cookie: { type: 'apiKey', in: 'cookie', name: ACCESS_COOKIE, description: 'Token of a login, valid for a day' },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The same token. An Authorization header decides alone',
  },
  apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'Key of `/user/key/create`' },
};

/** `true`, or a number up to `MAX_WAIT_S`. */
const WAIT = '^(true|[1-9][0-9]{0,4}|[1-5][0-9]{5}|60[0-3][0-9]{3}|604[0-7][0-9]{2}|604800)$';

const parameterComponents: JsonObject = {
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description:
      'Repeats of a key with the same body return the first result; another body is refused (422). ' +
      'Use a fresh key, such as a UUID, for each change',
    schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$' },
  },
  WaitForCapacity: {
    name: WAIT_HEADER,
    in: 'header',
    required: false,
    description:
      'Waits for capacity in the order of requests instead of failing (409). ' +
      'The first of each account keeps its place for 10 minutes; an account may have 10 in a region. ' +
      `\`true\` waits for at most ${DEFAULT_WAIT_S / 3_600} hours, a number for as many seconds, ` +
      `at most ${MAX_WAIT_S}`,
    schema: { type: 'string', pattern: WAIT },
  },
  Quote: {
    name: QUOTE_HEADER,
    in: 'header',
    required: false,
    description:
      'The `quoteId` of `/instance/quote` for the same body: the launch has its price, or is refused ' +
      '(400, or 409 after its end)',
    schema: { type: 'string', maxLength: 500 },
  },
};

const headerComponents: JsonObject = {
  ErrorCode: { description: 'Error code', schema: { type: 'string', enum: [...errorCodes] } },
  ErrorHint: {
    description: 'What would work, where the message is fixed: a type mismatch',
    schema: { type: 'string', maxLength: 100 },
  },
  RequestId: {
    description: 'The `X-Request-Id` of the request, or a new ID',
    schema: { type: 'string', maxLength: 100 },
  },
  OperationId: {
    description:
      'Operation that the request started, for `/operation/get`. A repeated request names the same operation. ' +
      'Absent if nothing was left to do',
    schema: { type: 'string', maxLength: 100 },
  },
  IgnoredFields: {
    description:
      'Paths of unknown members of the body, sorted and percent-encoded, at most 20; ends in `...` if there are more. ' +
      'Absent if there are none',
    schema: { type: 'string', maxLength: 1_100 },
  },
  SecondFactor: {
    description:
      '`code`: the password is right, and a code of the second factor is missing, wrong or used. ' +
      '`setUp`: the role needs a second factor, which this login must set up first',
    schema: { type: 'string', enum: ['code', 'setUp'] },
  },
  RetryAfter: { description: 'Seconds before a retry may succeed', schema: { type: 'integer' } },
  ETag: { description: 'Changes with each change of the file', schema: { type: 'string', maxLength: 100 } },
  Allow: { description: 'Methods of the path', schema: { type: 'string', maxLength: 100 } },
  SetCookie: {
    description: `Sets the cookie \`${ACCESS_COOKIE}\`: HttpOnly, SameSite=Lax, Secure over https`,
    schema: { type: 'string' },
  },
};

const headerOf: Record<string, JsonObject> = {
  'X-Request-Id': ref('headers', 'RequestId'),
  [OPERATION_HEADER]: ref('headers', 'OperationId'),
  [IGNORED_HEADER]: ref('headers', 'IgnoredFields'),
  ETag: ref('headers', 'ETag'),
  'Set-Cookie': ref('headers', 'SetCookie'),
};
const headers = (...names: string[]): JsonObject =>
  Object.fromEntries(names.map((name) => [name, headerOf[name] ?? {}]));

function jsonOperation(name: RouteName, route: JsonRoute, context: Context): JsonObject {
  const parameters = [
    ...(route.idempotent ? [ref('parameters', 'IdempotencyKey')] : []),
    ...(route.waits ? [ref('parameters', 'WaitForCapacity')] : []),
    ...(route.quoted ? [ref('parameters', 'Quote')] : []),
  ];
  return {
    ...describe(name, route),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.method === 'POST' ? { requestBody: requestBodyOf(route, context) } : {}),
    responses: {
      200: {
        description: 'Success',
        headers: headers(
          'X-Request-Id',
          ...(route.operation ? [OPERATION_HEADER] : []),
          ...(route.method === 'POST' && isOfInterface(route) ? [IGNORED_HEADER] : []),
          ...(route.setsCookie ? ['Set-Cookie'] : []),
        ),
        content: {
          'application/json': { schema: schemaOf(route.answer, 'output', context), example: exampleOf(route.answer) },
        },
      },
      ...errorResponses(route, context),
      ...unroutedResponses,
    },
  };
}

const requestBodyOf = (route: JsonRoute, context: Context): JsonObject => ({
  required: !route.body.safeParse({}).success,
  description:
    `At most ${bodyLimitOf(route)} bytes; null counts as not set. Unknown members are ` +
    (isOfInterface(route) ? `ignored, and named in \`${IGNORED_HEADER}\`` : 'refused'),
  content: {
    'application/json': { schema: bodySchema(route, context), example: exampleOf(route.body) },
  },
});

function bodySchema(route: JsonRoute, context: Context): Json {
  const schema = schemaOf(route.body, 'input', context);
  return isOfInterface(route) ? schema : closed(schema, context.schemas, context.open);
}

function streamOperation(name: RouteName, route: StreamRoute, context: Context): JsonObject {
  return {
    ...describe(name, route),
    parameters: parametersOf(route, context),
    ...(route.kind === 'bytes' && route.upload !== undefined
      ? {
          requestBody: {
            required: false,
            description: route.upload,
            content: { [FILE_TYPE]: { schema: { type: 'string', format: 'binary' } } },
          },
        }
      : {}),
    responses: {
      ...Object.fromEntries(route.successes.map((success) => [success.status, successResponse(success, context)])),
      ...problems(route.codes, context),
      ...unroutedResponses,
    },
  };
}

function successResponse({ description, contentTypes, schema, etag }: Success, context: Context): JsonObject {
  const contentOf = (type: string): JsonObject => {
    if (schema !== undefined) return { schema: schemaOf(schema, 'output', context), example: exampleOf(schema) };
    return { schema: type === FILE_TYPE ? { type: 'string', format: 'binary' } : { type: 'string' } };
  };
  return {
    description,
    headers: headers('X-Request-Id', ...(etag === true ? ['ETag'] : [])),
    ...(contentTypes === undefined
      ? {}
      : { content: Object.fromEntries(contentTypes.map((type) => [type, contentOf(type)])) }),
  };
}

function parametersOf(route: StreamRoute, context: Context): JsonObject[] {
  const { properties = {} } = asObject(schemaOf(route.query, 'input', context));
  const required = route.query instanceof z.ZodObject ? route.query.shape : {};
  const inPath = route.kind === 'bytes' ? Object.entries(route.pathParameters) : [];
  return [
    ...inPath.map(([name, description]): JsonObject => ({
      name,
      in: 'path',
      required: true,
      description,
      schema: { type: 'string', maxLength: name === 'id' ? 100 : 4096 },
      example: name === 'id' ? exampleIds.volume : 'data/train.csv',
    })),
    ...route.headers.map(
      ({ name, description, required: isRequired = false, values, pattern = HEADER_VALUE }): JsonObject => ({
        name,
        in: 'header',
        required: isRequired,
        description,
        schema: values === undefined ? { type: 'string', pattern } : { type: 'string', enum: [...values] },
      }),
    ),
    ...Object.entries(asObject(properties)).map(([name, schema]): JsonObject => {
      const { description = '', example, ...rest } = asObject(schema);
      const field = required[name];
      const isRequired = field instanceof z.ZodType && !field.safeParse(undefined).success;
      return {
        name,
        in: 'query',
        required: isRequired,
        description,
        schema: rest,
        ...(isRequired && field instanceof z.ZodType ? { example: exampleOf(field, name) } : {}),
        ...(example === undefined ? {} : { example }),
        ...(rest['type'] === 'array' ? { style: 'form', explode: true } : {}),
      };
    }),
  ];
}

const describe = (name: RouteName, { summary, details, source, who, path, ...route }: Route): JsonObject => ({
  operationId: name,
  summary,
  description: [
    ...(details === undefined ? [] : [details]),
    whoMayCall[who],
    ...('lasting' in route && route.lasting !== null ? [keysOf(route.lasting)] : []),
    ...(source === 'ours' ? [] : [`Source: ${source}.`]),
  ].join(' '),
  tags: [path.split('/')[1] ?? ''],
  ...(who === 'anyone' ? { security: [] } : {}),
});

const keysOf = ({ scope }: LastingEffect): string =>
  `An API key needs the scope \`${scope}\` and neither an end nor addresses: the effect would outlast them.`;

const whoMayCall: Record<Route['who'], string> = {
  anyone: 'Needs no login.',
  account: "Needs a login or an API key; concerns the caller's own resources.",
  operator: 'Needs a login or an API key of an account in the group `operator` or `admin`.',
  admin: 'Needs a login or an API key of an account in the group `admin`.',
};

/** One response for each status; its description lists the error codes. */
const errorResponses = (route: JsonRoute, { errorKinds }: Context): JsonObject =>
  Object.fromEntries(
    codesByStatus(errorKinds, (code) => canAnswer(route, code)).map(([status]) => [
      status,
      ref('responses', responseName(status, route)),
    ]),
  );

const problems = (codes: readonly ErrorCode[], { errorKinds }: Context): JsonObject =>
  Object.fromEntries(
    codesByStatus(errorKinds, (code) => codes.includes(code)).map(([status]) => [
      status,
      ref('responses', `Problem${status}`),
    ]),
  );

const secondFactorHeader: JsonObject = { [SECOND_FACTOR_HEADER]: ref('headers', 'SecondFactor') };

const responseName = (status: number, { errors, who }: Pick<JsonRoute, 'errors' | 'who'>): string => {
  if (errors === 'problem') return `Problem${status}`;
  return status === 401 && who === 'anyone' ? 'LoginRefused' : `Error${status}`;
};

function codesByStatus(errorKinds: ErrorKinds, includes: (code: ErrorCode) => boolean): [number, ErrorCode[]][] {
  const statuses = new Map<number, ErrorCode[]>();
  for (const code of errorCodes) {
    const { status } = errorKinds[code];
    if (includes(code)) statuses.set(status, [...(statuses.get(status) ?? []), code]);
  }
  return [...statuses];
}

/** Answers before routing. */
const unroutedResponses: JsonObject = {
  405: ref('responses', 'MethodNotAllowed'),
  408: ref('responses', 'RequestTimeout'),
  417: ref('responses', 'ExpectationFailed'),
  421: ref('responses', 'Misdirected'),
  431: ref('responses', 'HeadersTooLarge'),
};

const jsonError = (name: string): JsonObject => ({ 'application/json': { schema: ref('schemas', name) } });

function responseComponents(errorKinds: ErrorKinds): JsonObject {
  const unrouted = (code: UnroutedCode, more: JsonObject = {}): JsonObject => ({
    description: `\`${code}\`: ${errorKinds[code].title}`,
    headers: { 'X-Error-Code': ref('headers', 'ErrorCode'), ...headers('X-Request-Id'), ...more },
    content: jsonError('Error'),
  });
  const responses: JsonObject = {
    MethodNotAllowed: unrouted('method_not_allowed', { Allow: ref('headers', 'Allow') }),
    RequestTimeout: unrouted('request_timeout'),
    ExpectationFailed: unrouted('expectation_failed'),
    Misdirected: unrouted('misdirected'),
    HeadersTooLarge: unrouted('headers_too_large'),
  };
  const rows = routeNames.map(routeOf);
  const plainRoutes = rows.filter((row) => row.kind === 'json' && row.errors === 'plain');
  for (const [status, codes] of codesByStatus(errorKinds, (code) => !isUnrouted(code))) {
    const answering = (content: JsonObject, more: JsonObject = {}): JsonObject => ({
      description: codes.map((code) => `\`${code}\`: ${errorKinds[code].title}`).join('; '),
      headers: {
        'X-Error-Code': ref('headers', 'ErrorCode'),
        ...(codes.includes('field_type') ? { 'X-Error-Hint': ref('headers', 'ErrorHint') } : {}),
        ...headers('X-Request-Id'),
        ...(status === 429 || status === 503 ? { 'Retry-After': ref('headers', 'RetryAfter') } : {}),
        ...(status === 403 ? secondFactorHeader : {}),
        ...more,
      },
      content,
    });
    const isPlain = plainRoutes.some((row) => row.kind === 'json' && codes.some((code) => canAnswer(row, code)));
    if (isPlain) responses[`Error${status}`] = answering(jsonError(status === 401 ? 'NotLoggedIn' : 'Error'));
    responses[`Problem${status}`] = answering({ [PROBLEM_TYPE]: { schema: ref('schemas', 'Problem') } });
    if (status === 401) responses['LoginRefused'] = answering(jsonError('Error'), secondFactorHeader);
  }
  return responses;
}

const isUnrouted = (code: ErrorCode): boolean => unroutedCodes.some((one) => one === code);

/** Excludes codes that the row rules out. Control may answer the others. */
function canAnswer(route: JsonRoute, code: ErrorCode): boolean {
  if (isUnrouted(code)) return false;
  if (code === 'range_not_satisfiable') return false;
  if (code === 'precondition_failed') return route.versioned;
  if (code === 'volume_full') return route.fills;
  if (code === 'storage_full') return !route.reads;
  if (code === 'idempotency_mismatch') return route.idempotent;
  const readsFields = route.body instanceof z.ZodObject && Object.keys(route.body.shape).length > 0;
  if (code === 'field_missing' || code === 'field_type' || code === 'field_value') return readsFields;
  if (code === 'body_not_json' || code === 'body_too_large') return route.method === 'POST';
  return true;
}

/** JSON Schema of a body or answer. Named schemas move to the components. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', { schemas }: Context): JsonObject {
  const made = z.toJSONSchema(schema, { io, target: 'draft-2020-12' });
  const { $schema: _dialect, $defs = {}, ...root } = asJson(made);
  for (const [id, definition] of Object.entries(asObject($defs))) schemas[id] = componentOf(definition, io);
  const name = schema.meta()?.id;
  if (name === undefined || '$ref' in root) return asObject(relink(root));
  schemas[name] = componentOf(root, io);
  return ref('schemas', name);
}

const componentOf = (definition: Json, io: 'input' | 'output'): Json => {
  const linked = relink(definition);
  return io === 'input' ? withoutDefaults(linked) : linked;
};

const asJson = (schema: unknown): JsonObject => asObject(JSON.parse(JSON.stringify(schema)));

function asObject(value: Json): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('a JSON Schema is an object here');
  return value;
}

/** Turns `$defs` of zod into components and drops the ids that zod writes into each. */
function relink(value: Json): Json {
  if (Array.isArray(value)) return value.map(relink);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([name, member]) => !(name === 'id' && typeof member === 'string'));
  return Object.fromEntries(
    members.map(([name, member]): [string, Json] => [
      name,
      name === '$ref' && typeof member === 'string'
        ? member.replace('#/$defs/', '#/components/schemas/')
        : relink(member),
    ]),
  );
}

/** Moves defaults into descriptions: generators make a request field with `default` mandatory. */
function withoutDefaults(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutDefaults);
  if (typeof value !== 'object' || value === null) return value;
  const { default: preset, ...rest } = Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, Json] => [name, withoutDefaults(member)]),
  );
  if (preset === undefined) return rest;
  const { description, ...others } = rest;
  return {
    ...others,
    description: `${typeof description === 'string' ? description : ''}. Default: ${JSON.stringify(preset)}`,
  };
}
