/** Codecs of columns named as their domain member; insert, updates and reads derive from them. */
import type { z } from 'zod';

export type Flag = 0 | 1;

export interface ColumnCodec<Value, Stored> {
  encode(value: Value): Stored;
  decode(stored: Stored, where: ColumnOf): Value;
}

export interface ColumnOf {
  table: string;
  id: string;
  column: string;
}

export const plain = <Value>(): ColumnCodec<Value, Value> => ({ encode: (value) => value, decode: (stored) => stored });

export const id = <Id extends string>(brand: (text: string) => Id): ColumnCodec<Id, string> => ({
  encode: (value) => value,
  decode: brand,
});

export const encodeFlag = (value: boolean): Flag => (value ? 1 : 0);

export const flag = (): ColumnCodec<boolean, Flag> => ({ encode: encodeFlag, decode: (stored) => stored === 1 });

export const json = <Value>(schema: z.ZodType<Value>): ColumnCodec<Value, string> => ({
  encode: (value) => JSON.stringify(value),
  decode: (stored, where) => parseJson(schema, stored, where),
});

export const nullableJson = <Value>(schema: z.ZodType<Value>): ColumnCodec<Value | null, string | null> => ({
  encode: (value) => (value === null ? null : JSON.stringify(value)),
  decode: (stored, where) => (stored === null ? null : parseJson(schema, stored, where)),
});

export const closedList = <Value extends string>(values: readonly Value[]): ColumnCodec<Value, string> => ({
  encode: (value) => value,
  decode: (stored, where) => {
    const found = values.find((value) => value === stored);
    if (found === undefined) throw unreadable(where, `unknown value ${stored}; known values: ${values.join(', ')}`);
    return found;
  },
});

export function oneOf<T extends string>(values: readonly T[], text: string): T {
  const found = values.find((value) => value === text);
  if (found === undefined) throw new Error(`unknown value ${text}; known values: ${values.join(', ')}`);
  return found;
}

/** Throws an error with table, row and column when the text is not JSON of this shape. */
export function parseJson<Value>(schema: z.ZodType<Value>, text: string, where: ColumnOf): Value {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw unreadable(where, 'the text is not JSON', error);
  }
  return validated(schema, value, where);
}

function validated<Value>(schema: z.ZodType<Value>, value: unknown, where: ColumnOf): Value {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw unreadable(where, issue ? `at "${issue.path.join('.')}": ${issue.message}` : 'unknown shape', result.error);
}

const unreadable = ({ table, id: row, column }: ColumnOf, why: string, cause?: unknown): Error =>
  new Error(`The column "${column}" of ${table} ${row} cannot be read: ${why}`, { cause });

export function keysOf<T extends object>(object: T): Extract<keyof T, string>[] {
  const keys: Extract<keyof T, string>[] = [];
  for (const key in object) if (Object.hasOwn(object, key)) keys.push(key);
  return keys;
}

export function mapKeys<T extends object>(
  keys: readonly Extract<keyof T, string>[],
  valueOf: <K extends Extract<keyof T, string>>(key: K) => T[K],
): Partial<T> {
  const made: Partial<T> = {};
  for (const key of keys) made[key] = valueOf(key);
  return made;
}

export function complete<T extends object>(value: Partial<T>, keys: readonly (keyof T)[]): T {
  if (!hasAll(value, keys)) throw new Error(`Some of these columns have no value: ${keys.join(', ')}`);
  return value;
}

const hasAll = <T extends object>(value: Partial<T>, keys: readonly (keyof T)[]): value is T =>
  keys.every((key) => key in value);
