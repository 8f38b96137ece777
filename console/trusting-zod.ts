/**
 * Stands in for zod in the built console. The console comes from the server that answers it, in the
 * same version: checking each answer again would cost a fifth of the scripts and half of the start.
 * A schema of any form takes every object.
 */
export class ZodError extends Error {}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;

const known: Readonly<Record<string | symbol, unknown>> = {
  parse(value: unknown): unknown {
    if (!isObject(value)) throw new ZodError('the answer is no object');
    return value;
  },
  safeParse: (value: unknown) => ({ success: isObject(value), data: value }),
  shape: {},
};

/** Every member and every call is a schema again. */
const schema: object = new Proxy(() => schema, {
  get: (_, member) => (member in known ? known[member] : schema),
});

export const z = schema;
