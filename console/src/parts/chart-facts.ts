type Values = readonly (number | null)[];

/** Lines of a chart. Null is a gap. */
export interface ChartFacts {
  /** Seconds. */
  times: readonly number[];
  lines: readonly Values[];
  /** Of each time; null: none. */
  limits: Values | null;
  fromS: number;
  toS: number;
  /** Amounts of memory: whole GB on the axis. */
  isBinary: boolean;
}
