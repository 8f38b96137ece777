/**
 * A Docker newer than that of the system, for `npm run test:world`: built once from public Go
 * modules. `docker-init` and `iptables` are the system's.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { missingNeeds } from './apt.mjs';
import { buildInto, cacheFolder, ensureGo, runGo } from './go.mjs';
import { findProgram, root, say, Unready } from './run.mjs';

const leastGo = '1.26.3';

/** `sum` is what `go.sum` says of the module, whose own `go.sum` holds those of all others. */
const modules = [
  {
    name: 'github.com/moby/moby/v2@v2.0.0-beta.24',
    sum: 'h1:sWv7EckkDJhpraR9yUjkw1XeVf39+MWd58E22PYloNA=',
    programs: ['./cmd/dockerd', './cmd/docker-proxy'],
    tags: 'exclude_graphdriver_btrfs,no_systemd',
    flags: '-s -w -X github.com/moby/moby/v2/dockerversion.Version=29.0.0-beta.24',
  },
  {
    name: 'github.com/containerd/containerd/v2@v2.2.9',
    sum: 'h1:ddw9THGOXhcKnHORjkKoXtazPjwtcPwmqk8AVyRpfZw=',
    programs: ['./cmd/containerd', './cmd/containerd-shim-runc-v2'],
    tags: 'no_btrfs,no_devmapper,no_zfs',
    flags: '-s -w',
  },
  {
    name: 'github.com/opencontainers/runc@v1.5.3',
    sum: 'h1:y3GUIW7J0Gxd+tCFfWR6L1YDnhHiNR1BGRx1J50+VnA=',
    programs: ['.'],
    tags: 'seccomp',
    flags: '-s -w -X main.version=1.5.3',
    cgo: true,
  },
];

const ofSystem = ['docker-init', 'iptables', 'ip', 'pkill', 'unshare'];

/** @type {import('./apt.mjs').Need[]} */
const buildNeeds = [
  { apt: 'gcc', programs: ['gcc'], why: 'builds runc' },
  { apt: 'libc6-dev', programs: [], file: '/usr/include/stdlib.h', why: 'builds runc' },
  { apt: 'libseccomp-dev', programs: [], file: '/usr/include/seccomp.h', why: 'builds runc' },
  { apt: 'pkg-config', programs: ['pkg-config'], why: 'builds runc' },
];

function builtFolder() {
  const hash = createHash('sha256').update(JSON.stringify([leastGo, modules]));
  return path.join(cacheFolder('docker'), hash.digest('hex').slice(0, 16));
}

/** Packages of the system that a missing build needs. */
export const currentDockerNeeds = () => (existsSync(builtFolder()) ? [] : buildNeeds);

/**
 * The start of a command that runs another beside this Docker, which is built first if need be.
 * @returns {Promise<{ command?: string[], why?: string }>} why there is none
 */
export async function currentDockerCommand() {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return { why: 'a Docker of its own needs root on Linux' };
  const missing = [
    ...ofSystem.filter((name) => findProgram(name) === undefined),
    ...missingNeeds(currentDockerNeeds()).map(({ apt }) => apt),
  ];
  if (missing.length > 0) return { why: `not installed: ${missing.join(', ')}` };
  const target = builtFolder();
  if (!existsSync(target)) {
    const go = await ensureGo(leastGo);
    if (typeof go !== 'string') return go;
    const folders = await download(go);
    if (!Array.isArray(folders)) return folders;
    await build(target, go, folders);
  }
  return { command: ['unshare', '--net', 'sh', path.join(root, 'test/world/with-docker.sh'), target] };
}

/**
 * @param {string} go
 * @returns {Promise<string[] | { why: string }>} the folders of the modules
 */
async function download(go) {
  const folders = [];
  for (const { name, sum, programs, tags, cgo } of modules) {
    try {
      const { Dir, Sum } = JSON.parse(await runGo({ go, cwd: '/' }, 'mod', 'download', '-json', name));
      if (Sum !== sum) throw new Error(`${name} has the sum ${Sum}, and must have ${sum}`);
      await runGo({ go, cwd: Dir, cgo }, 'list', '-mod=readonly', '-tags', tags, '-deps', '-f', '', ...programs);
      folders.push(Dir);
    } catch (error) {
      if (error instanceof Unready) return { why: `${name} could not be fetched: ${error.message}` };
      throw error;
    }
  }
  return folders;
}

/**
 * @param {string} target
 * @param {string} go
 * @param {string[]} folders
 */
async function build(target, go, folders) {
  say(`Building a current Docker for the tests: some minutes on two cores, once. It stays in ${target}.`);
  await buildInto(target, async (unfinished) => {
    for (const [at, { programs, tags, flags, cgo }] of modules.entries()) {
      const options = ['-mod=readonly', '-buildvcs=false', '-trimpath', '-tags', tags, '-ldflags', flags];
      await runGo({ go, cwd: folders[at] ?? '', cgo }, 'build', ...options, '-o', `${unfinished}/`, ...programs);
    }
  });
}
