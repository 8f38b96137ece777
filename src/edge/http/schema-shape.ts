/** Reads fields in order, required marks and JSON types of a body schema. */
import { z } from 'zod';
import { boundOf, unwrapSchema } from '../../contract/schema-bounds.ts';

export type Shape =
  | { type: 'number' | 'boolean' }
  /** `max`: characters, members or items of a valid value. */
  | { type: 'string'; max: number }
  | { type: 'record'; max: number; refusalOf: (value: JsonObject) => string | undefined }
  | { type: 'object'; fields: Field[]; byName: ReadonlyMap<string, Shape> }
  | { type: 'array'; item: Shape; max: number };

interface Field {
  name: string;
  required: boolean;
  /** False: null counts as not set. */
  nullable: boolean;
  shape: Shape;
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
  if (inner instanceof z.ZodArray) return { type: 'array', item: shapeOf(inner.element), max: boundOf(inner) };
  const { type } = inner._zod.def;
  switch (type) {
    case 'number':
    case 'boolean':
      return { type };
    case 'record':
      return { type, max: boundOf(inner), refusalOf: checksOf(inner) };
    case 'string':
    case 'enum':
      return { type: 'string', max: boundOf(inner) };
    default:
      throw new Error(`a request cannot have a field of kind ${type}: add the kind to edge/http/schema-shape.ts`);
  }
}

/** Runs the checks of a record without a parse of its members. */
function checksOf({ _zod: { def } }: z.core.$ZodType): (value: JsonObject) => string | undefined {
  const any = z.any();
  const checked = any.clone({ ...any.def, checks: def.checks ?? [] });
  return (value) => checked.safeParse(value).error?.issues[0]?.message;
}

export type JsonObject = Record<string, unknown>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function hasType(value: unknown, { type }: Shape): boolean {
  if (type === 'array') return Array.isArray(value);
  return type === 'object' || type === 'record' ? isObject(value) : typeof value === type;
}
