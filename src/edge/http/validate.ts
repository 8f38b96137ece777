/**
 * Validates a body against a route's schema, with the error texts of docs/interface.md §7, §10.
 *
 * A valid body costs one `safeParse`. Another is walked in the order of the interface's tables,
 * level by level: for a missing field, a wrong JSON type, then a value out of bounds. Null counts
 * as not set: nulls in optional fields are removed and the rest parsed again. Unknown members come
 * first: routes of docs/interface.md ignore and name them, all others refuse them.
 */
import type { z } from 'zod';
import { Refusal } from '../../domain/refusal.ts';
import { explainValue } from './explain-value.ts';
import { hasType, isObject, shapeOf, type JsonObject, type Shape } from './schema-shape.ts';
import { ignoredFieldsHeader, refuseMisspelled, refuseUnknown, unknownMembers } from './unknown-members.ts';

const isSet = (value: unknown): boolean => value !== undefined && value !== null;

/** `raw` is undefined for an empty body, valid where no field is required. */
export type Validate<Body> = (raw: unknown, nameIgnored?: (header: string) => void) => Body;

export function makeValidate<Body>(
  schema: z.ZodType<Body>,
  { unknown: policy, limiting = [] }: { unknown: 'ignore' | 'refuse'; limiting?: readonly string[] },
): Validate<Body> {
  const shape = shapeOf(schema);
  if (shape.type !== 'object') throw new Error('a body schema must be an object');
  const isEmptyValid = shape.fields.every((field) => !field.required);
  return (raw, nameIgnored) => {
    const body = raw === undefined && isEmptyValid ? {} : raw;
    const unknown = unknownMembers(shape, body);
    if (unknown[0] !== undefined) {
      if (policy === 'refuse') refuseUnknown(unknown[0]);
      refuseMisspelled(limiting, unknown);
      nameIgnored?.(ignoredFieldsHeader(unknown));
    }
    const parsed = schema.safeParse(body);
    if (parsed.success) return parsed.data;
    if (body === undefined)
      throw new Refusal('body_not_json', `the body is empty, and ${notSet(firstPath('missing', shape, {}))}`);
    if (!isObject(body)) throw new Refusal('field_type', `the body must be a JSON object, not ${nameOfType(body)}`);
    const missing = firstPath('missing', shape, body);
    if (missing !== undefined) throw new Refusal('field_missing', notSet(missing));
    const mismatch = firstPath('mismatched', shape, body);
    if (mismatch !== undefined) throw new Refusal('field_type', `type mismatch for field "${mismatch}"`);
    const filled = withoutNulls(shape, body);
    const again = schema.safeParse(filled);
    if (again.success) return again.data;
    throw new Refusal('field_value', explainValue(schema, filled, again.error.issues));
  };
}

const notSet = (path: string | undefined): string => `field "${path ?? ''}" is not set`;

function nameOfType(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  return value === null ? 'null' : `a ${typeof value}`;
}

interface FieldCheck {
  path: string;
  missing: boolean;
  mismatched: boolean;
}

interface Table {
  /** Path prefix of the fields: '' or ending in a dot. */
  prefix: string;
  value: unknown;
  shape: Shape;
}

/** Yields every field of the schema in the order of the tables, level by level. */
function* checkFields(root: Shape, body: JsonObject): Generator<FieldCheck> {
  let level: Table[] = [{ prefix: '', value: body, shape: root }];
  while (level.length > 0) {
    const below: Table[] = [];
    for (const { prefix, value: object, shape } of level) {
      if (shape.type !== 'object' || !isObject(object)) continue;
      for (const { name, required, shape: wanted } of shape.fields) {
        const path = prefix + name;
        const value = object[name];
        const set = isSet(value);
        yield { path, missing: required && !set, mismatched: set && !hasType(value, wanted) };
        if (wanted.type === 'object') below.push({ prefix: `${path}.`, value, shape: wanted });
        if (wanted.type !== 'array' || !Array.isArray(value)) continue;
        const { item } = wanted;
        // The first wrong item is enough: an array may have half a million.
        const wrong = value.findIndex((one) => !hasType(one, item));
        if (wrong >= 0) yield { path: `${path}[${wrong}]`, missing: false, mismatched: true };
        if (item.type !== 'object') continue;
        for (const [index, one] of value.entries())
          below.push({ prefix: `${path}[${index}].`, value: one, shape: item });
      }
    }
    level = below;
  }
}

const firstPath = (fault: 'missing' | 'mismatched', shape: Shape, body: JsonObject): string | undefined =>
  checkFields(shape, body).find((check) => check[fault])?.path;

function withoutNulls(shape: Shape, value: unknown): unknown {
  if (shape.type === 'array' && Array.isArray(value)) return value.map((item) => withoutNulls(shape.item, item));
  if (shape.type !== 'object' || !isObject(value)) return value;
  const fields = shape.fields.filter(({ name, nullable }) => isSet(value[name]) || (nullable && value[name] === null));
  return Object.fromEntries(fields.map((field) => [field.name, withoutNulls(field.shape, value[field.name])]));
}
