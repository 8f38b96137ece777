/**
 * CEL selectors of devices, evaluated as the scheduler does: an error, such as by an attribute that
 * a device lacks, is no match. Berth counts by them; the scheduler decides.
 */
import { Environment } from '@marcbachmann/cel-js';
import { compare, valid } from 'semver';
import type { Device } from '../../kubernetes/api-objects.ts';
import { quantityOf } from '../../kubernetes/quantity.ts';

export type DeviceSelector = (driver: string, device: Device) => boolean;

class Quantity {
  readonly value: number;
  constructor(text: string) {
    this.value = quantityOf(text);
    if (Number.isNaN(this.value)) throw new Error(`"${text}" is no quantity`);
  }
}

class Semver {
  readonly text: string;
  constructor(text: string) {
    if (valid(text) === null) throw new Error(`"${text}" is no version`);
    this.text = text;
  }
}

const signOf = (one: Quantity, other: Quantity): bigint => BigInt(Math.sign(one.value - other.value));
const orderOf = (one: Semver, other: Semver): bigint => BigInt(compare(one.text, other.text));

const environment = new Environment({ enableOptionalTypes: true })
  .registerVariable('device', 'map')
  .registerType('Quantity', Quantity)
  .registerFunction('quantity(string): Quantity', (text: string) => new Quantity(text))
  .registerFunction('Quantity.compareTo(Quantity): int', signOf)
  .registerFunction(
    'Quantity.isGreaterThan(Quantity): bool',
    (one: Quantity, other: Quantity) => one.value > other.value,
  )
  .registerFunction('Quantity.isLessThan(Quantity): bool', (one: Quantity, other: Quantity) => one.value < other.value)
  .registerFunction('Quantity.asInteger(): int', ({ value }: Quantity) => BigInt(value))
  .registerFunction('Quantity.asApproximateFloat(): double', ({ value }: Quantity) => value)
  .registerOperator('Quantity == Quantity', (one: Quantity, other: Quantity) => one.value === other.value)
  .registerType('Semver', Semver)
  .registerFunction('semver(string): Semver', (text: string) => new Semver(text))
  .registerFunction('Semver.compareTo(Semver): int', orderOf)
  .registerFunction('Semver.isGreaterThan(Semver): bool', (one: Semver, other: Semver) => orderOf(one, other) > 0n)
  .registerFunction('Semver.isLessThan(Semver): bool', (one: Semver, other: Semver) => orderOf(one, other) < 0n)
  .registerOperator('Semver == Semver', (one: Semver, other: Semver) => orderOf(one, other) === 0n);

/** The library's `has` refuses an index, as in `has(device.attributes["a.b"].c)`. */
const HAS = /\bhas\(([^()]+)\.(\w+)\)/g;

/** Throws an `Error` with the place in the expression. */
export function selectorOf(expression: string): DeviceSelector {
  const evaluate = environment.parse(expression.replaceAll(HAS, '($1.?$2.hasValue())'));
  return (driver, device) => {
    try {
      return evaluate({ device: inputOf(driver, device) }) === true;
    } catch {
      return false;
    }
  };
}

type Attribute = NonNullable<Device['attributes']>[string];

function inputOf(driver: string, { attributes = {}, capacity = {}, allowMultipleAllocations = false }: Device) {
  return {
    driver,
    attributes: byDomain(driver, attributes, valueOf),
    capacity: byDomain(driver, capacity, ({ value }) => new Quantity(value)),
    allowMultipleAllocations,
  };
}

function valueOf({ string, bool, int, version }: Attribute): unknown {
  if (int !== undefined) return BigInt(int);
  return version === undefined ? (string ?? bool ?? null) : new Semver(version);
}

/** Names without a domain have that of the driver. A domain that no name has is empty, no error. */
export function byDomain<Item, Value>(
  driver: string,
  items: Readonly<Record<string, Item>>,
  convert: (item: Item) => Value,
) {
  const domains = new Map<string, Map<string, Value>>();
  for (const [qualified, item] of Object.entries(items)) {
    const [domain, name] = qualified.includes('/') ? qualified.split('/', 2) : [driver, qualified];
    if (domain === undefined || name === undefined) continue;
    const ofDomain = domains.get(domain) ?? new Map<string, Value>();
    domains.set(domain, ofDomain.set(name, convert(item)));
  }
  // The library knows maps by their constructor.
  return Object.assign(new Map(domains), {
    has: () => true,
    get: (domain: string): ReadonlyMap<string, Value> => domains.get(domain) ?? new Map<string, Value>(),
  });
}
