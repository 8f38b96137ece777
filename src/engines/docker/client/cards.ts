/**
 * Cards of the host: model and memory as the driver says, and the names by which the engine gives
 * cards. `nvidia-smi` says most; `/proc/driver/nvidia` says models, and UUIDs after a first use.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { UNKNOWN_MODEL } from '../../../domain/regions/catalog.ts';

export interface HostGpu {
  kind: 'gpu';
  name: string;
  /** Name for the engine: the UUID, else the index. */
  id: string;
  memoryMiB: number | null;
  /** Names in the labels of containers that an earlier version made. */
  otherIds: readonly string[];
}

export interface Card {
  index: number;
  uuid: string | null;
  model: string;
  memoryMiB: number | null;
  isMig: boolean;
}

export type GpuDriver = 'nvidia' | 'cdi';

const PROC = '/proc/driver/nvidia/gpus';
const SMI_MS = 30_000;
export const UUID = /^GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const CDI = /^nvidia\.com\/gpu=(\d+|GPU-[0-9a-f-]+)$/;

const fields = ['index', 'uuid', 'name', 'memory.total', 'mig.mode.current'] as const;
const query = [`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'];

/** Leaves out lines of no card, as of one that has failed. */
export function parseCards(text: string): Card[] {
  return text.split('\n').flatMap((line) => {
    const cells = line.split(', ').map((cell) => cell.trim());
    const [index = '', uuid = '', model = '', memory = '', mig = ''] = cells;
    if (cells.length !== fields.length || !/^\d+$/.test(index) || !UUID.test(uuid)) return [];
    const memoryMiB = /^\d+$/.test(memory) ? Number(memory) : null;
    return [{ index: Number(index), uuid, model, memoryMiB, isMig: mig === 'Enabled' }];
  });
}

/** Folders have the order of the driver: by place on the bus. */
export async function readProcCards(root = PROC): Promise<Card[]> {
  const folders = await readdir(root).catch(() => []);
  const texts = folders.toSorted().map((folder) => readFile(`${root}/${folder}/information`, 'utf8').catch(() => ''));
  return (await Promise.all(texts)).flatMap((text, index) => {
    const uuid = /^GPU UUID:\s*(\S+)\s*$/m.exec(text)?.[1] ?? '';
    const model = /^Model:\s*(.+?)\s*$/m.exec(text)?.[1];
    return model === undefined
      ? []
      : [{ index, uuid: UUID.test(uuid) ? uuid : null, model, memoryMiB: null, isMig: false }];
  });
}

/** Null: `nvidia-smi` is absent, or cannot reach the driver. */
export const askSmi = (program: string): Promise<Card[] | null> =>
  promisify(execFile)(program, query, { timeout: SMI_MS }).then(
    ({ stdout }) => parseCards(stdout),
    () => null,
  );

/** Reads again once the names change: without persistence a call takes seconds. */
export function makeReadCards(
  ask: () => Promise<Card[] | null>,
  root = PROC,
): (names: readonly string[]) => Promise<Card[]> {
  let last: { key: string; cards: Card[] } | undefined;
  return async (names) => {
    const key = [...names, ...(await readdir(root).catch(() => []))].join(' ');
    if (last?.key === key) return last.cards;
    const cards = await ask();
    if (cards === null || cards.length === 0) return readProcCards(root);
    last = { key, cards };
    return cards;
  };
}

/**
 * CDI comes first: it makes cards devices of the container, which a reload of systemd takes from
 * the containers of the older runtime. `cards` is empty where the engine is elsewhere.
 */
export function givenGpus(
  discovered: readonly { Source: string; ID: string }[],
  hasRuntime: boolean,
  cards: readonly Card[],
): { gpuDriver: GpuDriver | null; gpus: HostGpu[] } {
  const names = discovered.flatMap(({ Source, ID }) => (Source === 'cdi' ? (CDI.exec(ID)?.[1] ?? []) : []));
  const whole = cards.filter(({ isMig }) => !isMig);
  const gpuOf = ({ uuid, index, model, memoryMiB }: Card, id: string): HostGpu => {
    const otherIds = [String(index), uuid ?? id].filter((name) => name !== id);
    return { kind: 'gpu', name: model, id, memoryMiB, otherIds };
  };
  if (names.length === 0)
    return {
      gpuDriver: hasRuntime ? 'nvidia' : null,
      gpus: hasRuntime ? whole.map((card) => gpuOf(card, card.uuid ?? String(card.index))) : [],
    };
  const known = whole.flatMap((card) => {
    const id = [card.uuid ?? '', String(card.index)].find((name) => names.includes(name));
    return id === undefined ? [] : [gpuOf(card, id)];
  });
  const isKnown = (name: string): boolean => cards.some(({ uuid, index }) => name === uuid || name === String(index));
  const unknown = names.filter((name) => /^\d+$/.test(name) && !isKnown(name));
  const bare = { kind: 'gpu', name: UNKNOWN_MODEL, memoryMiB: null, otherIds: [] } as const;
  return { gpuDriver: 'cdi', gpus: [...known, ...unknown.map((id) => ({ ...bare, id }))] };
}

export const currentGpuId = (gpus: readonly HostGpu[], id: string): string =>
  gpus.find((gpu) => gpu.id === id || gpu.otherIds.includes(id))?.id ?? id;
