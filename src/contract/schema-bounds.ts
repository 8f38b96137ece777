/** Bounds that follow from the schema of a request: sizes of its values, and of a whole body. */
import { z } from 'zod';
import { ASCII, MAX_BODY_BYTES } from './common.ts';
import { isOfInterface, type JsonRoute } from './route.ts';

export function unwrapSchema(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return unwrapSchema(schema.unwrap());
  if (schema instanceof z.ZodPipe) return unwrapSchema(schema.in);
  return schema;
}

/** Longest text that a pattern alone bounds: a name, a month, a label. */
const PATTERN_CHARACTERS = 512;

/** Most characters of a string, items of an array, members of a record. Throws without a bound. */
export function boundOf(schema: z.core.$ZodType): number {
  const bound = declaredBound(schema);
  if (bound !== undefined) return bound;
  throw new Error(
    `a ${schema._zod.def.type} of a request has no bound: set max(), or maxLength or maxProperties in meta()`,
  );
}

function declaredBound(schema: z.core.$ZodType): number | undefined {
  if (schema instanceof z.ZodEnum) return Math.max(...schema.options.map((option) => String(option).length));
  const meta = schema instanceof z.ZodType ? schema.meta() : undefined;
  if (schema instanceof z.ZodString || schema instanceof z.ZodStringFormat) {
    const max = schema.maxLength ?? numberOf(meta?.['maxLength']);
    const hasPattern = schema instanceof z.ZodStringFormat || schema._zod.def.checks?.some(isPattern);
    return max ?? (hasPattern || meta?.['pattern'] !== undefined ? PATTERN_CHARACTERS : undefined);
  }
  if (!(schema instanceof z.ZodArray)) return numberOf(meta?.['maxProperties']);
  const maxima = schema._zod.def.checks?.map(({ _zod: { def } }) => maximumOf(def)) ?? [];
  return maxima.find((max) => max !== undefined) ?? numberOf(meta?.['maxItems']);
}

const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);
const isPattern = ({ _zod: { def } }: z.core.$ZodCheck): boolean => 'format' in def && def.format === 'regex';
const maximumOf = (def: z.core.$ZodCheckDef): number | undefined =>
  'maximum' in def ? numberOf(def.maximum) : undefined;

/** A character of UTF-16 has at most three bytes in UTF-8. */
const CHARACTER_BYTES = 3;
/** The longest number that JSON writes has 24 characters. */
const NUMBER_BYTES = 24;
const FALSE_BYTES = 5;

/** Bytes of the longest valid JSON, without spaces and escapes. */
export function jsonBytesOf(schema: z.core.$ZodType): number {
  const inner = unwrapSchema(schema);
  if (inner instanceof z.ZodObject)
    return Object.entries<z.core.$ZodType>(inner.shape).reduce(
      (bytes, [name, field]) => bytes + name.length + '"":,'.length + jsonBytesOf(field),
      '{}'.length,
    );
  if (inner instanceof z.ZodArray) return boundOf(inner) * (jsonBytesOf(inner.element) + ','.length) + '[]'.length;
  if (inner instanceof z.ZodRecord)
    return boundOf(inner) * (nameBytesOf(inner) + ':,'.length + memberBytesOf(inner)) + '{}'.length;
  const { type } = inner._zod.def;
  if (type === 'number') return NUMBER_BYTES;
  if (type === 'boolean') return FALSE_BYTES;
  const isAscii = inner instanceof z.ZodType && inner.meta()?.['pattern'] === ASCII;
  return boundOf(inner) * (isAscii ? 1 : CHARACTER_BYTES) + '""'.length;
}

/** The JSON Schema of a record may bound names and values that its checks bound. */
const nameBytesOf = (record: z.ZodRecord): number =>
  (declaredBound(record.keyType) ?? PATTERN_CHARACTERS) * CHARACTER_BYTES + '""'.length;

function memberBytesOf(record: z.ZodRecord): number {
  const value = unwrapSchema(record.valueType);
  if (!(value instanceof z.ZodString) || declaredBound(value) !== undefined) return jsonBytesOf(value);
  const members = record.meta()?.['additionalProperties'];
  const max = typeof members === 'object' && members !== null && 'maxLength' in members ? members.maxLength : undefined;
  return (numberOf(max) ?? PATTERN_CHARACTERS) * CHARACTER_BYTES + '""'.length;
}

const LEAST_BODY_BYTES = 4 * 1024;

/**
 * Routes of docs/interface.md take 1 MiB from callers with a login. All others, and strangers, send
 * what the schema allows.
 */
export function bodyLimitOf(route: Pick<JsonRoute, 'body' | 'source' | 'who'>): number {
  if (isOfInterface(route) && route.who !== 'anyone') return MAX_BODY_BYTES;
  const roundedUp = 2 ** Math.ceil(Math.log2(jsonBytesOf(route.body)));
  return Math.min(MAX_BODY_BYTES, Math.max(LEAST_BODY_BYTES, roundedUp));
}
