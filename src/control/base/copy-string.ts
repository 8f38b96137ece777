/** Copies a sliced string so it doesn't retain its parent (V8 sliced strings). Latin-1 only. */
export const copyString = (text: string): string => Buffer.from(text, 'latin1').toString('latin1');
