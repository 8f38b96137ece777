/**
 * Validates a body against a route's schema, with the error texts of docs/interface.md §7, §10.
 *
 * Each body costs one `safeParse`, of a part within the bounds of its schema. A refused one is
 * walked in the order of the interface's tables, level by level: for a missing field, a wrong JSON
 * type, too many items, then a value out of bounds. Null counts as not set in optional fields.
 * Unknown members come first: routes of docs/interface.md ignore and name them, all others refuse
 * them.
 */
import type { z } from 'zod';
import { Refusal } from '../../domain/kernel/refusal.ts';
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
    const parsed = schema.safeParse(boundedPart(shape, body));
    if (parsed.success) return parsed.data;
    if (body === undefined)
      throw new Refusal('body_not_json', `the body is empty, and ${notSet(firstMissing(shape, {}))}`);
    if (!isObject(body)) throw new Refusal('field_type', `the body must be a JSON object, not ${nameOfType(body)}`);
    const missing = firstMissing(shape, body);
    if (missing !== undefined) throw new Refusal('field_missing', notSet(missing));
    const mismatch = checkFields(shape, body).find(({ mismatched }) => mismatched);
    if (mismatch !== undefined) {
      const { path, wanted, value } = mismatch;
      throw new Refusal('field_type', `type mismatch for field "${path}"`, { hint: hintOf(wanted, value) });
    }
    for (const { path, excess } of checkFields(shape, body))
      if (excess !== null) throw new Refusal('field_value', `field "${path}" ${excess}`);
    throw new Refusal('field_value', explainValue(schema, body, parsed.error.issues));
  };
}

const notSet = (path: string | undefined): string => `field "${path ?? ''}" is not set`;

function nameOfType(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (value === null) return 'null';
  return isObject(value) ? 'an object' : `a ${typeof value}`;
}

const wantedTexts: Readonly<Record<Shape['type'], string>> = {
  number: 'a number',
  boolean: 'true or false',
  string: 'a string',
  array: 'an array',
  object: 'an object',
  record: 'an object',
};

function hintOf({ type }: Shape, value: unknown): string {
  const isQuoted = typeof value === 'string' && (type === 'number' ? QUOTED_NUMBER : QUOTED_BOOLEAN).test(value);
  if ((type === 'number' || type === 'boolean') && isQuoted) return `send ${value} without quotation marks`;
  return `send ${wantedTexts[type]}, not ${nameOfType(value)}`;
}

const QUOTED_NUMBER = /^-?\d{1,16}(?:\.\d{1,9})?$/;
const QUOTED_BOOLEAN = /^(?:true|false)$/;

interface FieldCheck {
  path: string;
  wanted: Shape;
  value: unknown;
  missing: boolean;
  mismatched: boolean;
  excess: string | null;
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
        yield {
          path,
          wanted,
          value,
          missing: required && !set,
          mismatched: set && !hasType(value, wanted),
          excess: excessOf(wanted, value),
        };
        if (wanted.type === 'object') below.push({ prefix: `${path}.`, value, shape: wanted });
        if (wanted.type !== 'array' || !Array.isArray(value)) continue;
        const { item } = wanted;
        // The first wrong item is enough.
        const wrong = value.findIndex((one) => !hasType(one, item));
        if (wrong >= 0) {
          const misfit = { path: `${path}[${wrong}]`, wanted: item, value: value[wrong] };
          yield { ...misfit, missing: false, mismatched: true, excess: null };
        }
        if (item.type !== 'object') continue;
        for (const [index, one] of value.entries())
          below.push({ prefix: `${path}[${index}].`, value: one, shape: item });
      }
    }
    level = below;
  }
}

const firstMissing = (shape: Shape, body: JsonObject): string | undefined =>
  checkFields(shape, body).find(({ missing }) => missing)?.path;

function excessOf(shape: Shape, value: unknown): string | null {
  if (shape.type === 'array' && Array.isArray(value) && value.length > shape.max)
    return `has ${value.length} items: it must have at most ${shape.max} items`;
  if (shape.type !== 'record' || !isObject(value)) return null;
  const members = Object.keys(value).length;
  if (members <= shape.max) return null;
  return shape.refusalOf(value) ?? `has ${members} members: it must have at most ${shape.max} members`;
}

/** Above it a text is invalid in each normal form: NFC joins at most four UTF-16 units to one. */
const MAX_UNITS_OF_CHARACTER = 8;

/**
 * Returns the value without members that the schema lacks, nulls that count as not set, and most of
 * what exceeds a bound: as invalid as the whole, at a bounded cost. Copies only what changes.
 */
function boundedPart(shape: Shape, value: unknown): unknown {
  switch (shape.type) {
    case 'string': {
      const longest = (shape.max + 1) * MAX_UNITS_OF_CHARACTER;
      return typeof value === 'string' && value.length > longest ? value.slice(0, longest) : value;
    }
    case 'record': {
      if (!isObject(value)) return value;
      const names = Object.keys(value);
      if (names.length <= shape.max) return value;
      return Object.fromEntries(names.slice(0, shape.max + 1).map((name) => [name, value[name]]));
    }
    case 'array': {
      if (!Array.isArray(value)) return value;
      const items: unknown[] = value.length > shape.max ? value.slice(0, shape.max + 1) : value;
      const parts = items.map((item) => boundedPart(shape.item, item));
      return parts.length === value.length && parts.every((part, at) => part === items[at]) ? value : parts;
    }
    case 'object':
      return isObject(value) ? boundedObject(shape, value) : value;
    default:
      return value;
  }
}

function boundedObject({ fields }: Extract<Shape, { type: 'object' }>, value: JsonObject): JsonObject {
  const part: JsonObject = {};
  let unchanged = 0;
  for (const { name, nullable, shape } of fields) {
    const member = value[name];
    if (member === undefined || (member === null && !nullable)) continue;
    part[name] = boundedPart(shape, member);
    if (part[name] === member) unchanged += 1;
  }
  return unchanged === Object.keys(value).length ? value : part;
}
