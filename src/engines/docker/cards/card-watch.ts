/** Readings of the host's cards: figures for the usage of instances, and findings about health. */
import { findingOfXid, findingsOf, type CardFinding } from '../../../domain/regions/card-health.ts';
import { isEngineAway } from '../../../domain/regions/engine-fault.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import type { GpuUsage, Probe } from '../../contract.ts';
import type { EngineLog } from '../../engine-log.ts';
import { placeWithoutHandle, UUID } from '../client/cards.ts';
import { withoutTurn, type HostGpu } from '../client/host-gpus.ts';
import { INTERVAL_MS, runCardLoop } from './card-loop.ts';
import { followKernelLog, type PlacedXid } from './kernel-log.ts';
import { parseReading, unknownFigures, type CardReading } from './readings.ts';
import { smiHere, type StartSmi } from './smi.ts';

const STALE_MS = 3 * INTERVAL_MS;
/** Exceeds a silent command and the next start. */
const LOST_MS = 9 * INTERVAL_MS;
export const WELL_MS = 60_000;

interface WatchedCard {
  place: string;
  figures: CardReading['figures'];
  firstMs: number;
  atMs: number;
  /** Round of its last reading. */
  round: number;
  /** Last line that says that the card is lost. */
  lostAtMs: number;
  found: Map<string, { finding: CardFinding; atMs: number }>;
}

export interface CardWatch {
  /** Starts to read the cards known to `nvidia-smi` of their host. */
  follow(gpus: readonly HostGpu[]): void;
  /** Undefined: the card is not read. */
  usageOf(id: string): GpuUsage | undefined;
  /** Adds findings, and figures of the whole card, to devices. */
  read(devices: Probe['devices']): Probe['devices'];
  uuidOf(id: string): string | undefined;
  /** Undefined: unknown. */
  findingsOf(id: string): CardFinding[] | undefined;
  /**
   * By more than one reading of it, or of the others alone. A driver that says nothing of any card
   * takes none: programs on them go on, as after an update of its files.
   */
  isLost(id: string): boolean;
  stop(): Promise<void>;
}

export interface CardWatchOptions {
  log: Pick<EngineLog, 'debug'>;
  start?: StartSmi | undefined;
  /** Null: that of another host. */
  kernelLog?: { path: string; pollMs: number } | null | undefined;
  now?: () => number;
}

export const uuidOf = ({ id, otherIds, memoryMiB }: HostGpu): string | undefined =>
  memoryMiB === null ? undefined : [id, ...otherIds].map(withoutTurn).find((name) => UUID.test(name));

/** While the engine of the container that reads is away, silence says nothing of cards. */
function makeSilence(now: () => number) {
  let isAway = false;
  let backMs = -Infinity;
  return {
    onEnd(error: unknown): void {
      isAway ||= isEngineAway(error);
    },
    onReading(): void {
      if (isAway) backMs = now();
      isAway = false;
    },
    isLoss: (readMs: number): boolean => !isAway && now() - Math.max(readMs, backMs) > LOST_MS,
  };
}

function makeXids() {
  const byPlace = new Map<string, Map<number, PlacedXid>>();
  return {
    onXid(xid: PlacedXid): void {
      const ofCard = byPlace.get(xid.place) ?? new Map<number, PlacedXid>();
      byPlace.set(xid.place, ofCard.set(xid.code, xid));
    },
    findingsAt: (place: string) => [...(byPlace.get(place)?.values() ?? [])].flatMap(findingOfXid),
  };
}

