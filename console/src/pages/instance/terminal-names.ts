/** A name that no open terminal has: `main`, then `2`, `3` … Pure. */
export function freeTerminalName(taken: readonly string[]): string {
  if (!taken.includes('main')) return 'main';
  for (let number = 2; ; number++) if (!taken.includes(String(number))) return String(number);
}
