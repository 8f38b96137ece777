/** End of a run that Berth did not ask for. */
export interface Disruption {
  /** Why, for the owner. */
  text: string;
  /** When the programs inside are told to end, by the engine's clock; 0: already, or at once. */
  endsAtMs: number;
  /** Resource used up by the instance: memory or disk of the node, or size of the root disk. */
  usedUp?: 'node' | 'rootDisk';
}
