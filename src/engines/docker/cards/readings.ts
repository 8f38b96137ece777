/** Readings of cards, from lines of `nvidia-smi --query-gpu`. */
import { slowdowns, type CardFigures, type CardSigns, type Slowdown } from '../../../domain/regions/card-health.ts';
import { placeOf, saysLost, UUID } from '../client/cards.ts';

export const readingFields = [
  'uuid',
  'pci.bus_id',
  'utilization.gpu',
  'memory.used',
  'memory.total',
  'power.draw',
  'temperature.gpu',
  'ecc.errors.uncorrected.volatile.total',
  'gpu_recovery_action',
  'clocks_event_reasons.active',
] as const;

/** Bits of NVML's clocks event reasons: thermal slowdowns, power brake, power cap. */
const slowdownBits: Readonly<Record<Slowdown, number>> = { heat: 0x60, powerBrake: 0x80, powerLimit: 0x4 };

export interface CardReading extends CardSigns {
  uuid: string | null;
  /** Domain, bus and device, without the function. */
  place: string;
  figures: CardFigures;
}

const MIB = 1024 * 1024;
export const unknownFigures: CardReading['figures'] = {
  busyPercent: null,
  memoryUsedBytes: null,
  memoryTotalBytes: null,
  powerMilliwatts: null,
  temperatureCelsius: null,
};

/** In place of a figure; single figures fail on healthy cards, too. */
const FAILED = /ERR!|Unknown Error/i;

/** Null: not the line of a card. Missing and impossible figures are null. */
export function parseReading(line: string, fields: readonly string[]): CardReading | null {
  const cells = line.split(', ').map((cell) => cell.trim());
  const cell = (field: (typeof readingFields)[number]): string => cells[fields.indexOf(field)] ?? '';
  const place = placeOf(cell('pci.bus_id'));
  if (cells.length !== fields.length || place === null) return null;
  const figure = (field: (typeof readingFields)[number], unit: number, max = Infinity): number | null => {
    const value = /^\d+(?:\.\d+)?$/.test(cell(field)) ? Math.round(Number(cell(field)) * unit) : Number.NaN;
    return value <= max ? value : null;
  };
  const figures = {
    busyPercent: figure('utilization.gpu', 1, 100),
    memoryUsedBytes: figure('memory.used', MIB),
    memoryTotalBytes: figure('memory.total', MIB),
    powerMilliwatts: figure('power.draw', 1_000),
    temperatureCelsius: figure('temperature.gpu', 1),
    ...slowedBy(cell('clocks_event_reasons.active')),
  };
  const { busyPercent, memoryUsedBytes, temperatureCelsius } = figures;
  const isMute = busyPercent === null && memoryUsedBytes === null && temperatureCelsius === null;
  return {
    uuid: UUID.test(cell('uuid')) ? cell('uuid') : null,
    place,
    figures,
    isLost: saysLost(line) || (isMute && FAILED.test(line)),
    recovery: /^(?:|None|\[.*\])$/.test(cell('gpu_recovery_action')) ? null : cell('gpu_recovery_action'),
    eccUncorrected: figure('ecc.errors.uncorrected.volatile.total', 1),
  };
}

/** Empty where the driver does not say. */
function slowedBy(mask: string): Pick<CardFigures, 'slowedBy'> {
  if (!/^0x[0-9a-f]{1,16}$/i.test(mask)) return {};
  const low = Number.parseInt(mask.slice(-8).replace('x', ''), 16);
  return { slowedBy: slowdowns.filter((reason) => (low & slowdownBits[reason]) !== 0) };
}
