/** A storage in memory that keeps the contract, for disks that outlive the simulated server. */
import type { DiskId, Storage } from '../../src/storage/contract.ts';

export interface MemoryStorage extends Storage {
  /** What there is, as `kind/id`. */
  readonly there: ReadonlySet<string>;
  /** A backing is lost, or found again. */
  lose(disk: string): void;
  find(disk: string): void;
}

export const nameOf = ({ kind, id }: DiskId): string => `${kind}/${id}`;

export function makeMemoryStorage(): MemoryStorage {
  const there = new Set<string>();
  return {
    there,
    lose: (disk) => void there.delete(disk),
    find: (disk) => void there.add(disk),
    capabilities: () => ({ sizeLimit: 'soft', snapshots: false }),
    create: async (disk) => void there.add(nameOf(disk)),
    async mount(disk) {
      if (!there.has(nameOf(disk))) throw new Error(`there is no ${nameOf(disk)}`);
      return `/disks/${nameOf(disk)}`;
    },
    observe: async (disk) => ({ kind: there.has(nameOf(disk)) ? 'present' : 'absent' }),
    usage: async (disk) => (there.has(nameOf(disk)) ? 4_096 : null),
    destroy: async (disk) => void there.delete(nameOf(disk)),
    listOwned: async () =>
      [...there].map((name): DiskId => {
        const [kind = '', ...id] = name.split('/');
        if (kind !== 'volume' && kind !== 'data' && kind !== 'shared') throw new Error(`${name} is no disk`);
        return { kind, id: id.join('/') };
      }),
  };
}
