/** End of a run that neither Berth nor the programs of the instance asked for. */
export interface Disruption {
  /** Why, for the owner. */
  text: string;
  /** When the programs inside are told to end, by the engine's clock; 0: already, or at once. */
  endsAtMs: number;
}
