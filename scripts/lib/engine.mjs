/**
 * Finds a container engine or makes one: on Debian and Ubuntu, as root, a missing engine is
 * installed and started. Elsewhere, and with `BERTH_SETUP=off`, only prints what is missing. Never
 * throws: Berth serves its API without an engine and reports it.
 */
import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { installPackages, maskServices, missingNeeds, whyNoApt } from './apt.mjs';
import { findEngine, ping, usualAddress } from './engine-address.mjs';
import { capture, findProgram, say, searchPath, secondsSince } from './run.mjs';
import { isDockerdAlive, removeStale } from './stale-engine.mjs';
import { setUpUserNamespaces } from './user-namespaces.mjs';

/** @typedef {import('./apt.mjs').Need} Need */

/**
 * docker.io only recommends the certificates. Whether it brings iptables differs between releases.
 * @type {Need[]}
 */
const engineNeeds = [
  {
    apt: 'docker.io',
    programs: ['dockerd'],
    also: ['docker', 'containerd-shim-runc-v2', 'systemctl'],
    why: 'the container engine',
  },
  { apt: 'iptables', programs: ['iptables'], why: 'published ports of containers' },
  {
    apt: 'ca-certificates',
    programs: [],
    file: '/etc/ssl/certs/ca-certificates.crt',
    why: 'certificates to verify image registries',
  },
];

/** @type {Need[]} */
const imageNeeds = [
  { apt: 'mmdebstrap', programs: ['mmdebstrap'], why: 'builds the default notebook image' },
  {
    apt: 'debian-archive-keyring',
    programs: [],
    file: '/usr/share/keyrings/debian-archive-keyring.gpg',
    why: 'verifies that the packages of the image come from Debian',
  },
];

/**
 * Used by root alone. Without them disks are plain folders, whose sizes stop no writer
 * (`src/storage/image-file/`).
 * @type {Need[]}
 */
const diskNeeds = [
  {
    apt: 'xfsprogs',
    programs: ['mkfs.xfs', 'xfs_growfs'],
    also: ['xfs_io'],
    why: 'disks with an enforced size',
  },
  { apt: 'mount', programs: ['mount'], also: ['umount', 'losetup'], why: 'disks with an enforced size' },
];

/** All that is installed for an engine of this machine. */
export const hostNeeds = [...engineNeeds, ...imageNeeds, ...diskNeeds];

const setupLog = '/var/log/berth-setup.log';
const dockerdLog = '/var/log/berth-dockerd.log';
const startDeadlineMs = 90_000;

/**
 * @param {{ env?: NodeJS.ProcessEnv, alsoNeeded?: Need[] }} [given] `alsoNeeded`: packages of the
 *   tests, installed at the same time
 * @returns {Promise<string | undefined>} the address of the engine
 */
export async function ensureEngine({ env = process.env, alsoNeeded = [] } = {}) {
  const { found, tried } = await findEngine({ env });
  const needsEngine = found === undefined;
  const named = env['DOCKER_HOST'] ?? '';
  if (needsEngine && named !== '') {
    say(`DOCKER_HOST is ${named}, but no container engine answers there (${tried[0]?.why}).`);
    say('  Start that engine, or unset DOCKER_HOST. Until one answers, Berth serves its API but launches nothing.');
  }
  const makesEngine = needsEngine && named === '';
  const ofDisks = process.getuid?.() === 0 ? diskNeeds : [];
  const needs = missingNeeds([...(makesEngine ? engineNeeds : []), ...imageNeeds, ...ofDisks, ...alsoNeeded]);
  const packages = needs.map(({ apt }) => apt);
  if (!makesEngine && needs.length === 0) return found;

  const whyNot = env['BERTH_SETUP'] === 'off' ? 'BERTH_SETUP is off' : whyNoApt();
  if (whyNot !== undefined) {
    sayWhatIsMissing({ whyNot, tried, makesEngine, needs, packages });
    return found;
  }
  if (!(await mayGoOn({ needs, packages, makesEngine }))) {
    say('  Nothing is installed or started.');
    sayWhatIsMissing({ whyNot: 'declined', tried, makesEngine, needs, packages });
    return found;
  }
  maskServices(needs);
  if (packages.length > 0) await install(packages);
  return makesEngine ? startEngine(env) : found;
}

/**
 * Says what is about to be done, and asks where there is somebody to ask.
 * @param {{ needs: Need[], packages: string[], makesEngine: boolean }} given
 */
async function mayGoOn({ needs, packages, makesEngine }) {
  if (packages.length > 0) {
    say(`Installing with apt: ${packages.join(', ')} (${needs.map(({ why }) => why).join('; ')}).`);
  }
  if (makesEngine) say('Starting the container engine (dockerd), which keeps running after Berth stops.');
  if (process.stdin.isTTY !== true) return true;
  const readline = await import('node:readline/promises');
  const dialog = readline.createInterface({ input: process.stdin, output: process.stdout });
  const answer = await dialog.question('  Continue? [y/N] ').catch(() => '');
  dialog.close();
  return /^y(es)?$/i.test(answer.trim());
}

/**
 * One package that is not to be had must not keep the others out, so after a failure each is tried
 * by itself.
 * @param {string[]} packages
 */
