/**
 * Stands in for the runtime `nvidia` of an engine and for its hook. Cards are plain nodes, which
 * FOLDER/cards.json lists.
 *
 *     nvidia.mjs FOLDER runtime ARGUMENTS OF RUNC
 *     nvidia.mjs FOLDER hook prestart <STATE OF THE CONTAINER
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const [folder = '', mode, ...args] = process.argv.slice(2);

/** @param {string} bundle */
const configOf = (bundle) => JSON.parse(readFileSync(path.join(bundle, 'config.json'), 'utf8'));

/**
 * The last value counts.
 * @param {{ process: { env: string[] } }} config
 */
function visibleIn({ process: { env } }) {
  const name = 'NVIDIA_VISIBLE_DEVICES=';
  const value = (env.findLast((line) => line.startsWith(name)) ?? name).slice(name.length);
  return value === '' || value === 'void' || value === 'none' ? [] : value.split(',');
}

if (mode === 'runtime') {
  const bundle = args[args.indexOf('--bundle') + 1];
  if (args.includes('create') && bundle !== undefined) {
    const config = configOf(bundle);
    const hook = path.join(folder, 'nvidia-container-runtime-hook');
    const hooks = config.hooks?.prestart ?? [];
    if (hooks.every((/** @type {{ path: string }} */ one) => one.path !== hook)) {
      config.hooks = { ...config.hooks, prestart: [...hooks, { path: hook, args: [hook, 'prestart'] }] };
      writeFileSync(path.join(bundle, 'config.json'), JSON.stringify(config));
    }
  }
  process.exitCode = spawnSync('runc', args, { stdio: 'inherit' }).status ?? 1;
} else {
  const { pid, bundle } = JSON.parse(readFileSync(0, 'utf8'));
  const config = configOf(bundle);
  /** @type {{ names: string[], node: string, numbers: string[] }[]} */
  const cards = JSON.parse(readFileSync(path.join(folder, 'cards.json'), 'utf8'));
  const visible = visibleIn(config);
  const given = cards.filter(({ names }) => visible.some((name) => name === 'all' || names.includes(name)));
  const root = path.resolve(bundle, config.root.path);
  const enter = ['-t', `${pid}`, '-m'];
  if (given.length > 0) {
    const program = [path.join(folder, 'nvidia-smi'), path.join(root, 'usr/bin/nvidia-smi')];
    execFileSync('/usr/bin/nsenter', [...enter, '/usr/bin/install', '-D', ...program]);
  }
  // Parts have the node of their card.
  for (const { node, numbers } of new Map(given.map((one) => [one.node, one])).values()) {
    const target = path.join(root, node);
    execFileSync('/usr/bin/nsenter', [...enter, '/usr/bin/mkdir', '-p', path.dirname(target)]);
    execFileSync('/usr/bin/nsenter', [...enter, '/usr/bin/mknod', '-m', '666', target, 'c', ...numbers]);
  }
}
