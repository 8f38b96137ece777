/** Paths of files, relative to a volume. Pure. */

export const joined = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

/** Characters that are invisible, or reorder the characters around them. */
const HIDDEN = /[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

/** A name whose hidden characters show: `photo\u{202e}gpj.exe`. */
export const visible = (name: string): string =>
  name.replaceAll(HIDDEN, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);

export const lastNameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

export const folderOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));

export interface Crumb {
  name: string;
  path: string;
}

/** The folders from the top to the path; none for the top itself. */
export const crumbsOf = (path: string): Crumb[] =>
  path === '' ? [] : path.split('/').map((name, at, names) => ({ name, path: names.slice(0, at + 1).join('/') }));

/** Folders that must be there before the files are, parents first, each once. */
export function foldersFor(paths: readonly string[], base: string): string[] {
  const folders = paths.flatMap((path) => crumbsOf(folderOf(path)).map((crumb) => crumb.path));
  return [...new Set(folders)].filter((path) => path !== base && !base.startsWith(`${path}/`));
}
