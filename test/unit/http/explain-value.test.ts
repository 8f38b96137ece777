/** Refusals of members of records: they name the member and what is allowed. */
import { expect, test } from 'vitest';
import { routes } from '../../../src/contract/routes.ts';
import { makeValidate } from '../../../src/edge/http/validate.ts';

test.each([
  ['a negative limit', { instances: -1 }, 'field "limits" has "instances": its value must be a whole number from 0 to'],
  ['a fraction', { cpus: 0.5 }, 'field "limits" has "cpus": its value must be a whole number from 0 to'],
  ['a text', { cpus: 'many' }, 'field "limits" has "cpus": its value must be a whole number from 0 to'],
  ['an unknown name', { cpu: 1 }, 'field "limits" has "cpu", which must be one of instances, cpus,'],
  ['a long name', { [`gpus/${'x'.repeat(300)}`]: 1 }, ', which must be at most 200 characters'],
])('refuses %s of a quota with what is allowed', (_, limits, expected) => {
  const validate = makeValidate(routes.setQuotas.body, { unknown: 'refuse' });
  expect(() => validate({ limits })).toThrow(expected);
});
