/** Reads the list of fields from a zod schema, to compare with `interface-fields.ts`. */
import { z } from 'zod';

export interface SchemaField {
  path: string;
  type: string;
  /** A body without the field is refused. */
  required: boolean;
}

/** Fields in the order of the schema, outer fields first, as the interface prints its tables. */
export function schemaFields(schema: z.core.$ZodType): SchemaField[] {
  const fields: SchemaField[] = [];
  let level: { prefix: string; schema: z.core.$ZodType }[] = [{ prefix: '', schema }];
  while (level.length > 0) {
    const below: typeof level = [];
    for (const { prefix, schema: outer } of level) {
      const object = inner(outer);
      if (!(object instanceof z.ZodObject)) continue;
      for (const [name, field] of Object.entries<z.core.$ZodType>(object.shape)) {
        const path = prefix + name;
        const plain = inner(field);
        fields.push({ path, type: jsonType(plain), required: !z.safeParse(field, undefined).success });
        if (plain instanceof z.ZodArray) below.push({ prefix: `${path}[].`, schema: plain.element });
        else below.push({ prefix: `${path}.`, schema: plain });
      }
    }
    level = below;
  }
  return fields;
}

function inner(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodNullable) {
    return inner(schema.unwrap());
  }
  return schema instanceof z.ZodPipe ? inner(schema.in) : schema;
}

function jsonType(schema: z.core.$ZodType): string {
  const { type } = schema._zod.def;
  if (type === 'enum') return 'string';
  return type === 'record' ? 'object' : type;
}