async function install(packages) {
  const startedAt = performance.now();
  const failure = await installPackages({ packages, log: setupLog });
  if (failure === undefined) {
    say(`  installed in ${secondsSince(startedAt)}`);
    return;
  }
  for (const name of packages) {
    const why = packages.length === 1 ? failure : await installPackages({ packages: [name], log: setupLog });
    if (why !== undefined) say(`  apt could not install ${name}: ${why} (full output: ${setupLog})`);
  }
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<string | undefined>}
 */
async function startEngine(env) {
  const dockerd = findProgram('dockerd');
  if (dockerd === undefined) {
    say('  dockerd is not installed: Berth serves its API but launches nothing until a container engine answers.');
    return undefined;
  }
  const startedAt = performance.now();
  for (const file of isDockerdAlive() ? [] : await removeStale())
    say(`  removed ${file}, left by an engine that no longer runs`);
  if (env['BERTH_USER_NAMESPACES'] === 'on' && !isDockerdAlive()) {
    const whyNot = setUpUserNamespaces();
    if (whyNot !== undefined) say(`  The engine starts without user namespaces: ${whyNot}.`);
  }
  const attempt = isDockerdAlive()
    ? waitOnly()
    : existsSync('/run/systemd/system')
      ? await startUnit()
      : spawnDockerd(dockerd);
  const answered = await untilItPings({ env, hasFailed: attempt.hasFailed });
  attempt.release();
  if (answered) {
    say(`  the engine answers at ${usualAddress} after ${secondsSince(startedAt)}`);
    return usualAddress;
  }
  say(`  The engine did not start: ${attempt.reason()}`);
  say('  Berth serves its API but launches nothing until a container engine answers.');
  return undefined;
}

/** @typedef {{ hasFailed: () => boolean, reason: () => string, release: () => void }} Attempt */

/** @returns {Attempt} somebody else has started it just now */
function waitOnly() {
  const reason = () => `dockerd runs, but did not answer within ${startDeadlineMs / 1000} s.`;
  return { hasFailed: () => !isDockerdAlive(), reason, release: () => undefined };
}

/** @returns {Promise<Attempt>} */
async function startUnit() {
  const ended = await capture({ command: 'systemctl', args: ['start', 'docker'] });
  const reason = () => (ended.code === 0 ? 'see `journalctl -u docker`.' : ended.output.trim());
  return { hasFailed: () => ended.code !== 0, reason, release: () => undefined };
}

/**
 * Without systemd: dockerd in a session of its own, so that Ctrl-C for Berth is none for the
 * containers.
 * @param {string} dockerd
 * @returns {Attempt}
 */
function spawnDockerd(dockerd) {
  const log = openSync(dockerdLog, 'a');
  const env = { ...process.env, PATH: searchPath(process.env).join(path.delimiter) };
  // The limit of open files counts over all containers; a shell that may not raise it keeps its
  // own.
  const args = ['-c', 'ulimit -n 1048576 2>/dev/null; exec "$0"', dockerd];
  const child = spawn('/bin/sh', args, { cwd: '/', env, detached: true, stdio: ['ignore', log, log] });
  closeSync(log);
  let ended = false;
  child.on('error', () => (ended = true));
  child.on('exit', () => (ended = true));
  return {
    // Another start may win the race for the pid file; this one then ends, and the other is waited
    // for.
    hasFailed: () => ended && !isDockerdAlive(),
    reason: () => `${lastFault(dockerdLog)} (full output: ${dockerdLog})`,
    release: () => child.unref(),
  };
}

/** @param {{ env: NodeJS.ProcessEnv, hasFailed: () => boolean }} given */
async function untilItPings({ env, hasFailed }) {
  const deadline = performance.now() + startDeadlineMs;
  for (;;) {
    const { health } = await ping({ address: usualAddress, env, deadlineMs: 3_000 });
    if (health === 'answers') return true;
    if (hasFailed() || performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** @param {string} log */
function lastFault(log) {
  const lines = readFileSync(log, 'utf8').trimEnd().split('\n');
  return (
    lines.findLast((line) => /level=(error|fatal)|^failed|fault/i.test(line)) ?? lines.at(-1) ?? 'dockerd wrote no log'
  );
}

/**
 * @param {{ whyNot: string, tried: import('./engine-address.mjs').Pinged[], makesEngine: boolean,
 *   needs: Need[], packages: string[] }} given
 */
function sayWhatIsMissing({ whyNot, tried, makesEngine, needs, packages }) {
  if (makesEngine) {
    const denied = tried.find(({ health }) => health === 'denied');
    say(`No container engine answers. Tried: ${tried.map(({ address, why }) => `${address} (${why})`).join(', ')}.`);
    if (denied !== undefined) {
      say(
        `  This user may not access the engine at ${denied.address}: run \`sudo usermod -aG docker $USER\` and log in again.`,
      );
    } else if (findProgram('dockerd') !== undefined) {
      say('  Docker is installed: start it (`sudo systemctl start docker`, or `sudo dockerd` without systemd).');
    } else {
      say('  Install and start Docker (https://docs.docker.com/engine/install) or Podman with its socket');
      say('  (`systemctl --user enable --now podman.socket`), or set the address of an engine in DOCKER_HOST.');
    }
    say('  Until one answers, Berth serves its API but launches nothing.');
  }
  if (needs.length === 0) return;
  say(`Not installed (${whyNot}): ${needs.map(({ apt, why }) => `${apt} (${why})`).join(', ')}.`);
  if (findProgram('apt-get') !== undefined)
    say(`  By hand: sudo apt-get install --no-install-recommends ${packages.join(' ')}`);
}
