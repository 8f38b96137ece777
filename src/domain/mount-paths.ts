/** Where a volume may be mounted: an absolute, plain path that hides nothing the instance needs, and no other mount. */
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
const RESERVED_PLACES = ['/', '/root', '/home', '/tmp', '/opt', '/mnt', '/media', '/srv'];
const OWN_TREES = [
  '/opt/berth',
  '/root/dataDisk',
  '/root/sharedDisk',
  '/root/commonData',
  '/root/.ssh',
  '/root/.jupyter',
];

const MAX_LENGTH = 255;

const under = (path: string, tree: string): boolean => path === tree || path.startsWith(`${tree}/`);

/** Why this path can't be a mount path, with what would work; null when it can. Trailing slashes are the caller's to strip. */
export function refusalOfMountPath(path: string): string | null {
  if (path.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`;
  if (!path.startsWith('/')) return 'must be absolute, for example /root/data';
  if (/[\p{Cc}\p{Cs}:,\\"']/u.test(path))
    return 'must not hold control characters, quotes, backslashes, colons or commas';
  const parts = path.split('/').slice(1);
  if (path !== '/' && parts.some((part) => part === '' || part === '.' || part === '..')) {
    return 'must not hold empty parts, "." or ".."';
  }
  const tree = [...RESERVED_TREES, ...OWN_TREES].find((reserved) => under(path, reserved));
  if (tree !== undefined) return `lies in ${tree}, which the instance needs itself; use for example /root/data`;
  if (RESERVED_PLACES.includes(path))
    return 'is needed by the instance itself; use a folder below it, for example /root/data';
  return null;
}

/** The first pair of paths of which one is, or lies in, the other; null when all stand apart. */
export function nestedPair(paths: readonly string[]): [string, string] | null {
  const sorted = [...paths].sort();
  for (const [index, path] of sorted.entries()) {
    const next = sorted.slice(index + 1).find((other) => under(other, path));
    if (next !== undefined) return [path, next];
  }
  return null;
}
