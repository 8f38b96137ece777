/** Nearest of the names by edit distance, in any letter case; undefined if none is near. */
export function nearestName(given: string, names: Iterable<string>): string | undefined {
  let best: { name: string; distance: number } | undefined;
  for (const name of names) {
    const limit = Math.floor(Math.max(given.length, name.length) / 3);
    if (Math.abs(given.length - name.length) > limit) continue;
    const distance = editDistance(given.toLowerCase(), name.toLowerCase());
    if (distance <= limit && distance < (best?.distance ?? Infinity)) best = { name, distance };
  }
  return best?.name;
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
