/**
 * Growth on one file system: which instances to count, and how much each grew within the last
 * minute. Counting walks all files of an instance; free space is cheap to read. An instance is due
 * only once free space fell by what the instance lacks for a stop.
 */
import { MIN_GROWTH_BYTES, toleratedBytes, type DiskGrowth } from './disk-growth.ts';
import { BYTES_PER_GB } from './disk.ts';
import type { InstanceId } from '../kernel/ids.ts';

const HALF_WINDOW_MS = 30_000;

/** An instance that may write. */
export interface Writer {
  id: InstanceId;
  generation: number;
  /** Null: a hard limit holds, or root disks are on another file system. */
  rootSizeGB: number | null;
  /** Last published size of the root disk. */
  knownRootBytes: number;
}

export interface DiskCount {
  /** Null: not counted in time. */
  rootBytes: number | null;
  /** Other best-effort disks on the file system, now and as last published. */
  otherBytes: number;
  knownOtherBytes: number;
}

/** An amount some 30 to 60 seconds ago (`base`), and within 30 seconds (`middle`). */
interface Window {
  baseBytes: number;
  middleBytes: number;
}

interface Track extends Window {
  generation: number;
  rootBytes: number;
  leastRootBytes: number;
  /** Sum of all disks; null before the first count. */
  bytes: number | null;
  /** Whether the last count ended in time. */
  isCounted: boolean;
  countedAtBytes: number;
}

export interface GrowthTrack {
  /** Call before the others, at each reading. */
  noteFree(freeBytes: number, nowMs: number): void;
  /** Whether free space fell since the last `due` at all. */
  hasFallen(): boolean;
  /** Writers to count now; forgets all others. */
  due(writers: readonly Writer[], headroomBytes: number): Writer[];
  noteCount(writer: Writer, count: DiskCount): void;
  growthOf(writer: Writer): DiskGrowth;
}

function turn(window: Window, nowBytes: number): void {
  window.baseBytes = window.middleBytes;
  window.middleBytes = nowBytes;
}

export function trackGrowth(firstFreeBytes: number, firstMs: number): GrowthTrack {
  let freeBytes = firstFreeBytes;
  let turnsAtMs = firstMs + HALF_WINDOW_MS;
  /** Sum of all falls of the free space: space that another instance frees hides no growth. */
  let fallenBytes = 0;
  let askedAtBytes = 0;
  const fallen: Window = { baseBytes: 0, middleBytes: 0 };
  const tracks = new Map<InstanceId, Track>();

  const trackOf = ({ id, generation, knownRootBytes, rootSizeGB }: Writer): Track => {
    const before = tracks.get(id);
    if (before?.generation === generation) return before;
    const rootBytes = before?.rootBytes ?? knownRootBytes;
    const leastRootBytes = Math.max(rootBytes, (rootSizeGB ?? 0) * BYTES_PER_GB);
    const fresh = { bytes: null, isCounted: true, baseBytes: 0, middleBytes: 0, countedAtBytes: askedAtBytes };
    const track = { ...fresh, ...before, generation, rootBytes, leastRootBytes };
    tracks.set(id, track);
    return track;
  };

  return {
    noteFree(nowFreeBytes, nowMs) {
      fallenBytes += Math.max(0, freeBytes - nowFreeBytes);
      freeBytes = nowFreeBytes;
      if (nowMs < turnsAtMs) return;
      turnsAtMs = nowMs + HALF_WINDOW_MS;
      turn(fallen, fallenBytes);
      for (const track of tracks.values()) if (track.bytes !== null) turn(track, track.bytes);
    },

    hasFallen: () => fallenBytes - askedAtBytes >= MIN_GROWTH_BYTES,

    due(writers, headroomBytes) {
      const isShort = fallenBytes - fallen.baseBytes >= headroomBytes;
      const suspects = writers.filter((writer) => {
        const { rootBytes, countedAtBytes } = trackOf(writer);
        const { rootSizeGB } = writer;
        const mostBytes = fallenBytes - countedAtBytes;
        if (mostBytes < MIN_GROWTH_BYTES) return false;
        if (isShort || rootSizeGB === null) return isShort;
        return rootBytes + mostBytes > rootSizeGB * BYTES_PER_GB + toleratedBytes(rootSizeGB, headroomBytes);
      });
      askedAtBytes = fallenBytes;
      const ids = new Set(writers.map(({ id }) => id));
      for (const id of tracks.keys()) if (!ids.has(id)) tracks.delete(id);
      return suspects;
    },

    noteCount(writer, { rootBytes, otherBytes, knownOtherBytes }) {
      const track = trackOf(writer);
      track.countedAtBytes = fallenBytes;
      track.isCounted = rootBytes !== null;
      if (rootBytes === null) return;
      const bytes = rootBytes + otherBytes;
      const knownBytes = Math.min(rootBytes, track.rootBytes) + Math.min(otherBytes, knownOtherBytes);
      track.baseBytes = Math.min(bytes, track.bytes === null ? knownBytes : track.baseBytes);
      track.middleBytes = Math.min(bytes, track.bytes === null ? knownBytes : track.middleBytes);
      track.bytes = bytes;
      track.rootBytes = rootBytes;
      track.leastRootBytes = Math.min(track.leastRootBytes, rootBytes);
    },

    growthOf(writer) {
      const { rootBytes, leastRootBytes, bytes, baseBytes, isCounted } = trackOf(writer);
      const { id, rootSizeGB } = writer;
      return {
        id,
        root: rootSizeGB === null ? null : { bytes: rootBytes, sizeGB: rootSizeGB, leastBytes: leastRootBytes },
        grownBytes: isCounted ? (bytes ?? 0) - baseBytes : null,
      };
    },
  };
}
