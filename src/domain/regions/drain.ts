/** An operator's drain: the region takes no launches and starts. */
export interface Drain {
  /** Shown to accounts. */
  reason: string;
  sinceMs: number;
  /** Time from which running instances are stopped; null: they stay. */
  stopAtMs: number | null;
}
