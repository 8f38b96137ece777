/**
 * Cards of the host as the driver says. `nvidia-smi` says most; `/proc/driver/nvidia` says models,
 * and UUIDs after a first use.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

export interface MigDevice {
  uuid: string;
  /** Example: `1g.5gb`, and `1c.3g.20gb` for a part of its processors. */
  profile: string;
}

export interface Card {
  index: number;
  uuid: string | null;
  model: string;
  memoryMiB: number | null;
  isMig: boolean;
  migs: readonly MigDevice[];
}

const PROC = '/proc/driver/nvidia/gpus';
const SMI_MS = 30_000;
export const UUID = /^GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const CARD = /^GPU \d+: .*\(UUID: (GPU-[0-9a-f-]+)\)$/;
const MIG = /^\s+MIG (\S+)\s+Device\s+\d+:\s+\(UUID: (MIG-[0-9a-zA-Z/-]+)\)$/;

const fields = ['index', 'uuid', 'name', 'memory.total', 'mig.mode.current'] as const;
const query = [`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'];

/** Leaves out lines of no card, as of one that has failed. */
export function parseCards(text: string): Card[] {
  return text.split('\n').flatMap((line) => {
    const cells = line.split(', ').map((cell) => cell.trim());
    const [index = '', uuid = '', model = '', memory = '', mig = ''] = cells;
    if (cells.length !== fields.length || !/^\d+$/.test(index) || !UUID.test(uuid)) return [];
    const memoryMiB = /^\d+$/.test(memory) ? Number(memory) : null;
    return [{ index: Number(index), uuid, model, memoryMiB, isMig: mig === 'Enabled', migs: [] }];
  });
}

/** Reads `nvidia-smi -L`: MIG devices by the UUID of their card, in the order of their numbers. */
export function parseMigs(text: string): Map<string, MigDevice[]> {
  const migs = new Map<string, MigDevice[]>();
  let card: string | undefined;
  for (const line of text.split('\n')) {
    card = CARD.exec(line)?.[1] ?? card;
    const [, profile, uuid] = MIG.exec(line) ?? [];
    if (card !== undefined && profile !== undefined && uuid !== undefined)
      migs.set(card, [...(migs.get(card) ?? []), { profile, uuid }]);
  }
  return migs;
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
      : [{ index, uuid: UUID.test(uuid) ? uuid : null, model, memoryMiB: null, isMig: false, migs: [] }];
  });
}

/** Null: `nvidia-smi` is absent, or cannot reach the driver. */
export async function askSmi(program: string): Promise<Card[] | null> {
  const call = async (args: readonly string[]): Promise<string> =>
    (await promisify(execFile)(program, args, { timeout: SMI_MS })).stdout;
  try {
    const cards = parseCards(await call(query));
    if (!cards.some(({ isMig }) => isMig)) return cards;
    const migs = parseMigs(await call(['-L']));
    return cards.map((card) => ({ ...card, migs: migs.get(card.uuid ?? '') ?? [] }));
  } catch {
    return null;
  }
}

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
