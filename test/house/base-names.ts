/**
 * A base name means one thing in `src`: an editor's tab and a stack trace show little more. Two
 * files share a base name only if they hold the same thing on two layers, or are a folder's
 * `index.ts`.
 */
import path from 'node:path';

/** Folders below `src` that hold the same thing under the name, each on its own layer. */
const onSeveralLayers: Readonly<Record<string, readonly string[]>> = {
  account: ['contract', 'edge/http/handlers'],
  accounts: ['control/access', 'store/tables'],
  audit: ['contract', 'domain', 'control/audit', 'edge/http/handlers', 'store/tables'],
  budgets: ['control/billing', 'edge/http/handlers', 'store/tables'],
  catalog: ['contract', 'domain', 'control/capacity', 'edge/http/handlers', 'store/tables'],
  contract: ['engines', 'storage'],
  credentials: ['edge/gateway', 'edge/http'],
  'disk-usage': ['domain', 'control/volumes'],
  disks: ['control/volumes', 'store/tables'],
  drain: ['domain', 'control/capacity'],
  egress: ['contract', 'domain', 'control/instances', 'engines/docker/network', 'store/tables'],
  environment: ['contract', 'domain', 'control/instances'],
  events: ['contract', 'control/inside/logs', 'store/tables'],
  exec: ['contract', 'engines/docker/exec'],
  figures: ['contract', 'control/inside/metrics'],
  fleet: ['contract', 'domain', 'control/capacity', 'store/tables'],
  files: ['control/volumes', 'edge/http', 'storage'],
  images: ['control/images', 'engines/docker/image', 'engines/simulated', 'store/tables'],
  'launch-templates': ['control/instances', 'edge/http/handlers', 'store/tables'],
  instance: ['contract', 'domain'],
  instances: ['control/instances', 'edge/http/handlers', 'store/tables'],
  keys: ['control/access', 'store/tables'],
  logs: ['control/inside/logs', 'engines/docker/exec', 'engines/simulated'],
  metrics: ['contract', 'domain', 'control/inside/metrics', 'store/tables'],
  networks: ['engines/docker/network', 'engines/simulated'],
  operation: ['contract', 'domain'],
  operations: ['control/instances', 'store/tables'],
  operator: ['contract', 'control/instances', 'edge/http/handlers'],
  orphans: ['control/orphans', 'store/tables'],
  ports: ['control/routing', 'store/tables'],
  quota: ['contract', 'domain'],
  quotas: ['control/quotas', 'edge/http/handlers', 'store/tables'],
  roles: ['contract', 'domain'],
  'server-sent': ['contract', 'edge/http'],
  snapshots: ['control/volumes', 'store/tables'],
  'stop-policy': ['contract', 'domain', 'control/auto-stop'],
  volume: ['contract', 'domain'],
  webhooks: ['control/webhooks', 'edge/http/handlers', 'store/tables'],
  volumes: ['control/volumes', 'store/tables'],
};

const faces: ReadonlySet<string> = new Set(['index']);

/** Returns each base name that files of `src` share without a place in the list, with its files. */
export function sharedBaseNames(files: readonly string[], allowed = onSeveralLayers): string[] {
  return [...filesByName(files)].flatMap(([name, sharing]) => {
    if (sharing.length === 1 || faces.has(name)) return [];
    const layers = allowed[name] ?? [];
    const unlisted = sharing.filter((file) => !layers.includes(folderOf(file)));
    return unlisted.length === 0 ? [] : [`${name}: ${sharing.join(', ')}`];
  });
}

/** Returns the rows of the list that name a folder without such a file. */
export function staleLayers(files: readonly string[], allowed = onSeveralLayers): string[] {
  const byName = filesByName(files);
  return Object.entries(allowed).flatMap(([name, layers]) => {
    const folders = new Set(byName.get(name)?.map(folderOf));
    return layers.filter((layer) => !folders.has(layer)).map((layer) => `${name}: src/${layer} has no such file`);
  });
}

const folderOf = (file: string): string => path.posix.dirname(file).replace(/^src\//, '');

function filesByName(files: readonly string[]): Map<string, string[]> {
  const ours = files.filter((file) => /^src\/.*\.(ts|tsx|mts|mjs|js)$/.test(file));
  return Map.groupBy(ours, (file) => path.posix.parse(file).name);
}
