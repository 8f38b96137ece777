/** Values drawn for a JSON Schema: mostly valid, some at a bound, some wrong. */
import type { Json } from '../../../src/contract/examples.ts';

export type JsonObject = { [name: string]: Json };

export interface Draw {
  /** 0 to 1. */
  random(): number;
  one<Item>(items: readonly Item[]): Item;
  /** Value of a text field by its name; null: any text. */
  named(field: string): string | null;
  /** Part of every free text, by which an answer shows whose it is. */
  mark: string;
}

const wrong: readonly Json[] = [null, '', 'x', 0, -1, 0.5, 1e308, true, [], {}, [[]], { a: null }, ['x'], [null]];
const texts = (mark: string): readonly string[] => [
  mark,
  `${mark} é🚀`,
  `${mark}-1`,
  `${mark}\0`,
  `${mark}\ud800`,
  `../../${mark}`,
  `${mark}' or 1=1 --`,
  `<b>${mark}</b>\u202e`,
  `__proto__`,
  '',
  ' ',
];

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** `root` holds the definitions. */
export function drawValue(schema: Json | undefined, root: JsonObject, field: string, draw: Draw): Json {
  const { random, one } = draw;
  if (random() < 0.02) return one(wrong);
  if (!isObject(schema)) return one(wrong);
  if (typeof schema['$ref'] === 'string') {
    const defs = isObject(root['$defs']) ? root['$defs'] : {};
    return drawValue(defs[schema['$ref'].replace('#/$defs/', '')], root, field, draw);
  }
  const choices = schema['anyOf'] ?? schema['oneOf'];
  if (Array.isArray(choices)) return drawValue(one(choices), root, field, draw);
  if (Array.isArray(schema['enum'])) return one(schema['enum']);
  if (schema['const'] !== undefined) return schema['const'];
  switch (schema['type']) {
    case 'object':
      return drawObject(schema, root, draw);
    case 'array':
      return Array.from({ length: Math.floor(random() * 3) }, () => drawValue(schema['items'], root, field, draw));
    case 'integer':
    case 'number':
      return drawNumber(schema, draw);
    case 'boolean':
      return random() < 0.5;
    case 'null':
      return null;
    default:
      return draw.named(field) ?? one(texts(draw.mark));
  }
}

function drawObject(schema: JsonObject, root: JsonObject, draw: Draw): JsonObject {
  const { random, one, mark } = draw;
  const fields = isObject(schema['properties']) ? schema['properties'] : {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  const made: JsonObject = {};
  for (const [name, field] of Object.entries(fields))
    if (required.includes(name) ? random() > 0.02 : random() < 0.4) made[name] = drawValue(field, root, name, draw);
  if (isObject(schema['additionalProperties']))
    for (let times = Math.floor(random() * 3); times > 0; times -= 1)
      made[one(['A_B', 'team', mark, `${mark}/x`, 'constructor'])] = drawValue(
        schema['additionalProperties'],
        root,
        '',
        draw,
      );
  if (random() < 0.02) made[one(['unknown', 'Id', '__proto__'])] = one(wrong);
  return made;
}

function drawNumber({ minimum, maximum, type }: JsonObject, { random, one }: Draw): number {
  const least = typeof minimum === 'number' ? minimum : 0;
  const most = typeof maximum === 'number' ? Math.min(maximum, 1e15) : 1_000;
  const within = least + random() * (Math.min(most, least + 100) - least);
  if (random() < 0.8) return type === 'integer' ? Math.floor(within) : within;
  return one([least, most, least - 1, most + 1, least + 0.5, -0, 1e300]);
}

/** Replaces some members of a valid body by drawn values, and fields with a name of the draw. */
export function redraw(valid: Json, schema: Json, draw: Draw): Json {
  const root = isObject(schema) ? schema : {};
  const change = (value: Json, at: Json | undefined, field: string): Json => {
    const resolved = resolve(at, root);
    if (draw.random() < 0.03) return drawValue(at, root, field, draw);
    if (Array.isArray(value))
      return value.map((item) => change(item, isObject(resolved) ? resolved['items'] : undefined, field));
    if (isObject(value)) {
      const fields = isObject(resolved) && isObject(resolved['properties']) ? resolved['properties'] : {};
      return Object.fromEntries(
        Object.entries(value).map(([name, member]) => [name, change(member, fields[name], name)]),
      );
    }
    if (typeof value !== 'string') return value;
    const isFree = isObject(resolved) && resolved['type'] === 'string' && !('enum' in resolved);
    return (
      draw.named(field) ?? (isFree && /^name$/i.test(field) ? `${draw.mark}-${Math.floor(draw.random() * 1e9)}` : value)
    );
  };
  return change(valid, schema, '');
}

function resolve(schema: Json | undefined, root: JsonObject): Json | undefined {
  if (!isObject(schema) || typeof schema['$ref'] !== 'string') return schema;
  const defs = isObject(root['$defs']) ? root['$defs'] : {};
  return defs[schema['$ref'].replace('#/$defs/', '')];
}
