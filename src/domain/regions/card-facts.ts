/** Facts of a card that only a new driver or other hardware changes. */

export interface CardFacts {
  driverVersion: string | null;
  /** Newest CUDA of the driver. */
  cudaVersion: string | null;
  numaNode: number | null;
  /** Kinds of links by UUIDs of other cards: `NV18`, `PIX`, as `nvidia-smi topo -m` prints. */
  links: Readonly<Record<string, string>>;
}
