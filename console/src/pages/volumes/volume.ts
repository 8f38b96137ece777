/** Volumes as the API lists them: prices, names and states. Pure. */
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import type { StateKind } from '../../parts/state-kind.ts';

export type Volume = AnswerOf<'listVolumes'>['volumeList'][number];
export type VolumeDetails = AnswerOf<'getVolume'>;
export type Snapshot = VolumeDetails['snapshots'][number];
export type Region = AnswerOf<'listRegions'>['regions'][number];

const HOURS_OF_PRICE = 30 * 24;
const MAX_NAME = 64;

export const stateOfVolume = (status: string): StateKind =>
  (({ Pending: 'busy', Bound: 'good', Terminating: 'busy', Lost: 'bad', Failed: 'bad' }) as const)[status] ?? 'warns';

export const stateOfSnapshot = (status: Snapshot['status']): StateKind =>
  (({ Pending: 'busy', Ready: 'good', Failed: 'bad', Terminating: 'busy' }) as const)[status];

/** Dollars; undefined for a type that the region does not price. */
export function priceOfVolume(
  { storagePrices }: Pick<Region, 'storagePrices'>,
  { volumeType, sizeGB }: { volumeType: string; sizeGB: number },
): { perHour: number; perMonth: number } | undefined {
  if (volumeType !== 'filesystem' && volumeType !== 'highspeedstorage') return undefined;
  const perMonth = storagePrices[volumeType] * sizeGB;
  return { perHour: perMonth / HOURS_OF_PRICE, perMonth };
}

/**
 * `base`, or `base-2`, `base-3` …: a name that no volume has, within the length that a name may
 * have.
 */
export function freeName(base: string, taken: readonly string[]): string {
  const used = new Set(taken);
  for (let count = 1; ; count += 1) {
    const end = count === 1 ? '' : `-${count}`;
    const name = base.slice(0, MAX_NAME - end.length).replace(/[ -]+$/, '') + end;
    if (!used.has(name)) return name;
  }
}

/** Name of a snapshot or a copy: the volume and the local time. */
export function nameAt(base: string, at: Date): string {
  const two = (part: number): string => String(part).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const end = `-${day}-${two(at.getHours())}${two(at.getMinutes())}`;
  return base.slice(0, MAX_NAME - end.length).replace(/[ -]+$/, '') + end;
}
