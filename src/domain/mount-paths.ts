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

const MAX_LENGTH = 255;

const isUnder = (path: string, tree: string): boolean => path === tree || path.startsWith(`${tree}/`);

/** Returns why the path is refused, or null. Callers strip trailing slashes. */
export function refusalOfMountPath(path: string): string | null {
  if (path.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`;
  if (!path.startsWith('/')) return 'must be absolute, for example /root/data';
  if (/[\p{Cc}\p{Cs}:,\\"']/u.test(path))
    return 'must not hold control characters, quotes, backslashes, colons or commas';
  const parts = path.split('/').slice(1);
  if (path !== '/' && parts.some((part) => part === '' || part === '.' || part === '..')) {
    return 'must not hold empty parts, "." or ".."';
  }
  const tree = [...RESERVED_TREES, ...OWN_TREES].find((reserved) => isUnder(path, reserved));
  if (tree !== undefined) return `lies in ${tree}, which the instance needs itself; use for example /root/data`;
  if (RESERVED_PATHS.includes(path))
    return 'is needed by the instance itself; use a folder below it, for example /root/data';
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
