type Write = (facts: Record<string, unknown>, text: string) => void;

/** Log of a driver. */
export interface EngineLog {
  debug: Write;
  info: Write;
  warn: Write;
}
