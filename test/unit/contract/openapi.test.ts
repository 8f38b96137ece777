/** The API document equals the committed file, is complete, and matches the route table. */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { exampleOf, type Json } from '../../../src/contract/examples.ts';
import { MAX_WAIT_S } from '../../../src/contract/compute/instance.ts';
import { openapiDocument } from '../../../src/contract/openapi.ts';
import { OPERATION_HEADER } from '../../../src/contract/compute/operation.ts';
import {
  jsonRouteNames,
  jsonRouteOf,
  routeNames,
  routeOf,
  routes,
  type RouteName,
} from '../../../src/contract/routes.ts';
import { errorKinds } from '../../../src/edge/http/status.ts';
import { openapiFile, openapiText } from '../../../src/main/write-openapi.ts';

const document = openapiDocument({ version: '1.2.3', errorKinds });

const at = (value: Json | undefined, ...path: string[]): Json | undefined =>
  path.reduce<Json | undefined>(
    (inner, name) => (typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? inner[name] : undefined),
    value,
  );

const asObject = (value: Json | undefined): { [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};

const operationOf = (name: RouteName): Json | undefined => {
  const { path, method } = routeOf(name);
  return at(document, 'paths', path, method.toLowerCase());
};

test('docs/openapi.json equals the generated document (npm run openapi writes it)', async () => {
  expect(await readFile(openapiFile, 'utf8')).toBe(await openapiText());
});

test('every route is in the document once, with method, summary and an answer', () => {
  const documented = Object.entries(asObject(at(document, 'paths'))).flatMap(([path, methods]) =>
    Object.keys(asObject(methods)).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const inTable = routeNames.map(routeOf).map(({ method, path }) => `${method} ${path}`);
  expect(documented.toSorted()).toEqual(inTable.toSorted());
  for (const name of routeNames) {
    const route = routeOf(name);
    const operation = operationOf(name);
    expect(at(operation, 'operationId')).toBe(name);
    expect(at(operation, 'summary')).toBe(route.summary);
    for (const status of ['401', '405', '408', '431'])
      expect(at(operation, 'responses', status), `${name} ${status}`).toBeTypeOf('object');
    if (route.who === 'anyone') expect(at(operation, 'security')).toEqual([]);
    if (route.kind !== 'json') {
      for (const { status, description } of route.successes)
        expect(at(operation, 'responses', String(status), 'description')).toBe(description);
      continue;
    }
    const answer = at(operation, 'responses', '200', 'content', 'application/json', 'schema', '$ref');
    expect(answer, `${name} answers an anonymous object`).toBeTypeOf('string');
    expect(at(operation, 'requestBody') !== undefined).toBe(route.method === 'POST');
    expect(at(operation, 'responses', '413') !== undefined).toBe(route.method === 'POST');
  }
});

test('the pattern of the wait ends at its limit', () => {
  const pattern = JSON.stringify(at(document, 'components', 'parameters', 'WaitForCapacity', 'schema', 'pattern'));
  const allowed = [1, 99_999, MAX_WAIT_S - 1, MAX_WAIT_S, MAX_WAIT_S + 1, 610_000, 999_999].filter((seconds) =>
    new RegExp(JSON.parse(pattern)).test(String(seconds)),
  );
  expect(allowed).toEqual([1, 99_999, MAX_WAIT_S - 1, MAX_WAIT_S]);
});

test('exactly the answers with an operation document its header', () => {
  for (const name of jsonRouteNames) {
    const headers = at(operationOf(name), 'responses', '200', 'headers');
    expect([name, at(headers, OPERATION_HEADER) !== undefined]).toEqual([name, routes[name].operation]);
  }
});

/** Yields every object of the document with its path. */
function* objectsOf(value: Json, path: string[] = []): Generator<{ path: string[]; object: { [name: string]: Json } }> {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* objectsOf(item, [...path, String(index)]);
  } else if (typeof value === 'object' && value !== null) {
    if (path.at(-1) !== 'example') yield { path, object: value };
    for (const [name, member] of Object.entries(value))
      if (name !== 'example') yield* objectsOf(member, [...path, name]);
  }
}

test('every text field of a request has a bound', () => {
  const isRequest = (path: string[]): boolean => {
    const [top, kind, name = ''] = path;
    if (top === 'components') return kind === 'schemas' && requestComponents.has(name);
    return path.includes('parameters') && path.includes('schema');
  };
  const requestComponents = new Set(
    jsonRouteNames.flatMap((name) => [...componentsOf(at(operationOf(name), 'requestBody') ?? null)]),
  );
  const unbounded = [...objectsOf(document)].filter(
    ({ path, object }) =>
      isRequest(path) &&
      object['type'] === 'string' &&
      !['maxLength', 'pattern', 'enum', 'const'].some((bound) => bound in object),
  );
  expect(unbounded.map(({ path }) => path.join('.'))).toEqual([]);
  expect(requestComponents.size).toBeGreaterThan(30);
});

/** Names of the components a part of the document refers to, at any depth. */
function componentsOf(part: Json, found = new Set<string>()): Set<string> {
  for (const { object } of objectsOf(part)) {
    const name = /^#\/components\/schemas\/(.+)$/.exec(typeof object['$ref'] === 'string' ? object['$ref'] : '')?.[1];
    if (name === undefined || found.has(name)) continue;
    found.add(name);
    componentsOf(at(document, 'components', 'schemas', name) ?? null, found);
  }
  return found;
}

test('every property and parameter has a description, and every secret its format', () => {
  const bare = [...objectsOf(document)].flatMap(({ path, object }) => {
    const properties = at(object, 'properties');
    const isSchema = object['type'] === 'object' && properties !== undefined;
    const fields = isSchema ? Object.entries(asObject(properties)) : [];
    const isParameter = 'in' in object && path.includes('parameters');
    return [
      ...fields.filter(([, field]) => !at(field, 'description')).map(([name]) => [...path, name].join('.')),
      ...(isParameter && !object['description'] ? [path.join('.')] : []),
    ];
  });
  expect(bare).toEqual([]);
  const secrets = [...objectsOf(document)].filter(
    ({ path, object }) => /password$|^secret$/i.test(path.at(-1) ?? '') && object['type'] === 'string',
  );
  expect(secrets.length).toBeGreaterThan(4);
  for (const { path, object } of secrets) expect(object['format'], path.join('.')).toBe('password');
});

test('every operation has a tag that the document describes, and an example', () => {
  const described = Array.isArray(document['tags']) ? document['tags'].map((tag) => at(tag, 'name')) : [];
  for (const name of routeNames) {
    const operation = operationOf(name);
    const tagged = at(operation, 'tags');
    expect(Array.isArray(tagged) && tagged.length === 1 && described.includes(tagged[0]), name).toBe(true);
    expect(JSON.stringify(operation), name).toContain('"example":');
  }
});

test('every example is valid by its schema', () => {
  for (const name of jsonRouteNames) {
    const route = jsonRouteOf(name);
    const { success: isRequest, error } = route.body.safeParse(exampleOf(route.body));
    expect([name, isRequest, error?.issues]).toEqual([name, true, undefined]);
    const answer = route.answer.safeParse(exampleOf(route.answer));
    expect([name, answer.success, answer.error?.issues]).toEqual([name, true, undefined]);
  }
});

test('every reference resolves, and every component is referenced', () => {
  const references = new Set(
    [...objectsOf(document)].flatMap(({ object: { $ref } }) => (typeof $ref === 'string' ? [$ref] : [])),
  );
  for (const reference of references) {
    expect(at(document, ...reference.replace(/^#\//, '').split('/')), reference).toBeTypeOf('object');
  }
  for (const kind of ['schemas', 'responses', 'headers', 'parameters']) {
    for (const name of Object.keys(at(document, 'components', kind) ?? {})) {
      expect([...references], `${kind}/${name} is used by nothing`).toContain(`#/components/${kind}/${name}`);
    }
  }
});

test('the document states required fields, defaults, closed sets and bounds of the interface', () => {
  const launch = at(document, 'components', 'schemas', 'LaunchRequest');
  expect(at(launch, 'required')).toEqual([
    'name',
    'imageId',
    'instanceTypeId',
    'region',
    'billing',
    'remoteStorages',
    'instanceConfiguration',
    'nodePorts',
  ]);
  expect(at(launch, 'properties', 'isSpotInstance', 'description')).toMatch(/Default: false$/);
  expect(at(launch, 'properties', 'nodePorts', 'uniqueItems')).toBe(true);
  const instance = at(document, 'components', 'schemas', 'Instance', 'properties', 'actions');
  expect(at(instance, 'uniqueItems')).toBe(true);
  const billing = at(document, 'components', 'schemas', 'BillingRequest');
  expect(at(billing, 'properties', 'chargeMode', 'enum')).toEqual([
    'tidePerHour',
    'perHour',
    'perDay',
    'perWeek',
    'perMonth',
  ]);
  expect(at(document, 'components', 'schemas', 'PagerRequest', 'properties', 'pageSize', 'maximum')).toBe(500);
  expect(at(document, 'components', 'schemas', 'NotLoggedIn', 'properties', 'code', 'const')).toBe(-1);
});

test('the same table gives the same document', () => {
  expect(openapiDocument({ version: '1.2.3', errorKinds })).toEqual(document);
});
