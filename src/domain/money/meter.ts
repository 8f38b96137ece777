/**
 * Rates of resources (`docs/reference/billing.md`), as functions of their rows: a period opens and
 * closes in the transaction that changes the row. A resource has one rate at a time.
 */
import { hourlyModes, type ChargeMode, type Micros, type StorageKind } from '../regions/catalog.ts';
import { HOUR_MS } from '../kernel/durations.ts';
import { currentPriceMicros } from '../compute/instance-change.ts';
import { dataDiskGB, dockerDiskGB } from '../compute/instance-disks.ts';
import { isInUse, type Instance } from '../compute/instance.ts';
import type { Snapshot } from '../storage/snapshot.ts';
import type { Volume } from '../storage/volume.ts';

/** Unit of the prices of storage. */
export const STORAGE_UNIT_MS = 30 * 24 * HOUR_MS;

export const meters = ['compute', 'disks', 'volume', 'snapshot'] as const;
export type Meter = (typeof meters)[number];

/** Unit of a quantity in the books; '' is the meter of payments without usage. */
export const quantityUnit = (meter: string): string => (['compute', ''].includes(meter) ? 'hours' : 'GB-hours');

/** Time for which a price counts. */
export const priceUnitMs = (meter: string): number => (['compute', ''].includes(meter) ? HOUR_MS : STORAGE_UNIT_MS);

/** Its name; a month has 30 days. */
export const priceUnit = (meter: string) => (priceUnitMs(meter) === HOUR_MS ? 'hours' : 'GB-months');

export const meterStates = [
  'charged',
  'paidAhead',
  'waiting',
  'pulling',
  'starting',
  'restarting',
  /** Free: nobody knows whether the resource ran. */
  'gap',
] as const;
export type MeterState = (typeof meterStates)[number];

export interface Rate {
  meter: Meter;
  state: MeterState;
  /** Micro-dollars per unit of time and quantity, or the storage whose price of now counts. */
  price: Micros | StorageKind;
  quantity: number;
  unitMs: number;
}

export const isHourly = (mode: ChargeMode): boolean => hourlyModes.some((hourly) => hourly === mode);

const storage = (meter: Meter, price: StorageKind, sizeGB: number): Rate => ({
  meter,
  state: 'charged',
  price,
  quantity: sizeGB,
  unitMs: STORAGE_UNIT_MS,
});

const compute = (state: MeterState, price: Micros = 0n): Rate => ({
  meter: 'compute',
  state,
  price,
  quantity: 1,
  unitMs: HOUR_MS,
});

export const rateOfRun = (priceMicros: Micros): Priced => ({ priceMicros, quantity: 1, unitMs: HOUR_MS });

/** Null: nothing is charged or recorded. */
export function rateOfInstance(instance: Instance): Rate | null {
  const { spec, desired, observed } = instance;
  if (desired === 'released') return null;
  if (isInUse(instance)) {
    const priceMicros = BigInt(observed.ending?.priceMicros ?? currentPriceMicros(instance));
    return isHourly(spec.chargeMode) ? compute('charged', priceMicros) : compute('paidAhead');
  }
  if (desired !== 'running') {
    // A failed launch has no disks.
    if (observed.status === 'InitializationFailed') return null;
    return storage('disks', 'keptDisk', dataDiskGB(spec) + (spec.enableDocker ? dockerDiskGB(spec) : 0));
  }
  if (instance.waitsSinceMs !== null || instance.notBeforeMs !== null) return compute('waiting');
  if (observed.status === 'PullingImage') return compute('pulling');
  return compute(observed.status === 'Restarting' ? 'restarting' : 'starting');
}

/** A failed or lost volume has no disk. */
export const rateOfVolume = ({ status, type, sizeGB }: Volume): Rate | null =>
  status === 'Pending' || status === 'Bound' ? storage('volume', type, sizeGB) : null;

export const rateOfSnapshot = ({ status, sizeGB }: Snapshot): Rate | null =>
  status === 'Terminating' || status === 'Failed' ? null : storage('snapshot', 'snapshot', sizeGB);

export const isSameRate = (one: Rate | null, other: Rate | null): boolean =>
  one === other ||
  (one !== null &&
    other !== null &&
    one.meter === other.meter &&
    one.state === other.state &&
    one.price === other.price &&
    one.quantity === other.quantity);

export interface Priced {
  priceMicros: Micros;
  quantity: number;
  unitMs: number;
}

/** Micro-dollars per hour, rounded down. */
export const hourlyMicros = ({ priceMicros, quantity, unitMs }: Priced): Micros =>
  (priceMicros * BigInt(quantity) * BigInt(HOUR_MS)) / BigInt(unitMs);
