/** Selectors of devices, by the rules of Dynamic Resource Allocation. */
import { expect, test } from 'vitest';
import { selectorOf } from '../../../src/engines/kubernetes/device-selectors.ts';
import type { Device } from '../../../src/kubernetes/api-objects.ts';

const DRIVER = 'gpu.example.com';
const device: Device = {
  name: 'gpu-0',
  attributes: {
    type: { string: 'gpu' },
    index: { int: 3 },
    migEnabled: { bool: false },
    driverVersion: { version: '580.95.5' },
    'resource.kubernetes.io/pcieRoot': { string: 'pci0000:00' },
  },
  capacity: { memory: { value: '141Gi' }, 'other.example.com/memory': { value: '1G' } },
};
const own = `device.attributes["${DRIVER}"]`;

test.for([
  ['device.driver == "gpu.example.com"', true],
  ['device.driver == "other.example.com"', false],
  [`${own}.type == "gpu"`, true],
  [`${own}["type"] in ["gpu", "mig"]`, true],
  [`${own}.type.startsWith("g") && !${own}.migEnabled && ${own}.index == 3`, true],
  [`device.attributes["resource.kubernetes.io"].pcieRoot.matches("^pci[0-9a-f]+:00$")`, true],
  // An attribute that is not there is an error, even in an unknown domain; `has` asks first.
  [`${own}.profile == "1g.18gb"`, false],
  [`${own}.profile != "1g.18gb"`, false],
  [`has(${own}.profile) && ${own}.profile != "1g.18gb"`, false],
  [`!has(${own}.profile)`, true],
  ['!has(device.attributes["nobody.example.com"].type)', true],
  ['device.attributes["nobody.example.com"].type != "gpu"', false],
  [`${own}.?profile.orValue("none") == "none"`, true],
  [`device.capacity["${DRIVER}"].memory.compareTo(quantity("80Gi")) > 0`, true],
  [`device.capacity["${DRIVER}"].memory.isGreaterThan(quantity("141Gi"))`, false],
  [`device.capacity["${DRIVER}"].memory == quantity("144384Mi")`, true],
  ['device.capacity["other.example.com"].memory.isLessThan(quantity("1Gi"))', true],
  [`${own}.driverVersion.compareTo(semver("580.0.0")) >= 0`, true],
  [`${own}.driverVersion.isLessThan(semver("580.100.0"))`, true],
  [`cel.bind(own, ${own}, own.type == "gpu" && own.index > 2)`, true],
  // A result that is not a boolean matches nothing.
  [`${own}.type`, false],
] as const)('%s: %s', ([expression, matches]) => {
  expect(selectorOf(expression)(DRIVER, device)).toBe(matches);
});

test('an expression that is none is an error with its place', () => {
  expect(() => selectorOf('device.driver ==')).toThrow(/Unexpected|EOF/);
});
