/** End of a run that Berth did not ask for. */
export interface Disruption {
  /** Why, for the owner. */
  text: string;
  /** When the programs inside are told to end, by the engine's clock; 0: already, or at once. */
  endsAtMs: number;
  /** What the instance used up: memory or disk of its node, or the size of its root disk. */
  usedUp?: 'node' | 'rootDisk';
}
