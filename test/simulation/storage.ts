/** A storage in memory that follows the contract and outlives the simulated server. */
import { diskKinds, type DiskId, type DiskEntry } from '../../src/domain/storage/disk.ts';
import { StorageFault, type Storage } from '../../src/storage/contract.ts';

export interface MemoryStorage extends Storage {
  /** Size by `kind/id`. */
  readonly there: ReadonlyMap<string, number>;
  /** Content of each disk: the name of the first disk in its chain of copies. */
  readonly holds: ReadonlyMap<string, string>;
  readonly mounted: ReadonlySet<string>;
  /** Copies in progress, and remains of aborted ones. */
  readonly begun: Set<string>;
  /** Used bytes and largest entries. */
  hold(disk: DiskId, bytes: number, biggest?: DiskEntry[]): void;
  /** Loses a backing, until `find`. */
  lose(disk: string): void;
  find(disk: string): void;
}

export const nameOf = ({ kind, id }: DiskId): string => `${kind}/${id}`;

const PLENTY_BYTES = 2 ** 50;

function diskOf(name: string): DiskId {
  const [text = '', ...id] = name.split('/');
  const kind = diskKinds.find((known) => known === text);
  if (kind === undefined) throw new Error(`${name} is no disk`);
  return { kind, id: id.join('/') };
}

export function makeMemoryStorage(): MemoryStorage {
  const there = new Map<string, number>();
  const holds = new Map<string, string>();
  const mounted = new Set<string>();
  const begun = new Set<string>();
  const lost = new Map<string, number>();
  const usage = new Map<string, { bytes: number; biggest: DiskEntry[] }>();
  return {
    there,
    holds,
    mounted,
    begun,
    lose(disk) {
      lost.set(disk, there.get(disk) ?? 0);
      there.delete(disk);
    },
    find(disk) {
      const sizeGB = lost.get(disk);
      if (sizeGB !== undefined && !there.has(disk)) there.set(disk, sizeGB);
    },
    capabilities: () => ({ sizeLimit: 'hard', usage: 'instant', copies: 'atomic', dockerInside: true }),
    hold: (disk, bytes, biggest = []) => void usage.set(nameOf(disk), { bytes, biggest }),
    async create(disk, sizeGB, _signal, from) {
      begun.delete(nameOf(disk));
      if (from !== undefined && !there.has(nameOf(from))) throw new StorageFault('notFound', `no ${nameOf(from)}`);
      if (there.has(nameOf(disk))) return;
      there.set(nameOf(disk), sizeGB);
      holds.set(nameOf(disk), from === undefined ? nameOf(disk) : (holds.get(nameOf(from)) ?? 'nothing'));
    },
    async grow(disk, sizeGB) {
      const had = there.get(nameOf(disk));
      if (had === undefined) throw new StorageFault('notFound', `no ${nameOf(disk)}`);
      there.set(nameOf(disk), Math.max(had, sizeGB));
    },
    async unmount(disk) {
      mounted.delete(nameOf(disk));
    },
    async mount(disk) {
      if (!there.has(nameOf(disk))) throw new Error(`there is no ${nameOf(disk)}`);
      mounted.add(nameOf(disk));
      return `/disks/${nameOf(disk)}`;
    },
    async files(disk) {
      throw new StorageFault('unsupported', `${nameOf(disk)} is in memory, and has no files`);
    },
    async observe(disk) {
      const sizeGB = there.get(nameOf(disk));
      return sizeGB === undefined ? { kind: 'absent' } : { kind: 'present', sizeGB };
    },
    usage: async (disk) => (there.has(nameOf(disk)) ? (usage.get(nameOf(disk))?.bytes ?? 4_096) : null),
    allocation: async () => null,
    largestEntries: async (disk) => (mounted.has(nameOf(disk)) ? (usage.get(nameOf(disk))?.biggest ?? []) : null),
    async destroy(disk) {
      begun.delete(nameOf(disk));
      mounted.delete(nameOf(disk));
      there.delete(nameOf(disk));
    },
    listOwned: async () => [...there.keys()].map(diskOf),
    listMounted: async () => [...mounted].map(diskOf),
    space: async () => ({ totalBytes: PLENTY_BYTES, freeBytes: PLENTY_BYTES }),
  };
}
