/** End of a run that Berth did not ask for. */
export interface Disruption {
  /** Why, for the owner. */
  text: string;
  /** From the first observation until the programs inside are told to end; 0: already, or at once. */
  graceMs: number;
  /** The instance used up the memory or the disk of its node. */
  isOwnUse?: true;
}
