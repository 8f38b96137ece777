/** Facts of the engine and its host, read by each probe and before the first create. */
import { access, constants, readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { gpusByName } from '../../../domain/regions/catalog.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Capabilities, Isolation, Probe } from '../../contract.ts';
import { CGROUPS } from '../host/process-group.ts';
import { makeLxcfs, type Lxcfs } from '../host/lxcfs.ts';
import { parseProcessors } from '../container/processors.ts';
import type { FirewallHost } from '../network/firewall.ts';
import type { DiskRate, EnsureIsolation, IsolationHost } from '../host/isolation.ts';
import { protectionsOf } from '../host/protections.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { readAmdGpus } from './amd-cards.ts';
import { CDI_KIND, smiHere } from '../cards/smi.ts';
import { askSmi, makeReadCards } from './cards.ts';
import { deviceOf, givenGpus, type GpuDriver, type GpuTurns, type HostGpu, type TurnsAmong } from './host-gpus.ts';
import { whyNoGpus } from './missing-gpus.ts';
import { hasUserNamespaces, readIdRange, type IdRange } from './id-range.ts';

export type DockerMode = 'rootless' | 'nested';

/** Ids that a rootless daemon uses, as numbers from 0 on: `images/docker-inside/customize.sh`. */
const ROOTLESS_IDS = 1_879_179_264;

export interface HostFacts {
  podman: boolean;
  version: string;
  architecture: string;
  cores: number;
  memoryMiB: number;
  hasInit: boolean;
  rootless: boolean;
  /** Maximum of open files for a container; null: unknown, so the engine's default stays. */
  openFiles: number | null;
  /** Limits that the kernel counts by user, for a container: half of the host's own. */
  perUser: { name: 'sigpending' | 'msgqueue'; limit: number }[];
  rootDiskLimit: boolean;
  /** Folder of the engine's data on this machine; null: elsewhere. */
  dataRoot: string | null;
  /** Whether root disks can be counted here, faster than by the engine. */
  countsRootDisks: boolean;
  gpuDriver: GpuDriver | null;
  gpus: HostGpu[];
  turnsAmong: TurnsAmong;
  whyNoGpus: string | null;
  dial: boolean;
  /** Null where entering containers' networks is impossible. */
  nsenter: string | null;
  /** Null: instances can have a Docker. */
  whyNoDocker: string | null;
  cgroupVersion: 1 | 2 | null;
  /** A container can run under another container's limits, as a child of its cgroup. */
  sharesLimits: boolean;
  /** Control group that instances run in; null: the engine's default. */
  cgroupParent: string | null;
  diskRates: readonly DiskRate[];
  /** Processors that are online; null: the engine cannot give a container some of them. */
  processors: readonly number[] | null;
  lxcfs: Lxcfs;
  isolation: Isolation;
  /** Instances get a filter of system calls from Berth. */
  setsCallFilter: boolean;
  /** Ids of the host that containers have as 0, 1, 2 …; null without `userns-remap`. */
  userNamespace: IdRange | null;
}

const infoAnswer = z.object({
  ServerVersion: z.string(),
  Architecture: z.string(),
  NCPU: z.number(),
  MemTotal: z.number(),
  InitBinary: z.string().nullish(),
  Driver: z.string().nullish(),
  DriverStatus: z.array(z.array(z.string())).nullish(),
  DockerRootDir: z.string().nullish(),
  OperatingSystem: z.string().nullish(),
  KernelVersion: z.string().nullish(),
  CgroupDriver: z.string().nullish(),
  CgroupVersion: z.string().nullish(),
  CPUSet: z.boolean().nullish(),
  SecurityOptions: z.array(z.string()).nullish(),
  Runtimes: z.record(z.string(), z.unknown()).nullish(),
  DiscoveredDevices: z.array(z.object({ Source: z.string(), ID: z.string() })).nullish(),
  BuildahVersion: z.string().nullish(),
  Rootless: z.boolean().nullish(),
});
type Info = z.infer<typeof infoAnswer>;

const architectures: Record<string, string> = { x86_64: 'amd64', aarch64: 'arm64', armv7l: 'arm' };

export interface Host {
  /** Cached since the last probe; reads when never read. */
  facts(signal: AbortSignal): Promise<HostFacts>;
  probe(signal: AbortSignal): Promise<Probe>;
}

export interface SizesConfig {
  cpusets: boolean;
  /** Mount point of the host's lxcfs; null: unused. */
  lxcfs: string | null;
  turns?: { ofCards: GpuTurns; among: TurnsAmong };
}

export function makeHost(
  client: DockerClient,
  docker: DockerMode | null,
  ensureIsolation: EnsureIsolation,
  sizes: SizesConfig = { cpusets: true, lxcfs: null },
  startSmi = smiHere(),
): Host {
  const askLxcfs =
    sizes.lxcfs === null ? async () => ({ whyNot: `${NOT_ALLOWED} (BERTH_LXCFS=off)` }) : makeLxcfs(sizes.lxcfs);
  const readCards = makeReadCards((root) => askSmi(startSmi, root), client.local ? undefined : NOWHERE);
  let last: HostFacts | undefined;

  async function readFacts(signal: AbortSignal): Promise<HostFacts> {
    const parsed = infoAnswer.safeParse(await client.get('/info', signal));
    if (!parsed.success) {
      throw new EngineFault('unreachable', 'the address does not answer as a container engine that Berth supports', {
        retry: true,
        cause: parsed.error,
      });
    }
    const { isolationHost, runtimes, hasCpusets, ...facts } = await factsOf(
      parsed.data,
      client.local,
      docker,
      readCards,
      sizes.turns,
    );
    const { shown, cgroupParent, diskRates } = await ensureIsolation(isolationHost);
    const userNamespaces = facts.rootless || hasUserNamespaces(parsed.data) ? 'shared' : 'none';
    const lxcfs = facts.nsenter === null ? { whyNot: NO_MOUNTS } : await askLxcfs();
    const processors = hasCpusets && sizes.cpusets ? await readProcessors(cgroupParent ?? '') : null;
    const { shown: protections, setsCallFilter } = protectionsOf({
      ...facts,
      securityOptions: parsed.data.SecurityOptions ?? [],
    });
    const isolation = { ...shown, ...protections, userNamespaces, runtimes } as const;
    return (last = { ...facts, cgroupParent, diskRates, isolation, setsCallFilter, lxcfs, processors });
  }

  return {
    facts: async (signal) => last ?? readFacts(signal),
    async probe(signal) {
      // Not /version: Podman starts helper programs for it, 235 ms against 4.
      const [, facts] = await Promise.all([client.get('/_ping', signal), readFacts(signal)]);
      return {
        version: `${facts.podman ? 'Podman' : 'Docker'} ${facts.version}`,
        capacity: { cpuMilli: facts.cores * 1000, memoryMiB: facts.memoryMiB, gpus: gpusByName(facts.gpus) },
        devices: facts.gpus.map(deviceOf),
        architecture: facts.architecture,
        capabilities: {
          rootDiskLimit: facts.rootDiskLimit ? 'hard' : 'none',
          keepsRootDisk: true,
          dockerInside: facts.whyNoDocker === null,
          ...(facts.whyNoDocker === null ? {} : { whyNoDocker: facts.whyNoDocker }),
          saveImage: true,
          gpus: facts.gpus.length > 0,
          ...(facts.whyNoGpus === null ? {} : { whyNoGpus: facts.whyNoGpus }),
          dial: facts.dial,
          joinNetwork: facts.nsenter !== null,
          ...(facts.nsenter === null ? { whyNoJoinNetwork: NO_JOINS } : {}),
          listenUnix: client.local,
          ...(client.local ? {} : { whyNoListenUnix: NO_SOCKETS }),
          processLimit: true,
          isolation: facts.isolation,
          sizes: sizesShown(facts, sizes, client.local),
        },
      };
    },
  };
}

/** Folder for what an engine elsewhere does not have. */
export const NOWHERE = '/nonexistent';

export const NO_JOINS = 'this needs root, nsenter, and an engine on the machine of Berth';
export const NO_SOCKETS = 'its engine is on another machine, and sockets of Berth are files of its own machine';
const NOT_ALLOWED = 'its operator does not allow it';
const NO_MOUNTS =
  'Berth cannot change the mounts of its instances: this needs root, nsenter, and an engine on the machine of Berth';

const sizesShown = (
  { processors, lxcfs }: HostFacts,
  { cpusets }: SizesConfig,
  local: boolean,
): Capabilities['sizes'] => ({
  processors: processors !== null,
  ...(processors === null && {
    whyNoProcessors: !local
      ? 'its engine is on another machine, and Berth cannot see which processors are online there'
      : cpusets
        ? 'its engine cannot give containers a set of processors'
        : `${NOT_ALLOWED} (BERTH_CPUSETS=off)`,
  }),
  memory: 'device' in lxcfs,
  ...('whyNot' in lxcfs && { whyNoMemory: lxcfs.whyNot }),
});

type EngineFacts = Omit<
  HostFacts,
  'cgroupParent' | 'diskRates' | 'isolation' | 'setsCallFilter' | 'lxcfs' | 'processors'
> &
  Pick<Isolation, 'runtimes'> & { isolationHost: IsolationHost; hasCpusets: boolean };

async function factsOf(
  info: Info,
  local: boolean,
  docker: DockerMode | null,
  readCards: ReturnType<typeof makeReadCards>,
  turns: SizesConfig['turns'] = { ofCards: {}, among: 'account' },
): Promise<EngineFacts> {
  const discovered = info.DiscoveredDevices ?? [];
  const podman = typeof info.BuildahVersion === 'string';
  const hasRuntime = !podman && info.Runtimes?.['nvidia'] !== undefined;
  const offersGpus = hasRuntime || discovered.some(({ ID }) => ID.startsWith(CDI_KIND));
  const cards = offersGpus ? await readCards(discovered.map(({ ID }) => ID)) : [];
  const given = givenGpus(discovered, hasRuntime, cards, turns.ofCards);
  const amd = await readAmdGpus(discovered, local ? undefined : null);
  const gpus = [...given.gpus, ...amd];
  const rootless =
    info.Rootless === true || (info.SecurityOptions ?? []).some((option) => option.includes('name=rootless'));
  const userNamespace = local ? await readIdRange(info) : null;
  // Rootless engines and Docker Desktop hold their networks in a namespace or virtual machine.
  const onThisKernel = isThisKernel(info, local);
  const networksAreLocal = onThisKernel && !rootless;
  const memoryMiB = Math.floor(info.MemTotal / (1024 * 1024));
  const cgroupVersion = info.CgroupVersion === '2' ? 2 : info.CgroupVersion === '1' ? 1 : null;
  return {
    podman,
    version: info.ServerVersion,
    architecture: architectures[info.Architecture] ?? info.Architecture,
    cores: info.NCPU,
    memoryMiB,
    hasInit: typeof info.InitBinary === 'string' && info.InitBinary !== '',
    rootless,
    ...(local && !rootless ? await ownLimits() : { openFiles: null, perUser: [] }),
    rootDiskLimit: await canLimitRootDisk(info, local),
    dataRoot: onThisKernel ? (info.DockerRootDir ?? null) : null,
    countsRootDisks: networksAreLocal && !podman && info.Driver === 'overlay2' && process.getuid?.() === 0,
    gpuDriver: given.gpuDriver ?? (amd.length > 0 ? 'cdi' : null),
    gpus,
    turnsAmong: turns.among,
    whyNoGpus: local && gpus.length === 0 ? await whyNoGpus({ podman }) : null,
    // Elsewhere connections are relayed.
    dial: networksAreLocal || !local,
    nsenter: networksAreLocal && process.getuid?.() === 0 ? await findProgram('nsenter') : null,
    whyNoDocker: whyNoDocker(docker, await hostForDocker(info, { local, rootless, podman }, userNamespace)),
    cgroupVersion,
    hasCpusets: info.CPUSet === true && onThisKernel,
    sharesLimits: local && !podman && info.CgroupDriver === 'cgroupfs' && info.CgroupVersion !== '2',
    isolationHost: {
      elsewhere: onThisKernel ? null : 'its engine is on another machine, whose kernel Berth cannot see',
      noGroup: whyNoGroup({ podman, rootless, namespace: await readlink('/proc/self/ns/cgroup').catch(() => '') }),
      cgroupVersion,
      cgroupDriver: cgroupDriverOf(info),
      memoryMiB,
      firewall: await firewallHost({ networksAreLocal, podman }),
    },
    userNamespace,
    runtimes: Object.keys(info.Runtimes ?? {}).toSorted(),
  };
}

async function firewallHost(engine: { networksAreLocal: boolean; podman: boolean }): Promise<FirewallHost> {
  if (!engine.networksAreLocal)
    return { whyNot: "its engine's networks are on another machine or without root, and Berth cannot filter them" };
  if (engine.podman) return { whyNot: "its engine is Podman, and Berth filters Docker's networks only" };
  if (process.getuid?.() !== 0) return { whyNot: 'Berth does not run as root there, and cannot set packet filters' };
  const iptables = await findProgram('iptables');
  return iptables === null ? { whyNot: 'its host has no iptables; the operator can install it' } : { iptables };
}

/** PROC_CGROUP_INIT_INO. */
const HOST_CGROUP_NAMESPACE = 'cgroup:[4026531835]';

function whyNoGroup(engine: Pick<HostFacts, 'podman' | 'rootless'> & { namespace: string }): string | null {
  const { podman, rootless, namespace } = engine;
  if (podman) return 'its engine is Podman, and Berth sets up a control group with Docker only';
  if (rootless) return 'its engine runs without root, and a control group for all instances needs root';
  if (process.getuid?.() !== 0) return 'Berth does not run as root there, and cannot set up a control group';
  return namespace === HOST_CGROUP_NAMESPACE
    ? null
    : 'Berth runs in a container there, and does not see its control groups';
}

const cgroupDriverOf = ({ CgroupDriver }: Info): IsolationHost['cgroupDriver'] =>
  CgroupDriver === 'cgroupfs' || CgroupDriver === 'systemd' ? CgroupDriver : null;

const isThisKernel = ({ OperatingSystem }: Info, local: boolean): boolean =>
  local && process.platform === 'linux' && OperatingSystem !== 'Docker Desktop';

async function hostForDocker(
  info: Info,
  engine: Record<'local' | 'rootless' | 'podman', boolean>,
  userNamespace: IdRange | null,
): Promise<DockerHost> {
  const numberIn = async (path: string): Promise<number | null> =>
    readFile(`/proc/sys/${path}`, 'utf8').then(Number, () => null);
  const elsewhere = !isThisKernel(info, engine.local);
  return {
    engine: engine.podman ? 'podman' : engine.rootless ? 'rootless' : elsewhere ? 'elsewhere' : 'docker',
    berthIsRoot: process.getuid?.() === 0,
    kernel: info.KernelVersion ?? '0',
    tun: await readTun(),
    mappedIds: userNamespace?.count ?? null,
    maxUserNamespaces: await numberIn('user/max_user_namespaces'),
    userNamespacesForAll: await numberIn('kernel/unprivileged_userns_clone'),
    apparmorHoldsNamespaces: await numberIn('kernel/apparmor_restrict_unprivileged_userns'),
  };
}

/** Facts of a host that decide; null: unknown, or the kernel has no such switch. */
export interface DockerHost {
  engine: 'docker' | 'rootless' | 'podman' | 'elsewhere';
  berthIsRoot: boolean;
  kernel: string;
  /** Access to /dev/net/tun. */
  tun: 'missing' | 'root' | 'all';
  /** Number of ids in the engine's user namespaces; null without. */
  mappedIds: number | null;
  maxUserNamespaces: number | null;
  userNamespacesForAll: number | null;
  apparmorHoldsNamespaces: number | null;
}

/** Reason and remedy when instances can't have a Docker; null: possible. */
export function whyNoDocker(mode: DockerMode | null, host: DockerHost): string | null {
  if (mode === null) return 'its operator does not allow it (BERTH_DOCKER_INSIDE=off)';
  if (host.engine === 'podman') return 'its engine is Podman, and Docker inside needs Docker as the engine';
  if (host.engine === 'rootless')
    return 'its engine runs without root, and Docker inside needs an engine that runs as root';
  if (host.engine === 'elsewhere')
    return 'its engine is on another machine; Docker inside needs an engine on the machine of Berth';
  if (!host.berthIsRoot) return 'Berth does not run as root there, and cannot create a disk for the daemon';
  if (mode === 'nested')
    return host.mappedIds === null
      ? null
      : 'its engine has user namespaces, and a nested daemon would need root of the host; the operator can set BERTH_DOCKER_INSIDE=rootless';
  const [major = 0, minor = 0] = host.kernel.split('.').map(Number.parseFloat);
  if (major < 5 || (major === 5 && minor < 11))
    return `its kernel is ${host.kernel}, and a rootless daemon needs 5.11 or later`;
  if (host.tun === 'missing') return 'its host has no /dev/net/tun; the operator can load it (modprobe tun)';
  if (host.mappedIds !== null && host.mappedIds < ROOTLESS_IDS)
    return `the user namespaces of its engine have ${host.mappedIds} ids, and a rootless daemon needs ${ROOTLESS_IDS}; the operator can give dockremap a larger range in /etc/subuid and /etc/subgid`;
  // The engine makes a device of the container's own only outside of user namespaces.
  if (host.mappedIds !== null && host.tun === 'root')
    return 'only root of its host may open /dev/net/tun; the operator can allow it (chmod 0666 /dev/net/tun)';
  if (host.maxUserNamespaces === 0 || host.userNamespacesForAll === 0)
    return 'its host allows no user namespaces; the operator can allow them (sysctl user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1)';
  if (host.apparmorHoldsNamespaces === 1)
    return 'AppArmor denies user namespaces to programs of its host; the operator can allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0)';
  return null;
}

/** A group of version 1 keeps the processors that the host had at its first instance. */
async function readProcessors(group: string): Promise<number[] | null> {
  for (const file of [join(CGROUPS, 'cpuset', group, 'cpuset.cpus'), '/sys/devices/system/cpu/online']) {
    const found = parseProcessors(await readFile(file, 'utf8').catch(() => ''));
    if (found.length > 0) return found;
  }
  return null;
}

async function readTun(): Promise<DockerHost['tun']> {
  const found = await stat('/dev/net/tun').catch(() => null);
  if (found === null) return 'missing';
  return (found.mode & 0o006) === 0o006 ? 'all' : 'root';
}

/** Our own hard limit: the engine's is not reported; an engine on this machine can grant ours. */
async function ownLimits(): Promise<Pick<HostFacts, 'openFiles' | 'perUser'>> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const hard = (text: string): number | null => {
    const found = new RegExp(`^Max ${text}\\s+\\S+\\s+(\\d+)`, 'm').exec(limits)?.[1];
    return found === undefined ? null : Number(found);
  };
  const half = (name: 'sigpending' | 'msgqueue', text: string): HostFacts['perUser'] => {
    const own = hard(text);
    return own === null ? [] : [{ name, limit: Math.floor(own / 2) }];
  };
  const perUser = [...half('sigpending', 'pending signals'), ...half('msgqueue', 'msgqueue size')];
  return { openFiles: hard('open files'), perUser };
}

