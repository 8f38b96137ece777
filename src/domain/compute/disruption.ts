/** End of a run that Berth did not ask for. */
export interface Disruption {
  /** Why, for the owner. */
  text: string;
  /** Time from the first observation until the programs inside must end; 0: at once. */
  graceMs: number;
  /** Resource used up by the instance: memory or disk of the node, or size of the root disk. */
  usedUp?: 'node' | 'rootDisk';
}
