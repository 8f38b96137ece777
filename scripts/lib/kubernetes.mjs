/**
 * The Kubernetes of the tests: built once from `test/kubernetes/cluster/go` into the user's cache,
 * in a folder named by the hash of the sources.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { filesBelow } from './files.mjs';
import { buildInto, cacheFolder, ensureGo, findGos, runGo } from './go.mjs';
import { findProgram, root, say } from './run.mjs';

const sources = path.join(root, 'test/kubernetes/cluster/go');
const goMod = readFileSync(path.join(sources, 'go.mod'), 'utf8');
const version = /k8s\.io\/kubernetes (v\S+)/.exec(goMod)?.[1] ?? '';
/** Oldest Go that builds it. */
const leastGo = /^go (\S+)$/m.exec(goMod)?.[1] ?? '';

/** Files that modules bring, joined into one each. */
const moduleFiles = {
  'snapshots.yaml': {
    module: 'github.com/kubernetes-csi/external-snapshotter/client/v8',
    files: ['classes', 'contents', 's'].map((end) => `config/crd/snapshot.storage.k8s.io_volumesnapshot${end}.yaml`),
  },
  'kwok.yaml': {
    module: 'sigs.k8s.io/kwok',
    files: [
      'node/fast/node-initialize',
      'node/heartbeat-with-lease/node-heartbeat-with-lease',
      'pod/fast/pod-ready',
      'pod/fast/pod-complete',
      'pod/fast/pod-delete',
    ].map((name) => `kustomize/stage/${name}.yaml`),
  },
};

const [, major, minor] = /^v(\d+)\.(\d+)/.exec(version) ?? [];
const inVersion = 'k8s.io/component-base/version';
const buildFlags = [
  '-buildvcs=false',
  `-ldflags=-s -w -X ${inVersion}.gitVersion=${version} -X ${inVersion}.gitMajor=${major} -X ${inVersion}.gitMinor=${minor}`,
];

const cniFolders = ['/usr/lib/cni', '/opt/cni/bin'];
const cniPlugins = ['bridge', 'host-local', 'loopback', 'portmap'];
const cniFolder = () =>
  cniFolders.find((folder) => cniPlugins.every((plugin) => existsSync(path.join(folder, plugin))));

/** Programs of the system that a cluster runs. @type {import('./apt.mjs').Need[]} */
export const clusterNeeds = [
  { apt: 'containerd', programs: ['containerd'], service: 'containerd', why: 'runs the containers of a cluster' },
  { apt: 'runc', programs: ['runc'], why: 'starts the containers of a cluster' },
  {
    apt: 'containernetworking-plugins',
    programs: [],
    file: path.join(cniFolder() ?? cniFolders[0] ?? '', 'bridge'),
    why: 'connects the Pods of a cluster',
  },
  { apt: 'iptables', programs: ['iptables'], why: 'Services and network policies of a cluster' },
  { apt: 'iproute2', programs: ['ip'], why: 'the network of a cluster' },
  { apt: 'xfsprogs', programs: ['mkfs.xfs', 'xfs_growfs'], why: 'volumes of a cluster' },
];

/** @type {import('./apt.mjs').Need} */
const goNeed = { apt: 'golang-go', programs: ['go'], why: 'builds the Kubernetes of the tests' };

/**
 * Folder of the programs that the present sources build.
 * @param {NodeJS.ProcessEnv} env
 */
function builtFolder(env = process.env) {
  const hash = createHash('sha256').update(JSON.stringify([buildFlags, moduleFiles]));
  for (const file of filesBelow(sources)) hash.update(`\0${path.relative(sources, file)}\0`).update(readFileSync(file));
  return path.join(cacheFolder('kubernetes', env), hash.digest('hex').slice(0, 16));
}

/**
 * Packages of the system that the tests of project `kubernetes` need, and with `builds` what a
 * missing build needs. None where no cluster can run or nothing is built.
 * @param {{ builds: boolean }} given
 */
export function kubernetesNeeds({ builds }) {
  const isBuilt = existsSync(builtFolder());
  if (whyNoCluster() !== undefined || !(isBuilt || builds)) return [];
  return [...clusterNeeds, ...(isBuilt || findGos().length > 0 ? [] : [goNeed])];
}

/**
 * Makes sure that clusters can start; builds Kubernetes if need be and `builds` is set.
 * @param {{ builds: boolean }} given
 * @returns {Promise<string | undefined>} why none can start, or undefined
 */
export async function ensureKubernetes({ builds }) {
  const whyNot = whyNoCluster();
  if (whyNot !== undefined) return whyNot;
  if (!existsSync(builtFolder())) {
    if (!builds) return 'Kubernetes is not built: `npm run test:kubernetes` builds it once, in about ten minutes';
    const go = await ensureGo(leastGo);
    if (typeof go !== 'string') return go.why;
    await build(go);
  }
  return whyNotInstalled();
}

/**
 * The parts of a cluster on this machine.
 * @returns {{ programs: string, cniPlugins: string }}
 */
export function installedKubernetes() {
  const programs = builtFolder();
  const whyNot =
    whyNoCluster() ??
    (existsSync(programs) ? undefined : 'Kubernetes is not built: `npm run test:kubernetes` builds it') ??
    whyNotInstalled();
  const plugins = cniFolder();
  if (whyNot !== undefined || plugins === undefined) throw new Error(`No cluster can start: ${whyNot}.`);
  return { programs, cniPlugins: plugins };
}

function whyNoCluster() {
  if (process.platform !== 'linux') return 'a cluster needs Linux';
  if (process.getuid?.() !== 0) return 'a cluster needs root';
  return undefined;
}

function whyNotInstalled() {
  const missing = [
    ...['containerd', 'ctr', 'runc', 'iptables', 'ip', 'unshare', 'nsenter', 'mkfs.xfs', 'xfs_growfs'].filter(
      (name) => findProgram(name) === undefined,
    ),
    ...(cniFolder() === undefined ? [`the CNI plugins ${cniPlugins.join(', ')} in ${cniFolders.join(' or ')}`] : []),
  ];
  if (missing.length === 0) return undefined;
  return `not installed: ${missing.join(', ')}; on Debian: apt-get install ${clusterNeeds.map(({ apt }) => apt).join(' ')}`;
}

/** @param {string} go */
async function build(go) {
  const target = builtFolder();
  say(`Building Kubernetes ${version} for the tests: about ten minutes on two cores, once. It stays in ${target}.`);
  await buildInto(target, async (unfinished) => {
    await runGo({ go, cwd: sources }, 'build', ...buildFlags, '-o', `${unfinished}/`, './...', 'tool');
    for (const [name, { module, files }] of Object.entries(moduleFiles)) {
      const folder = await runGo({ go, cwd: sources }, 'list', '-m', '-f', '{{.Dir}}', module);
      const texts = files.map((file) => readFileSync(path.join(folder, file), 'utf8'));
      writeFileSync(path.join(unfinished, name), texts.join('\n---\n'));
    }
  });
}