/** True for btrfs, zfs, and overlay2 on xfs with project quotas (read from the mount table). */
async function canLimitRootDisk(info: Info, local: boolean): Promise<boolean> {
  if (info.Driver === 'btrfs' || info.Driver === 'zfs') return true;
  const backing = info.DriverStatus?.find(([key]) => key === 'Backing Filesystem')?.[1];
  if (info.Driver !== 'overlay2' || backing !== 'xfs' || !local || typeof info.DockerRootDir !== 'string') return false;
  const mounts = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
  const holder = mounts
    .split('\n')
    .map((line) => ({ line, point: line.split(' ')[4] ?? '' }))
    .filter(({ point }) => point === '/' || `${info.DockerRootDir}/`.startsWith(`${point}/`))
    .sort((a, b) => b.point.length - a.point.length)[0];
  return holder !== undefined && /\b(prjquota|pquota)\b/.test(holder.line);
}

export const canAccess = (file: string, mode = constants.F_OK): Promise<boolean> =>
  access(file, mode).then(
    () => true,
    () => false,
  );

async function findProgram(name: string): Promise<string | null> {
  for (const folder of ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin', '/usr/local/sbin']) {
    const program = `${folder}/${name}`;
    if (await canAccess(program, constants.X_OK)) return program;
  }
  return null;
}
