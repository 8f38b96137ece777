/** Paths of files inside a volume: relative, such as `a/b/c`; '' is the volume's root. */

/** `link`: symbolic, not followed; `other`: pipe, socket or device. */
export const fileKinds = ['file', 'folder', 'link', 'other'] as const;
export type FileKind = (typeof fileKinds)[number];

/** Linux PATH_MAX and NAME_MAX, in bytes of UTF-8. */
const MAX_PATH_BYTES = 4096;
const MAX_NAME_BYTES = 255;

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

export const namesOf = (path: string): string[] => (path === '' ? [] : path.split('/'));

/** Returns why the text is no file path, or null. The message continues "the path". */
export function refusalOfFilePath(path: string): string | null {
  if (!path.isWellFormed()) return 'has half of a surrogate pair, which has no UTF-8; send whole characters';
  if (path.includes('\0')) return 'has a NUL character, which no file name has; leave it out';
  if (bytesOf(path) > MAX_PATH_BYTES) return `is too long: at most ${MAX_PATH_BYTES} bytes of UTF-8`;
  for (const name of namesOf(path)) {
    const why = refusalOfName(name);
    if (why !== null) return why;
  }
  return null;
}

function refusalOfName(name: string): string | null {
  if (name === '')
    return 'has an empty name; it begins at the volume, such as "folder/file", with one slash between names';
  if (name === '.' || name === '..') return `has the name "${name}"; name the folders from the volume on`;
  if (bytesOf(name) > MAX_NAME_BYTES) return `has a name that is too long: at most ${MAX_NAME_BYTES} bytes of UTF-8`;
  return null;
}
