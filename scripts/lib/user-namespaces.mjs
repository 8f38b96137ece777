/**
 * Gives a Docker that does not run yet user namespaces (`BERTH_USER_NAMESPACES=on`): a range of ids
 * in `/etc/subuid` and `/etc/subgid`, and `userns-remap` in `daemon.json`, which holds for later
 * starts by others too. Docker then has another data folder and no longer sees its containers, so a
 * data folder with instances is refused.
 */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** The user of Docker's default range. */
const USER = 'dockremap';
/**
 * Half of all ids, which systemd leaves to nobody. As many as a rootless Docker inside needs:
 * `images/docker-inside/customize.sh`.
 */
const FIRST = 2_147_483_648;
const COUNT = 1_879_179_264;

/**
 * @param {string} [root] of the file system
 * @returns {string | undefined} why not; undefined: the next start has user namespaces
 */
export function setUpUserNamespaces(root = '/') {
  const file = path.join(root, 'etc/docker/daemon.json');
  /** @type {unknown} */
  let settings;
  try {
    settings = JSON.parse(readIfThere(file) || '{}');
  } catch {
    return `${file} is not JSON; mend the file`;
  }
  if (!isObject(settings)) return `${file} is not a JSON object; mend the file`;
  if ((settings['userns-remap'] ?? '') !== '') return undefined;
  const dataFolder = typeof settings['data-root'] === 'string' ? settings['data-root'] : '/var/lib/docker';
  const instances = countInstances(path.join(root, dataFolder));
  if (instances > 0) {
    return `${dataFolder} holds ${instances} containers of Berth, which Docker with user namespaces does not see; archive the instances first ("User namespaces" in docs/operate.md)`;
  }
  for (const name of ['subuid', 'subgid']) {
    const whyNot = addRange(path.join(root, 'etc', name));
    if (whyNot !== undefined) return whyNot;
  }
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, `${JSON.stringify({ ...settings, 'userns-remap': 'default' }, null, 2)}\n`);
  renameSync(`${file}.new`, file);
  return undefined;
}

/** @param {string} folder data folder of Docker */
function countInstances(folder) {
  const containers = path.join(folder, 'containers');
  const ids = existsSync(containers) ? readdirSync(containers) : [];
  return ids.filter((id) => readIfThere(path.join(containers, id, 'config.v2.json')).includes('"berth.installation"'))
    .length;
}

/** @param {string} file @returns {string | undefined} why not */
function addRange(file) {
  const lines = readIfThere(file)
    .split('\n')
    .filter((line) => line !== '');
  const ranges = lines.map((line) => line.split(':'));
  if (ranges.some(([name]) => name === USER)) return undefined;
  const taken = ranges.find(
    ([, first, count]) => Number(first) + Number(count) > FIRST && Number(first) < FIRST + COUNT,
  );
  if (taken !== undefined)
    return `${file} gives ids from ${FIRST} on to ${taken[0]}; give ${USER} a range of ${COUNT} free ids there`;
  appendFileSync(file, `${USER}:${FIRST}:${COUNT}\n`);
  return undefined;
}

/** @param {string} file @returns {string} '' for a missing file */
const readIfThere = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
