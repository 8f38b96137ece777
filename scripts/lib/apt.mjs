/**
 * Installs Debian and Ubuntu packages. Never removes any (`--no-remove`), leaves recommendations
 * out, and fetches the lists only when the present ones lack the package.
 */
import { appendFileSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { capture, findProgram } from './run.mjs';

/**
 * @typedef {object} Need
 * @property {string} apt the package
 * @property {string[]} programs any of which will do
 * @property {string[]} [also] other programs that come with it, which Berth or its tests run
 * @property {string} [file] what is needed, where that is no program
 * @property {string} why what Berth does with it, for the person who is asked
 * @property {string} [service] what systemd would start with it, and nobody wants
 * @property {boolean} [exact] the very package is needed, another of the same program won't do
 */

/**
 * @param {Need[]} needs
 * @param {{ find?: (name: string) => string | undefined, has?: (apt: string) => boolean }} [given]
 */
export function missingNeeds(needs, { find = findProgram, has = hasPackage } = {}) {
  const isThere = (/** @type {Need} */ need) =>
    need.file === undefined ? need.programs.some((name) => find(name) !== undefined) : existsSync(need.file);
  return needs.filter((need) => !isThere(need) || (need.exact === true && !has(need.apt)));
}

/**
 * Whether dpkg holds the package; true on systems that are not dpkg's, where the program is all
 * there is to go by.
 * @param {string} apt
 */
function hasPackage(apt) {
  const folder = '/var/lib/dpkg/info';
  return !existsSync(folder) || existsSync(`${folder}/${apt}.list`);
}

/** Returns why apt can't be used by this process, or undefined. */
export function whyNoApt() {
  if (process.platform !== 'linux' || findProgram('apt-get') === undefined) return 'this is not Debian or Ubuntu';
  if (process.getuid?.() !== 0) return 'this user is not root';
  return undefined;
}

/**
 * Masks the services that would be started by installing what is only wanted as a program: as
 * `systemctl mask` does, which needs the unit to be there. A unit that the operator has set up is
 * left alone.
 * @param {Need[]} needs about to be installed
 * @param {{ hasSystemd?: boolean, folder?: string }} [given]
 */
export function maskServices(
  needs,
  { hasSystemd = existsSync('/run/systemd/system'), folder = '/etc/systemd/system' } = {},
) {
  if (!hasSystemd) return;
  for (const { service } of needs) {
    if (service === undefined || existsSync(path.join(folder, `${service}.service`))) continue;
    mkdirSync(folder, { recursive: true });
    symlinkSync('/dev/null', path.join(folder, `${service}.service`));
  }
}

/**
 * Installs packages. All output goes to the log; what went wrong is answered in apt's own words.
 * @param {{ packages: string[], log: string, runner?: typeof capture, waitMs?: number }} given
 * `waitMs` lies between two tries for the lock of the lists, which apt itself does not wait for
 * @returns {Promise<string | undefined>} why it failed, or undefined
 */
export async function installPackages({ packages, log, runner = capture, waitMs = 3_000 }) {
  const aptGet = async (/** @type {string[]} */ args) => {
    const options = ['-q', '-y', '-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3'];
    const ended = await runner({ command: 'apt-get', args: [...options, ...args], env: aptEnv() });
    appendFileSync(log, `\n# apt-get ${args.join(' ')}\n${ended.output}`);
    return ended;
  };
  const install = () => aptGet(['install', '--no-install-recommends', '--no-remove', ...packages]);

  let ended = await install();
  if (ended.code !== 0 && ended.output.includes('dpkg --configure -a')) {
    const finished = await runner({ command: 'dpkg', args: ['--configure', '-a'], env: aptEnv() });
    appendFileSync(log, `\n# dpkg --configure -a\n${finished.output}`);
    ended = await install();
  }
  if (ended.code !== 0 && hasOldLists(ended.output)) {
    let updated = await aptGet(['update']);
    for (
      let left = 40;
      updated.code !== 0 && updated.output.includes('/var/lib/apt/lists/lock') && left > 0;
      left -= 1
    ) {
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      updated = await aptGet(['update']);
    }
    ended = await install();
    // An unreachable mirror leaves the lists as they were: the error is the update's, not the
    // install's.
    if (ended.code !== 0 && updated.output.includes('Failed to fetch'))
      return errorLines(updated.output, ['W: Failed', 'E:', 'Err:']);
  }
  return ended.code === 0 ? undefined : errorLines(ended.output, ['E:', 'Err:']);
}

/** @param {string} output */
function hasOldLists(output) {
  return [
    'Unable to locate package',
    'has no installation candidate',
    'Failed to fetch',
    'Unable to fetch',
    'unmet dependencies',
    'Unable to correct problems',
  ].some((words) => output.includes(words));
}

function aptEnv() {
  return { ...process.env, DEBIAN_FRONTEND: 'noninteractive', NEEDRESTART_SUSPEND: '1', LC_ALL: 'C.UTF-8' };
}

/**
 * @param {string} output
 * @param {string[]} starts
 */
function errorLines(output, starts) {
  const lines = output.split('\n').map((line) => line.trim());
  const errors = [...new Set(lines.filter((line) => starts.some((start) => line.startsWith(start))))];
  return (errors.length > 0 ? errors.slice(0, 4) : lines.filter((line) => line !== '').slice(-3)).join(' ');
}
