/** Refusals of members of records and of objects: they name the member and what is allowed. */
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

test('names the members of an object that exclude each other, without its content', () => {
  const validate = makeValidate(routes.createRegion.body, { unknown: 'refuse' });
  const kubernetes = {
    login: 'inCluster',
    namespace: 'berth',
    networkPolicies: true,
    gpus: { resource: 'nvidia.com/gpu', nameLabel: 'nvidia.com/gpu.product' },
    deviceClaims: [{ deviceClass: 'gpu.nvidia.com', modelAttribute: 'gpu.nvidia.com/productName' }],
  };
  const settings = { kubernetes, pools: [{ name: 'default', sizeGB: 10 }], nodePorts: { first: 31_000, last: 31_009 } };
  const region = { name: 'C', value: 'c', location: 'x', sshAddress: '203.0.113.5', settings };
  expect(() => validate(region)).toThrow(
    'field "settings.kubernetes" is {…}: it must have "gpus" or "deviceClaims", not both',
  );
});
