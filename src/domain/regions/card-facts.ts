/** Facts of a card that only a new driver or other hardware changes. */

export interface CardFacts {
  driverVersion: string | null;
  /** Newest CUDA of the driver. */
  cudaVersion: string | null;
  numaNode: number | null;
  /** Kinds of links by UUIDs of other cards: `NV18`, `PIX`, as `nvidia-smi topo -m` prints. */
  links: Readonly<Record<string, string>>;
}

const kinds = ['PIX', 'PXB', 'PHB', 'NODE', 'SYS'];

/** Lower is nearer: NVLinks by their number, then the path through PCIe. */
export function distanceOf(link: string | undefined): number {
  const nvLinks = Number(/^NV(\d+)$/.exec(link ?? '')?.[1] ?? 0);
  const nth = kinds.indexOf(link ?? '');
  return nvLinks > 0 ? 1 / nvLinks : 2 + (nth < 0 ? kinds.length : nth);
}
