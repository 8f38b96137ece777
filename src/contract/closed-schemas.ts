/** Closes request schemas of routes that refuse unknown members, at any depth. */
import type { Json } from './examples.ts';

type JsonObject = { [name: string]: Json };

const COMPONENTS = '#/components/schemas/';

/** Components that a schema refers to, at any depth. */
export function componentsOf(schema: Json, schemas: JsonObject, found = new Set<string>()): Set<string> {
  if (Array.isArray(schema)) for (const item of schema) componentsOf(item, schemas, found);
  else if (typeof schema === 'object' && schema !== null) {
    const name = nameOf(schema['$ref']);
    if (name !== undefined && !found.has(name)) componentsOf(schemas[name] ?? null, schemas, found.add(name));
    for (const member of Object.values(schema)) componentsOf(member, schemas, found);
  }
  return found;
}

/** Closes a schema. Components in `open` stay, and get a closed copy named `Exact…`. */
export function closed(schema: Json, schemas: JsonObject, open: ReadonlySet<string>): Json {
  if (Array.isArray(schema)) return schema.map((item) => closed(item, schemas, open));
  if (typeof schema !== 'object' || schema === null) return schema;
  const members = Object.fromEntries(
    Object.entries(schema).map(([key, member]): [string, Json] => [key, closed(member, schemas, open)]),
  );
  const name = nameOf(schema['$ref']);
  if (name !== undefined) return { ...members, $ref: COMPONENTS + closedComponent(name, schemas, open) };
  return 'properties' in schema ? { ...members, additionalProperties: false } : members;
}

function closedComponent(name: string, schemas: JsonObject, open: ReadonlySet<string>): string {
  const target = open.has(name) ? `Exact${name}` : name;
  const original = schemas[name] ?? null;
  const isDone = target === name ? isClosed(original) : target in schemas;
  const copy = isDone ? null : closed(original, schemas, open);
  if (copy !== null && JSON.stringify(copy) === JSON.stringify(original)) return name;
  if (copy !== null) schemas[target] = copy;
  return target;
}

const isClosed = (schema: Json): boolean =>
  typeof schema === 'object' && schema !== null && !Array.isArray(schema) && schema['additionalProperties'] === false;

const nameOf = (reference: Json | undefined): string | undefined =>
  typeof reference === 'string' && reference.startsWith(COMPONENTS) ? reference.slice(COMPONENTS.length) : undefined;
