/** Members of a request that its schema does not have: named in a header, or refused. */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { nearestName } from '../../domain/kernel/nearest-name.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { showText } from './explain-value.ts';
import { isObject, shapeOf, type Shape } from './schema-shape.ts';

const MAX_NAMED = 20;
const MAX_NAME_CHARACTERS = 64;
const MAX_HEADER_CHARACTERS = 1_000;

export interface UnknownMember {
  /** Path of the object that has it: '' or ending in a dot. */
  prefix: string;
  name: string;
  /** Fields of that object. */
  fields: ReadonlyMap<string, Shape>;
}

/** In the order of the body; at most one more than a header names. */
export function unknownMembers(shape: Shape, body: unknown): readonly UnknownMember[] {
  const found: UnknownMember[] = [];
  collect(shape, body, '', found);
  return found;
}

function collect(shape: Shape, value: unknown, prefix: string, unknown: UnknownMember[]): void {
  if (shape.type === 'array' && holdsObjects(shape.item) && Array.isArray(value)) {
    for (let at = 0; at < value.length && unknown.length <= MAX_NAMED; at += 1)
      collect(shape.item, value[at], `${prefix.slice(0, -1)}[${at}].`, unknown);
  }
  if (shape.type !== 'object' || !isObject(value)) return;
  const { byName } = shape;
  for (const name of Object.keys(value)) {
    const field = byName.get(name);
    if (field === undefined) {
      unknown.push({ prefix, name, fields: byName });
      if (unknown.length > MAX_NAMED) return;
    } else if (holdsObjects(field)) collect(field, value[name], `${prefix}${name}.`, unknown);
  }
}

const holdsObjects = ({ type }: Shape): boolean => type === 'object' || type === 'array';

const MIN_STEM = 5;
const stemOf = (name: string): string => name.slice(0, MIN_STEM).toLowerCase();

/** Refuses a member with the first letters of one of the fields, or near to its name. */
export function refuseMisspelled(fields: readonly string[], unknown: readonly UnknownMember[]): void {
  for (const { prefix, name } of unknown) {
    const meant = fields.find((field) => stemOf(field) === stemOf(name)) ?? nearestName(name, fields);
    if (prefix === '' && meant !== undefined) refuseWith(name, `did you mean "${meant}"?`);
  }
}

export function refuseUnknown({ prefix, name, fields }: UnknownMember): never {
  const near = nearestName(name, fields.keys());
  const known = [...fields.keys()].map((field) => `"${field}"`).join(', ');
  const owner = prefix === '' ? 'it' : `"${prefix.slice(0, -1)}"`;
  const remedy =
    near === undefined ? `${owner} has ${known === '' ? 'no fields' : known}` : `did you mean "${prefix}${near}"?`;
  return refuseWith(prefix + name, remedy);
}

function refuseWith(path: string, remedy: string): never {
  throw new Refusal('field_value', `field ${showText(path)} is not a field of this request; ${remedy}`);
}

/** For routes that read their query parameters one by one. */
export function makeRefuseUnknownParameters(schema: z.ZodType): (request: FastifyRequest) => void {
  const shape = shapeOf(schema);
  return ({ query }) => {
    const [unknown] = unknownMembers(shape, query);
    if (unknown) refuseUnknown(unknown);
  };
}

/** Value of `X-Ignored-Fields`: sorted, each name percent-encoded. */
export function ignoredFieldsHeader(unknown: readonly UnknownMember[]): string {
  const paths = unknown
    .slice(0, MAX_NAMED)
    .map(({ prefix, name }) => prefix + encoded(name))
    .sort();
  let text = '';
  for (const [at, path] of paths.entries()) {
    const longer = at === 0 ? path : `${text}, ${path}`;
    if (longer.length > MAX_HEADER_CHARACTERS) return `${text}, ...`;
    text = longer;
  }
  return unknown.length > MAX_NAMED ? `${text}, ...` : text;
}

function encoded(name: string): string {
  const cut = name.slice(0, MAX_NAME_CHARACTERS).toWellFormed();
  return encodeURIComponent(cut).replaceAll('.', '%2E') + (cut.length < name.length ? '...' : '');
}
