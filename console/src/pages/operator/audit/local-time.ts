/** Times of `datetime-local` fields, which are by the clock of the browser. Pure. */
const MINUTE_MS = 60_000;
const CHARACTERS = 16;

export const localTimeOf = (atMs: number): string =>
  new Date(atMs - new Date(atMs).getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, CHARACTERS);

export function timeOfLocal(text: string): number | undefined {
  const atMs = new Date(text).getTime();
  return Number.isFinite(atMs) ? atMs : undefined;
}
