/** End of a run that Berth did not ask for. */
export interface Disruption {
  /** Why, for the owner. */
  text: string;
  /** Time from the first observation until the programs inside must end; 0: at once. */
  graceMs: number;
  /** The instance used up the memory or the disk of its node. */
  isOwnUse?: true;
}
