type Write = (facts: Record<string, unknown>, text: string) => void;

export interface Log {
  debug: Write;
  info: Write;
  warn: Write;
  error: Write;
}
