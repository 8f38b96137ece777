import { expect, test } from 'vitest';
import { clusterCount, layoutOf, nodeNames, overlappingRoute } from '../../kubernetes/cluster/addresses.ts';

const routesOf = (number: number): string => {
  const { links, pods, services, simulatedPods } = layoutOf(number);
  return [links, pods, services, simulatedPods].map((range) => `${range} dev x`).join('\n');
};

test('clusters share no addresses and no names', () => {
  const numbers = Array.from({ length: clusterCount }, (_, number) => number);
  for (const one of numbers)
    for (const other of numbers.filter((number) => number !== one))
      expect(overlappingRoute(layoutOf(one), routesOf(other)), `${one} and ${other}`).toBeUndefined();
  const names = numbers.flatMap((number) => nodeNames.map((_, index) => layoutOf(number, index).groups));
  expect(new Set(names).size).toBe(clusterCount * nodeNames.length);
  // The longest name of an interface.
  expect(Math.max(...names.map((name) => name.length))).toBeLessThanOrEqual(15);
});

test.each([-1, 16, 1.5, NaN])('refuses %s as the number of a cluster', (number) => {
  expect(() => layoutOf(number)).toThrow('from 0 to 15');
});

test.each([
  '10.98.3.0/24 via 192.168.1.1 dev eth0',
  '10.99.3.2 dev tun0 scope link',
  'local 10.97.48.7 dev eth0 table local proto kernel',
  'unreachable 10.96.0.0/12',
  '10.0.0.0/8 dev vpn0',
])('finds that a cluster overlaps the route %s', (route) => {
  expect(overlappingRoute(layoutOf(3), `default via 10.99.3.1 dev eth0\n${route}\nfe80::/64 dev eth0`)).toBe(route);
});

test.each(['default via 10.99.3.1 dev eth0', '10.98.4.0/24 dev eth0', '10.97.64.0/20 dev eth0', 'fe80::/64 dev eth0'])(
  'accepts the route %s',
  (route) => {
    expect(overlappingRoute(layoutOf(3), route)).toBeUndefined();
  },
);
