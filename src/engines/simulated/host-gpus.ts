/** GPUs of a simulated host by name, with positions among all: a host may have a million. */
import { gpusNamed, type GpuCounts } from '../../domain/regions/catalog.ts';
import { gpuNameIn } from '../../domain/regions/placement.ts';
import { simulatedFault } from './injected-faults.ts';

export const SIMULATED_GPU = 'Simulated GPU';

interface Pool {
  returned: number[];
  next: number;
  first: number;
}

export class HostGpus<Holder> {
  readonly #counts: () => GpuCounts;
  readonly #taken = new Map<Holder, { pool: Pool; positions: readonly number[] }>();
  readonly #pools = new Map<string, Pool>();

  /** `counts`: those of now. */
  constructor(counts: () => GpuCounts) {
    this.#counts = counts;
    let first = 0;
    for (const [name, count] of Object.entries(counts())) {
      this.#pools.set(name, { returned: [], next: first, first });
      first += count;
    }
  }

  of = (holder: Holder): readonly number[] => this.#taken.get(holder)?.positions ?? [];

  /** Throws `no_capacity`. */
  check(wanted: number, asked = SIMULATED_GPU): void {
    const { name, pool } = this.#poolOf(asked);
    const has = gpusNamed(this.#counts(), name);
    const free = has - (pool.next - pool.first) + pool.returned.length;
    if (wanted === 0 || wanted <= free) return;
    const text = `the instance needs ${wanted} GPUs, and ${free} of ${has} are free`;
    throw simulatedFault('no_capacity', text, { reason: wanted > has ? 'gpuMissing' : 'gpuBusy' });
  }

  take(holder: Holder, wanted: number, asked = SIMULATED_GPU): void {
    if (wanted === 0) return;
    const { pool } = this.#poolOf(asked);
    this.#taken.set(holder, {
      pool,
      positions: Array.from({ length: wanted }, () => pool.returned.pop() ?? pool.next++),
    });
  }

  #poolOf(asked: string): { name: string; pool: Pool } {
    const name = gpuNameIn(Object.keys(this.#counts()), asked);
    const pool = this.#pools.get(name) ?? { returned: [], next: 0, first: 0 };
    this.#pools.set(name, pool);
    return { name, pool };
  }

  giveBack(holder: Holder): void {
    const { pool, positions } = this.#taken.get(holder) ?? {};
    pool?.returned.push(...(positions ?? []));
    this.#taken.delete(holder);
  }
}
