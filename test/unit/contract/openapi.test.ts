/** The API document is the committed one, is whole, and says of each route what the table says. */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { EVENTS_PATH } from '../../../src/contract/events.ts';
import { EVENT_STREAM_TYPE } from '../../../src/contract/server-sent.ts';
import { LOGS_PATH } from '../../../src/contract/log.ts';
import { FILE_METHODS, FILE_PATH } from '../../../src/contract/file.ts';
import { openapiDocument } from '../../../src/contract/openapi.ts';
import type { Json } from '../../../src/contract/openapi.ts';
import { OPERATION_HEADER } from '../../../src/contract/operation.ts';
import { EXEC_PATH, TERMINAL_PATH } from '../../../src/contract/exec.ts';
import { routeNames, routes } from '../../../src/contract/routes.ts';
import { errorKinds } from '../../../src/edge/http/status.ts';
import { openapiFile, openapiText } from '../../../src/main/write-openapi.ts';

const document = openapiDocument({ version: '1.2.3', errorKinds });

const at = (value: Json | undefined, ...path: string[]): Json | undefined =>
  path.reduce<Json | undefined>(
    (inner, name) => (typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? inner[name] : undefined),
    value,
  );

test('docs/openapi.json is the document of the present table (npm run openapi writes it)', async () => {
  expect(await readFile(openapiFile, 'utf8')).toBe(await openapiText());
});

test('every route is in the document once, by its method, with its summary and an answer', () => {
  const seen: string[] = [];
  for (const name of routeNames) {
    const { path, method, summary, who } = routes[name];
    const operation = at(document, 'paths', path, method.toLowerCase());
    expect(at(operation, 'operationId')).toBe(name);
    expect(at(operation, 'summary')).toBe(summary);
    expect(at(operation, 'responses', '200', 'content', 'application/json', 'schema')).toBeTypeOf('object');
    expect(at(operation, 'responses', '401')).toBeTypeOf('object');
    expect(at(operation, 'requestBody') !== undefined).toBe(method === 'POST');
    if (who === 'anyone') expect(at(operation, 'security')).toEqual([]);
    seen.push(path);
  }
  // The stream that no answer ends is outside of the table.
  expect(at(document, 'paths', EVENTS_PATH, 'get', 'responses', '200', 'content')).toHaveProperty(EVENT_STREAM_TYPE);
  expect(at(document, 'paths', LOGS_PATH, 'get', 'responses', '200', 'content')).toHaveProperty(EVENT_STREAM_TYPE);
  seen.push(EVENTS_PATH);
  // So are the bytes of files, which are no JSON.
  for (const method of FILE_METHODS)
    expect(at(document, 'paths', FILE_PATH, method.toLowerCase(), 'responses', '401')).toBeTypeOf('object');
  seen.push(FILE_PATH);
  // And WebSockets.
  for (const path of [EXEC_PATH, TERMINAL_PATH])
    expect(at(document, 'paths', path, 'get', 'responses', '101', 'description')).toBeTypeOf('string');
  seen.push(TERMINAL_PATH);
  expect(Object.keys(at(document, 'paths') ?? {}).toSorted()).toEqual(seen.toSorted());
});

test('an answer that names its operation says so, and no other does', () => {
  for (const name of routeNames) {
    const { path, method, operation } = routes[name];
    const headers = at(document, 'paths', path, method.toLowerCase(), 'responses', '200', 'headers');
    expect([name, at(headers, OPERATION_HEADER) !== undefined]).toEqual([name, operation]);
  }
});

test('every reference in the document leads to something in it, and every component is referred to', () => {
  const asked = new Set<string>();
  const walk = (value: Json): void => {
    if (Array.isArray(value)) for (const item of value) walk(item);
    else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        if (name === '$ref' && typeof member === 'string') asked.add(member);
        else walk(member);
      }
    }
  };
  walk(document);
  for (const reference of asked) {
    expect(at(document, ...reference.replace(/^#\//, '').split('/')), reference).toBeTypeOf('object');
  }
  for (const kind of ['schemas', 'responses', 'headers', 'parameters']) {
    for (const name of Object.keys(at(document, 'components', kind) ?? {})) {
      expect([...asked], `${kind}/${name} is used by nothing`).toContain(`#/components/${kind}/${name}`);
    }
  }
});

test('the document says what the interface fixes: required fields, defaults, closed sets and bounds', () => {
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
  expect(at(launch, 'properties', 'isSpotInstance', 'default')).toBe(false);
  expect(at(launch, 'properties', 'billing', 'properties', 'chargeMode', 'enum')).toEqual([
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
