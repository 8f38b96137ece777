/** A name that no open terminal has: `main`, then `shell-2`, `shell-3` … Pure. */
export function freeTerminalName(taken: readonly string[]): string {
  if (!taken.includes('main')) return 'main';
  for (let number = 2; ; number++) {
    const name = `shell-${number}`;
    if (!taken.includes(name)) return name;
  }
}
