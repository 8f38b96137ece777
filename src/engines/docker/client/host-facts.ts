/** Facts of the engine and its host, read by each probe and before the first create. */
import { access, constants, readFile, readdir } from 'node:fs/promises';
import { z } from 'zod';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { Probe } from '../../contract.ts';
import type { DockerClient } from './docker-client.ts';

export type DockerMode = 'rootless' | 'nested';

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
  rootDiskLimit: boolean;
  gpuDriver: 'nvidia' | 'cdi' | null;
  gpus: { kind: 'gpu'; name: string; id: string }[];
  dial: boolean;
  /** Null where entering containers' networks is impossible. */
  nsenter: string | null;
  /** Null: instances can have a Docker. */
  whyNoDocker: string | null;
  cgroupVersion: 1 | 2 | null;
  /** A container can run under another container's limits, as a child of its cgroup. */
  sharesLimits: boolean;
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

export function makeHost(client: DockerClient, docker: DockerMode | null = null): Host {
  let last: HostFacts | undefined;

  async function readFacts(signal: AbortSignal): Promise<HostFacts> {
    const parsed = infoAnswer.safeParse(await client.get('/info', signal));
    if (!parsed.success) {
      throw new EngineFault('unreachable', 'the address does not answer as a container engine that Berth supports', {
        retry: true,
        cause: parsed.error,
      });
    }
    return (last = await factsOf(parsed.data, client.local, docker));
  }

  return {
    facts: async (signal) => last ?? readFacts(signal),
    async probe(signal) {
      // Not /version: Podman starts helper programs for it, 235 ms against 4.
      const [, facts] = await Promise.all([client.get('/_ping', signal), readFacts(signal)]);
      return {
        version: `${facts.podman ? 'Podman' : 'Docker'} ${facts.version}`,
        capacity: { cpuMilli: facts.cores * 1000, memoryMiB: facts.memoryMiB, gpus: facts.gpus.length },
        devices: facts.gpus,
        architecture: facts.architecture,
        capabilities: {
          rootDiskLimit: facts.rootDiskLimit ? 'hard' : 'none',
          dockerInside: facts.whyNoDocker === null,
          ...(facts.whyNoDocker === null ? {} : { whyNoDocker: facts.whyNoDocker }),
          saveImage: true,
          gpus: facts.gpus.length > 0,
          dial: facts.dial,
          joinNetwork: facts.nsenter !== null,
        },
      };
    },
  };
}

async function factsOf(info: Info, local: boolean, docker: DockerMode | null): Promise<HostFacts> {
  const rootless =
    info.Rootless === true || (info.SecurityOptions ?? []).some((option) => option.includes('name=rootless'));
  const podman = typeof info.BuildahVersion === 'string';
  const cdi = (info.DiscoveredDevices ?? []).filter(
    ({ Source, ID }) => Source === 'cdi' && /^nvidia\.com\/gpu=\d+$/.test(ID),
  );
  const gpuDriver = info.Runtimes?.['nvidia'] !== undefined ? 'nvidia' : cdi.length > 0 ? 'cdi' : null;
  const inProc = gpuDriver !== null && local ? await readProcGpus() : [];
  const inCdi = cdi.map(({ ID }) => ({ kind: 'gpu' as const, name: 'NVIDIA', id: ID.slice(ID.indexOf('=') + 1) }));
  // Rootless engines and Docker Desktop hold their networks in a namespace or virtual machine.
  const networksAreLocal =
    local && !rootless && process.platform === 'linux' && info.OperatingSystem !== 'Docker Desktop';
  return {
    podman,
    version: info.ServerVersion,
    architecture: architectures[info.Architecture] ?? info.Architecture,
    cores: info.NCPU,
    memoryMiB: Math.floor(info.MemTotal / (1024 * 1024)),
    hasInit: typeof info.InitBinary === 'string' && info.InitBinary !== '',
    rootless,
    openFiles: local && !rootless ? await ownOpenFiles() : null,
    rootDiskLimit: await canLimitRootDisk(info, local),
    gpuDriver,
    gpus: gpuDriver === 'cdi' ? inCdi : inProc,
    dial: networksAreLocal,
    nsenter: networksAreLocal && process.getuid?.() === 0 ? await findNsenter() : null,
    whyNoDocker: whyNoDocker(docker, await hostForDocker(info, { local, rootless, podman })),
    cgroupVersion: info.CgroupVersion === '2' ? 2 : info.CgroupVersion === '1' ? 1 : null,
    sharesLimits: local && !podman && info.CgroupDriver === 'cgroupfs' && info.CgroupVersion !== '2',
  };
}

async function hostForDocker(
  info: Info,
  engine: Record<'local' | 'rootless' | 'podman', boolean>,
): Promise<DockerHost> {
  const numberIn = async (path: string): Promise<number | null> =>
    readFile(`/proc/sys/${path}`, 'utf8').then(Number, () => null);
  const elsewhere = !engine.local || process.platform !== 'linux' || info.OperatingSystem === 'Docker Desktop';
  return {
    engine: engine.podman ? 'podman' : engine.rootless ? 'rootless' : elsewhere ? 'elsewhere' : 'docker',
    berthIsRoot: process.getuid?.() === 0,
    kernel: info.KernelVersion ?? '0',
    tun: await canAccess('/dev/net/tun'),
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
  tun: boolean;
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
  if (mode === 'nested') return null;
  const [major = 0, minor = 0] = host.kernel.split('.').map(Number.parseFloat);
  if (major < 5 || (major === 5 && minor < 11))
    return `its kernel is ${host.kernel}, and a rootless daemon needs 5.11 or later`;
  if (!host.tun) return 'its host has no /dev/net/tun; the operator can load it (modprobe tun)';
  if (host.maxUserNamespaces === 0 || host.userNamespacesForAll === 0)
    return 'its host allows no user namespaces; the operator can allow them (sysctl user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1)';
  if (host.apparmorHoldsNamespaces === 1)
    return 'AppArmor denies user namespaces to programs of its host; the operator can allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0)';
  return null;
}

/** Our own hard limit: the engine's is not reported; an engine on this machine can grant ours. */
async function ownOpenFiles(): Promise<number | null> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1];
  return hard === undefined ? null : Math.min(Number(hard), 524_288);
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

async function findNsenter(): Promise<string | null> {
  for (const folder of ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin']) {
    const program = `${folder}/nsenter`;
    if (await canAccess(program, constants.X_OK)) return program;
  }
  return null;
}

async function readProcGpus(): Promise<HostFacts['gpus']> {
  const root = '/proc/driver/nvidia/gpus';
  const folders = await readdir(root).catch(() => []);
  const found = await Promise.all(
    folders.map(async (folder) => {
      const text = await readFile(`${root}/${folder}/information`, 'utf8').catch(() => '');
      const id = /^GPU UUID:\s*(GPU-[0-9a-f-]+)\s*$/im.exec(text)?.[1];
      const name = /^Model:\s*(.+?)\s*$/m.exec(text)?.[1] ?? 'NVIDIA';
      return id === undefined ? [] : [{ kind: 'gpu' as const, name, id }];
    }),
  );
  return found.flat();
}
