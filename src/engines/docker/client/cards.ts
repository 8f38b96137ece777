/**
 * Cards of the host as the driver says. `nvidia-smi` says most; `/proc/driver/nvidia` says models,
 * and UUIDs after a first use.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import type { CardFacts } from '../../../domain/regions/card-facts.ts';
import type { StartSmi } from '../cards/smi.ts';

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
  isLost?: true;
  facts?: CardFacts | undefined;
}

interface SmiAnswer {
  cards: Card[];
  /** Places of cards without a handle. */
  lost: ReadonlySet<string>;
}

const PROC = '/proc/driver/nvidia/gpus';
const SMI_MS = 30_000;
export const UUID = /^GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const PLACE = /^(?:GPU ?)?[0-9a-f]{0,4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-9a-f])?$/i;
const NO_HANDLE = /^Unable to determine the device handle for (GPU ?[0-9a-f:.]+): /i;
const LOST = /GPU is lost/i;
const CARD = /^GPU \d+: .*\(UUID: (GPU-[0-9a-f-]+)\)$/;
const MIG = /^\s+MIG (\S+)\s+Device\s+\d+:\s+\(UUID: (MIG-[0-9a-zA-Z/-]+)\)$/;

const fields = ['index', 'uuid', 'name', 'memory.total', 'mig.mode.current'] as const;
const query = [`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'];

/** `0000:00:06` of `00000000:00:06.0`, as in the kernel's log. */
export const placeOf = (busId: string): string | null => PLACE.exec(busId)?.[1]?.toLowerCase() ?? null;

export const placeWithoutHandle = (line: string): string | null => placeOf(NO_HANDLE.exec(line)?.[1] ?? '');

export const saysLost = (line: string): boolean => LOST.test(line);

/** Leaves out lines of no card, as of one that has failed. */
export function parseCards(text: string): Card[] {
  return text.split('\n').flatMap((line) => {
    const cells = line.split(', ').map((cell) => cell.trim());
    const [index = '', uuid = '', model = '', memory = '', mig = ''] = cells;
    if (cells.length !== fields.length || !/^\d+$/.test(index) || !UUID.test(uuid)) return [];
    const memoryMiB = /^\d+$/.test(memory) ? Number(memory) : null;
    const card: Card = { index: Number(index), uuid, model, memoryMiB, isMig: mig === 'Enabled', migs: [] };
    return [saysLost(line) ? { ...card, isLost: true } : card];
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

/** Reads the head of `nvidia-smi`, whose words changed with driver 610. */
export function parseVersions(head: string): Pick<CardFacts, 'driverVersion' | 'cudaVersion'> {
  const [, driverVersion = null] = /\b(?:Driver|KMD) Version:\s*(\d[\d.]*)/.exec(head) ?? [];
  const [, cudaVersion = null] = /\bCUDA (?:UMD )?Version:\s*(\d[\d.]*)/.exec(head) ?? [];
  return { driverVersion, cudaVersion };
}

const unknownPlace: Pick<CardFacts, 'numaNode' | 'links'> = { numaNode: null, links: {} };

/** Reads `nvidia-smi topo -m`, by the index of each card. */
export function parseTopology(
  matrix: string,
  cards: readonly Pick<Card, 'index' | 'uuid'>[],
): Map<number, Pick<CardFacts, 'numaNode' | 'links'>> {
  // The head is underlined.
  const lines = stripVTControlCharacters(matrix).split('\n');
  const rows = lines.map((line) => line.split('\t').map((cell) => cell.trim()));
  const head = rows.find((cells) => cells.includes('GPU0')) ?? [];
  return new Map(
    cards.flatMap(({ index }) => {
      const row = rows.find(([name]) => name === `GPU${index}`);
      if (row === undefined) return [];
      const links = cards.flatMap((other): [string, string][] => {
        const kind = row[head.indexOf(`GPU${other.index}`)] ?? '';
        return other.uuid === null || !/^(?:NV\d+|[A-Z]{3,4})$/.test(kind) ? [] : [[other.uuid, kind]];
      });
      const numaNode = row[head.indexOf('NUMA Affinity')] ?? '';
      const place = { numaNode: /^\d+$/.test(numaNode) ? Number(numaNode) : null, links: Object.fromEntries(links) };
      return [[index, place] as const];
    }),
  );
}

/** Folders have the order of the driver: by place on the bus. */
export async function readProcCards(root = PROC): Promise<Card[]> {
  const version = await readFile(join(root, '../version'), 'utf8').catch(() => '');
  const driverVersion = /^NVRM version:.*?\s(\d+(?:\.\d+)+)\s/m.exec(version)?.[1];
  const facts = driverVersion && { driverVersion, cudaVersion: null, ...unknownPlace };
  return (await readFolders(root)).map(({ card }) => (facts ? { ...card, facts } : card));
}

async function readFolders(root: string): Promise<{ folder: string; card: Card }[]> {
  const folders = (await readdir(root).catch(() => [])).toSorted();
  const texts = await Promise.all(
    folders.map((folder) => readFile(`${root}/${folder}/information`, 'utf8').catch(() => '')),
  );
  const found = folders.map((folder, nth) => ({ folder, text: texts[nth] ?? '' }));
  const driven = found.filter(({ text }) => !/^GPU Excluded:\s*Yes/m.test(text));
  return driven.flatMap(({ folder, text }, index) => {
    const uuid = /^GPU UUID:\s*(\S+)\s*$/m.exec(text)?.[1] ?? '';
    const model = /^Model:\s*(.+?)\s*$/m.exec(text)?.[1];
    const known = { index, uuid: UUID.test(uuid) ? uuid : null, memoryMiB: null, isMig: false, migs: [] };
    return model === undefined ? [] : [{ folder, card: { ...known, model } }];
  });
}

/** Also of a failed command. */
async function outputOf(start: StartSmi, args: readonly string[]): Promise<string> {
  const smi = await start(args, AbortSignal.timeout(SMI_MS)).catch(() => null);
  if (smi === null) return '';
  const texts = await Promise.all([smi.stdout, smi.stderr].map((stream) => text(stream).catch(() => '')));
  smi.kill();
  return texts.join('\n');
}

/** Null: `nvidia-smi` is absent, or cannot reach the driver. */
export async function askSmi(start: StartSmi, root = PROC): Promise<SmiAnswer | null> {
  const lost = new Set<string>();
  let cards: Card[] = [];
  // A card without a handle hides the others.
  for (let ids: string[] = []; cards.length === 0;) {
    const output = await outputOf(start, [...query, ...(ids.length === 0 ? [] : [`--id=${ids.join(',')}`])]);
    cards = parseCards(output);
    const before = lost.size;
    for (const line of output.split('\n')) {
      const place = placeWithoutHandle(line);
      if (place !== null) lost.add(place);
    }
    const folders = (await readFolders(root)).map(({ folder }) => folder);
    ids = folders.filter((folder) => !lost.has(placeOf(folder) ?? ''));
    if (lost.size === before || ids.length === 0) break;
  }
  if (cards.length === 0 && lost.size === 0) return null;
  const migs = cards.some(({ isMig }) => isMig) ? parseMigs(await outputOf(start, ['-L'])) : null;
  const versions = parseVersions(await outputOf(start, []));
  const topology = parseTopology(await outputOf(start, ['topo', '-m']), cards);
  return {
    cards: cards.map((card) => ({
      ...card,
      migs: migs?.get(card.uuid ?? '') ?? [],
      facts: { ...versions, ...(topology.get(card.index) ?? unknownPlace) },
    })),
    lost,
  };
}

/** Reads again once the names change, or while a card is lost: a call may take seconds. */
export function makeReadCards(
  ask: (root: string) => Promise<SmiAnswer | null>,
  root = PROC,
): (names: readonly string[]) => Promise<Card[]> {
  let last: { key: string; cards: Card[] } | undefined;
  return async (names) => {
    const key = [...names, ...(await readdir(root).catch(() => []))].join(' ');
    if (last?.key === key) return last.cards;
    const said = await ask(root);
    if (said === null) return readProcCards(root);
    const { cards, lost } = said;
    const isLost = ({ folder, card: { uuid } }: { folder: string; card: Card }): boolean =>
      !cards.some((card) => card.uuid === uuid) && (uuid !== null || lost.has(placeOf(folder) ?? ''));
    const gone = (await readFolders(root)).filter(isLost).map(({ card }): Card => ({ ...card, isLost: true }));
    const all = [...cards, ...gone];
    if (!all.some((card) => card.isLost)) last = { key, cards: all };
    return all;
  };
}