export function makeCardWatch(options: CardWatchOptions): CardWatch {
  const { log, start = smiHere(), kernelLog, now = () => performance.now() } = options;
  const cards = new Map<string, WatchedCard>();
  const xids = makeXids();
  const withoutHandle = new Set<string>();
  const stopping = new AbortController();
  const { signal } = stopping;
  const uuids = new Map<string, string>();
  const parts = new Map<string, string>();
  let round = 0;
  /** Lost since before the first reading. */
  let missing = new Map<string, number>();
  let watching: Promise<unknown> | undefined;
  const silence = makeSilence(now);

  function note(card: WatchedCard | undefined, findings: readonly CardFinding[]): void {
    for (const finding of findings) card?.found.set(finding.reason, { finding, atMs: now() });
  }

  const atPlace = (place: string): WatchedCard | undefined => [...cards.values()].find((card) => card.place === place);

  const lost = findingsOf({ isLost: true, recovery: null, eccUncorrected: null });

  function noteLost(card: WatchedCard | undefined): void {
    note(card, lost);
    if (card) card.lostAtMs = now();
  }

  function onLine(line: string, fields: readonly string[]): boolean {
    const place = placeWithoutHandle(line);
    if (place !== null) {
      withoutHandle.add(place);
      noteLost(atPlace(place));
    }
    const reading = parseReading(line, fields);
    if (reading === null) return false;
    silence.onReading();
    const known = reading.uuid === null ? atPlace(reading.place) : cards.get(reading.uuid);
    const atMs = now();
    const times = { firstMs: atMs, atMs, round: -1, lostAtMs: -Infinity };
    const card: WatchedCard = known ?? { ...times, found: new Map(), place: reading.place, figures: unknownFigures };
    if (reading.uuid !== null) cards.set(reading.uuid, card);
    if (reading.isLost) noteLost(card);
    else {
      if (card.round === round) round += 1;
      Object.assign(card, { place: reading.place, figures: reading.figures, atMs, round });
    }
    note(card, findingsOf(reading));
    return true;
  }

  /** A card without a handle hides the others. */
  function only(): string[] | null {
    if (withoutHandle.size === 0) return null;
    const all = [...new Set([...uuids.values(), ...parts.values()])];
    const others = all.filter((uuid) => !withoutHandle.has(cards.get(uuid)?.place ?? ''));
    withoutHandle.clear();
    return others.length === 0 ? null : others;
  }

  const cardOf = (id: string): WatchedCard | undefined => cards.get(uuids.get(id) ?? parts.get(id) ?? '');

  function readingOf(id: string): Pick<Probe['devices'][number], 'uuid' | 'figures'> {
    const uuid = uuids.get(id) ?? parts.get(id);
    if (uuid === undefined) return {};
    const card = cards.get(uuid);
    return card !== undefined && now() - card.atMs < STALE_MS ? { uuid, figures: card.figures } : { uuid };
  }

  function findingsOfCard(id: string): CardFinding[] | undefined {
    if (missing.has(id)) return lost;
    const card = cardOf(id);
    if (card === undefined) return undefined;
    const nowMs = now();
    if (silence.isLoss(card.atMs)) note(card, lost);
    const recent = [...card.found.values()].filter(({ atMs }) => nowMs - atMs < WELL_MS);
    const all = [...xids.findingsAt(card.place), ...recent.map(({ finding }) => finding)];
    return all.length === 0 && nowMs - card.firstMs < WELL_MS ? undefined : all;
  }

  function isLost(id: string): boolean {
    const sinceMs = missing.get(id);
    if (sinceMs !== undefined) return now() - sinceMs > 2 * INTERVAL_MS;
    const card = cardOf(id);
    if (card === undefined) return false;
    return card.lostAtMs - card.atMs > 2 * INTERVAL_MS || round - card.round > 2;
  }

  return {
    follow(gpus) {
      const gone = gpus.flatMap(({ isLost, id, otherIds }) => (isLost ? [id, ...otherIds] : []));
      missing = new Map(gone.map((id) => [id, missing.get(id) ?? now()]));
      // A lost card is not among them, and an instance may have it.
      for (const gpu of gpus) {
        const uuid = uuidOf(gpu);
        if (uuid !== undefined) for (const name of [gpu.id, ...gpu.otherIds]) uuids.set(name, uuid);
        if (gpu.cardUuid !== undefined) parts.set(gpu.id, gpu.cardUuid);
      }
      if (uuids.size === 0 && parts.size === 0) return;
      const onEnd = (error: unknown): void => {
        silence.onEnd(error);
        log.debug({ reason: errorText(error) }, 'nvidia-smi is started again');
      };
      watching ??= Promise.all([
        runCardLoop({ start, onLine, only, onEnd, signal }),
        kernelLog === null ? undefined : followKernelLog(xids.onXid, signal, kernelLog),
      ]);
    },
    read: (devices) => devices.map((one) => ({ ...one, ...readingOf(one.id), findings: findingsOfCard(one.id) })),
    usageOf: (id) => (uuids.has(id) ? { deviceId: id, ...(readingOf(id).figures ?? unknownFigures) } : undefined),
    uuidOf: (id) => uuids.get(id),
    findingsOf: findingsOfCard,
    isLost,
    async stop() {
      stopping.abort();
      await watching;
    },
  };
}
