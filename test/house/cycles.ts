/**
 * Import cycles between files of `src`, type-only imports included: Tarjan's strongly connected
 * components.
 */
import path from 'node:path';
import type { SourceFile } from './rules.ts';

/** Each cycle as its files in alphabetical order, joined by ` ↔ `. */
export function importCycles(files: readonly Pick<SourceFile, 'path' | 'imports'>[]): string[] {
  const imports = new Map(
    files.map((file) => [
      file.path,
      file.imports
        .filter(({ from }) => from.startsWith('.'))
        .map(({ from }) => path.posix.join(path.posix.dirname(file.path), from)),
    ]),
  );
  const indexes = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[] = [];
  const lower = (file: string, to: number): void => void lowest.set(file, Math.min(lowest.get(file) ?? to, to));

  const visit = (file: string): void => {
    const index = indexes.size;
    indexes.set(file, index);
    lowest.set(file, index);
    stack.push(file);
    for (const target of imports.get(file) ?? []) {
      if (!imports.has(target)) continue;
      if (!indexes.has(target)) {
        visit(target);
        lower(file, lowest.get(target) ?? index);
      } else if (stack.includes(target)) lower(file, indexes.get(target) ?? index);
    }
    if (lowest.get(file) !== index) return;
    const component = stack.splice(stack.indexOf(file));
    if (component.length > 1 || imports.get(file)?.includes(file)) cycles.push(component.toSorted().join(' ↔ '));
  };
  for (const file of imports.keys()) if (!indexes.has(file)) visit(file);
  return cycles.toSorted();
}
