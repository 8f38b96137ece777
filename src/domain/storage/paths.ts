/** Paths of files inside a volume, relative ('' is the root), and mount paths of instances. */

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
  if (!path.isWellFormed()) return 'has half of a surrogate pair, which UTF-8 cannot encode; send whole characters';
  if (path.includes('\0')) return 'has a NUL character, which file names cannot have; remove the character';
  if (bytesOf(path) > MAX_PATH_BYTES) return `is too long: at most ${MAX_PATH_BYTES} bytes of UTF-8`;
  for (const name of namesOf(path)) {
    const why = refusalOfName(name);
    if (why !== null) return why;
  }
  return null;
}

function refusalOfName(name: string): string | null {
  if (name === '')
    return 'has an empty name; start at the top of the volume, with one slash between names, such as "folder/file"';
  if (name === '.' || name === '..') return `has the name "${name}"; name each folder from the top of the volume`;
  if (bytesOf(name) > MAX_NAME_BYTES) return `has a name that is too long: at most ${MAX_NAME_BYTES} bytes of UTF-8`;
  return null;
}

const RESERVED_TREES = [
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/proc',
  '/run',
  '/sbin',
  '/sys',
  '/usr',
  '/var',
];
const RESERVED_PATHS = ['/', '/root', '/home', '/tmp', '/opt', '/mnt', '/media', '/srv'];
const OWN_TREES = [
  '/opt/berth',
  '/root/dataDisk',
  '/root/sharedDisk',
  '/root/commonData',
  '/root/.ssh',
  '/root/.jupyter',
];

const MAX_MOUNT_PATH = 255;

const isUnder = (path: string, tree: string): boolean => path === tree || path.startsWith(`${tree}/`);

/** Returns why the path is refused, or null. Callers strip trailing slashes. */
export function refusalOfMountPath(path: string): string | null {
  if (path.length > MAX_MOUNT_PATH) return `is longer than ${MAX_MOUNT_PATH} characters`;
  if (!path.startsWith('/')) return 'must be absolute, for example /root/data';
  if (/[\p{Cc}\p{Cs}:,\\"']/u.test(path))
    return 'must not contain control characters, quotes, backslashes, colons or commas';
  const parts = path.split('/').slice(1);
  if (path !== '/' && parts.some((part) => part === '' || part === '.' || part === '..')) {
    return 'must not contain empty parts, "." or ".."';
  }
  const tree = [...RESERVED_TREES, ...OWN_TREES].find((reserved) => isUnder(path, reserved));
  if (tree !== undefined)
    return `lies in ${tree}, which the instance itself needs; choose another path, for example /root/data`;
  if (RESERVED_PATHS.includes(path))
    return 'is a path that the instance itself needs; choose a folder below it, for example /root/data';
  return null;
}

/** Returns the first pair of which one path is or contains the other. */
export function nestedPair(paths: readonly string[]): [string, string] | null {
  const sorted = [...paths].sort();
  for (const [index, path] of sorted.entries()) {
    const next = sorted.slice(index + 1).find((other) => isUnder(other, path));
    if (next !== undefined) return [path, next];
  }
  return null;
}
