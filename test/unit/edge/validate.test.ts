/** Cost of a body: how often and how far a schema visits it. */
import { expect, test, vi } from 'vitest';
import { z } from 'zod';
import { MAX_BODY_MEMBERS } from '../../../src/contract/common.ts';
import { jsonRouteNames, jsonRouteOf } from '../../../src/contract/routes.ts';
import { boundOf, jsonBytesOf, unwrapSchema } from '../../../src/contract/schema-bounds.ts';
import { makeValidate } from '../../../src/edge/http/validate.ts';

function watched() {
  const visit = vi.fn<(value: string) => boolean>((value) => value.length <= 3);
  const text = z.string().refine(visit, { error: 'must be at most 3 characters' }).meta({ maxLength: 3 });
  const schema = z.object({
    name: text,
    note: z.string().max(5).optional(),
    items: z.array(text).max(4).optional(),
    labels: z
      .record(z.string(), text)
      .refine((given) => Object.keys(given).length <= 2, { error: 'must have at most 2 labels' })
      .meta({ maxProperties: 2 })
      .optional(),
  });
  return { visit, validate: makeValidate(schema, { unknown: 'ignore' }) };
}

test('validates a refused body once, also one with nulls', () => {
  for (const note of [undefined, null, 'note']) {
    const { visit, validate } = watched();
    expect(() => validate({ name: 'four', note })).toThrow('field "name" is "four": it must be at most 3 characters');
    expect(visit).toHaveBeenCalledTimes(1);
  }
});

test('counts items and members before it visits them, and says how many there are', () => {
  const many = Array.from({ length: 1_000 }, () => 'x');
  const { visit, validate } = watched();
  expect(() => validate({ name: 'x', items: many })).toThrow(
    'field "items" has 1000 items: it must have at most 4 items',
  );
  expect(() => validate({ name: 'x', labels: { ...many } })).toThrow('field "labels" must have at most 2 labels');
  expect(visit.mock.calls.length).toBeLessThan(15);
});

test('visits the first characters of a text that is much too long', () => {
  const { visit, validate } = watched();
  expect(() => validate({ name: 'x'.repeat(1_000_000) })).toThrow(/^field "name" is "x{60}"…: it must be at most 3/);
  expect(visit.mock.calls.every(([text]) => text.length < 100)).toBe(true);
});

/** Members and items of the largest valid value. */
function membersOf(schema: z.core.$ZodType): number {
  const inner = unwrapSchema(schema);
  if (inner instanceof z.ZodObject)
    return Object.values<z.core.$ZodType>(inner.shape).reduce((sum, field) => sum + 1 + membersOf(field), 0);
  if (inner instanceof z.ZodArray) return boundOf(inner) * (1 + membersOf(inner.element));
  return inner instanceof z.ZodRecord ? boundOf(inner) : 0;
}

test('every request has a bound, and its largest valid body has fewer members than a body may have', () => {
  for (const name of jsonRouteNames) {
    const { body } = jsonRouteOf(name);
    expect(jsonBytesOf(body), name).toBeGreaterThan(0);
    expect(membersOf(body), name).toBeLessThan(MAX_BODY_MEMBERS);
  }
  const unbounded = z.object({ free: z.string() });
  expect(() => makeValidate(unbounded, { unknown: 'refuse' })).toThrow('a string of a request has no bound');
});
