/** Queries made into what schemas want: a query is text alone. */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { shapeOf } from './schema-shape.ts';

/** More digits than a whole number of JSON can have are left as they are, and refused. */
const WHOLE = /^\d{1,16}$/;

/** Of one parameter: undefined where it isn't given, a list where it is given twice. */
export const parameterOf = ({ query }: FastifyRequest, name: string): unknown =>
  typeof query === 'object' && query !== null && Object.hasOwn(query, name) ? Reflect.get(query, name) : undefined;

/** What the schema has as a number, a boolean or a list is made so where it can be; names that it hasn't are left out. */
export function queryOf(request: FastifyRequest, schema: z.ZodType): Record<string, unknown> {
  const shape = shapeOf(schema);
  if (shape.type !== 'object') throw new Error('the schema of a query has to be an object');
  return Object.fromEntries(
    shape.fields.map(({ name, shape: { type } }) => {
      const value = parameterOf(request, name);
      if (type === 'array' && typeof value === 'string') return [name, [value]];
      if (type === 'number' && typeof value === 'string' && WHOLE.test(value)) return [name, Number(value)];
      if (type === 'boolean' && (value === 'true' || value === 'false')) return [name, value === 'true'];
      return [name, value];
    }),
  );
}
