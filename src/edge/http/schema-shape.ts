/** Reads fields in order, required marks and JSON types of a body schema. */
import { z } from 'zod';

export type Shape =
  | { type: 'string' | 'number' | 'boolean' | 'record' }
  | { type: 'object'; fields: Field[]; byName: ReadonlyMap<string, Shape> }
  | { type: 'array'; item: Shape };

interface Field {
  name: string;
  required: boolean;
  /** False: null counts as not set. */
  nullable: boolean;
  shape: Shape;
}

export function unwrapSchema(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return unwrapSchema(schema.unwrap());
  if (schema instanceof z.ZodPipe) return unwrapSchema(schema.in);
  return schema;
}

/** Throws at start for an unknown kind of field. */
export function shapeOf(schema: z.core.$ZodType): Shape {
  const inner = unwrapSchema(schema);
  if (inner instanceof z.ZodObject) {
    const fields = Object.entries<z.core.$ZodType>(inner.shape).map(([name, field]) => ({
      name,
      required: !z.safeParse(field, undefined).success,
      nullable: z.safeParse(field, null).success,
      shape: shapeOf(field),
    }));
    return { type: 'object', fields, byName: new Map(fields.map(({ name, shape }) => [name, shape])) };
  }
  if (inner instanceof z.ZodArray) return { type: 'array', item: shapeOf(inner.element) };
  const { type } = inner._zod.def;
  switch (type) {
    case 'string':
    case 'number':
    case 'boolean':
    case 'record':
      return { type };
    case 'enum':
      return { type: 'string' };
    default:
      throw new Error(`a request cannot have a field of kind ${type}: add the kind to edge/http/schema-shape.ts`);
  }
}

export type JsonObject = Record<string, unknown>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function hasType(value: unknown, { type }: Shape): boolean {
  if (type === 'array') return Array.isArray(value);
  return type === 'object' || type === 'record' ? isObject(value) : typeof value === type;
}
