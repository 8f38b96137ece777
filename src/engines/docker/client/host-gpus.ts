/**
 * GPUs for instances: cards by the names of the engine, and parts of cards. MIG devices are found,
 * never made; a card with turns is given to several instances at once, without a limit of memory.
 */
import { UNKNOWN_MODEL, type GpuSlice } from '../../../domain/regions/catalog.ts';
import type { CardFacts } from '../../../domain/regions/card-facts.ts';
import type { Probe } from '../../contract.ts';
import type { Card } from './cards.ts';

export interface HostGpu {
  kind: 'gpu';
  name: string;
  /** Name for the engine: the UUID, else the index. */
  id: string;
  memoryMiB: number | null;
  /** Part of the card; 1: all. */
  share: number;
  slice?: GpuSlice;
  /** Model of the divided card. */
  card?: string;
  /** UUID of the divided card. */
  cardUuid?: string | undefined;
  /** Names in the labels of containers that an earlier version made. */
  otherIds: readonly string[];
  isLost?: true | undefined;
  /** Facts of the whole card. */
  facts?: CardFacts | undefined;
}

export type GpuDriver = 'nvidia' | 'cdi';

/** Turns of cards by UUID or index. */
export type GpuTurns = Readonly<Record<string, number>>;

/** Whether instances of several accounts may take turns on a card. */
export type TurnsAmong = 'account' | 'all';

const CDI = /^nvidia\.com\/gpu=(\d+(?::\d+)?|(?:GPU|MIG)-[0-9a-zA-Z/-]+)$/;
const PROFILE = /^(?:(\d+)c\.)?(\d+)g\.(\d+)gb/;
const TURN = /~\d+$/;

/** Devices of a card, by the first of their names that the engine lists; null: it lists none. */
export function migGpus(
  { index, uuid: cardUuid, model, memoryMiB, migs, facts }: Card,
  isListed: ((name: string) => boolean) | null,
): HostGpu[] {
  return migs.flatMap(({ uuid, profile }, nth) => {
    const names = [uuid, `${index}:${nth}`];
    const id = isListed === null ? uuid : names.find(isListed);
    if (id === undefined) return [];
    const [, processors, all = '1', gigabytes = '0'] = PROFILE.exec(profile) ?? [];
    const memory = Number(gigabytes) * 1024;
    const ofCard = memory > 0 && memoryMiB !== null ? Math.min(1, memory / memoryMiB) : 1 / migs.length;
    return {
      kind: 'gpu',
      slice: 'mig',
      card: model,
      cardUuid: cardUuid ?? undefined,
      name: `${model} MIG ${profile}`,
      id,
      memoryMiB: memory > 0 ? memory : null,
      share: ofCard * (processors === undefined ? 1 : Number(processors) / Number(all)),
      otherIds: names.filter((name) => name !== id),
      facts,
    };
  });
}

/** A card is whole, or a device for each of its turns. */
export function withTurns(gpus: readonly HostGpu[], turns: GpuTurns): HostGpu[] {
  return gpus.flatMap((gpu): HostGpu[] => {
    const names = [gpu.id, ...gpu.otherIds];
    const count = turns[names.find((name) => Object.hasOwn(turns, name)) ?? ''] ?? 1;
    if (count === 1 || gpu.slice !== undefined) return [gpu];
    return Array.from({ length: count }, (_, nth) => ({
      ...gpu,
      slice: 'shared',
      card: gpu.name,
      name: `${gpu.name} 1/${count}`,
      share: 1 / count,
      id: `${gpu.id}~${nth}`,
      otherIds: gpu.otherIds.map((name) => `${name}~${nth}`),
    }));
  });
}

/** Device of a probe. */
export const deviceOf = ({ kind, name, id, memoryMiB, share, slice, card, facts }: HostGpu) =>
  ({ kind, name, id, memoryMiB, share, slice, card, facts }) satisfies Probe['devices'][number];

/** Name of the device for the engine. */
export const withoutTurn = (id: string): string => id.replace(TURN, '');

const isTurn = (id: string): boolean => TURN.test(id);

/** Whether two holders cannot have both: one device, unless with a turn for each. */
export const excludes = (one: string, other: string): boolean =>
  one === other || (withoutTurn(one) === withoutTurn(other) && !(isTurn(one) && isTurn(other)));

/**
 * CDI comes first: it makes cards devices of the container, which a reload of systemd takes from
 * the containers of the older runtime. `cards` is empty where nothing tells them.
 */
export function givenGpus(
  discovered: readonly { Source: string; ID: string }[],
  hasRuntime: boolean,
  cards: readonly Card[],
  turns: GpuTurns = {},
): { gpuDriver: GpuDriver | null; gpus: HostGpu[] } {
  const names = discovered.flatMap(({ Source, ID }) => (Source === 'cdi' ? (CDI.exec(ID)?.[1] ?? []) : []));
  const whole = cards.filter(({ isMig }) => !isMig);
  const gpuOf = ({ uuid, index, model, memoryMiB, isLost, facts }: Card, id: string): HostGpu => {
    const otherIds = [String(index), uuid ?? id].filter((name) => name !== id);
    return { kind: 'gpu', name: model, id, memoryMiB, share: 1, otherIds, ...(isLost && { isLost }), facts };
  };
  const divided = cards.filter(({ isMig }) => isMig);
  if (names.length === 0) {
    if (!hasRuntime) return { gpuDriver: null, gpus: [] };
    const gpus = whole.map((card) => gpuOf(card, card.uuid ?? String(card.index)));
    return {
      gpuDriver: 'nvidia',
      gpus: [...withTurns(gpus, turns), ...divided.flatMap((card) => migGpus(card, null))],
    };
  }
  const known = whole.flatMap((card) => {
    const id = [card.uuid ?? '', String(card.index)].find((name) => names.includes(name));
    return id === undefined ? [] : [gpuOf(card, id)];
  });
  const unknown = cards.length > 0 ? [] : names.filter((name) => /^\d+$/.test(name));
  const bare = { kind: 'gpu', name: UNKNOWN_MODEL, memoryMiB: null, share: 1, otherIds: [] } as const;
  const gpus = withTurns([...known, ...unknown.map((id) => ({ ...bare, id }))], turns);
  const slices = divided.flatMap((card) => migGpus(card, (name) => names.includes(name)));
  return { gpuDriver: 'cdi', gpus: [...gpus, ...slices] };
}

export const currentGpuId = (gpus: readonly HostGpu[], id: string): string =>
  gpus.find((gpu) => gpu.id === id || gpu.otherIds.includes(id))?.id ?? id;
