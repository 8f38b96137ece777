/**
 * The daemon of an instance with Docker runs in a container of its own beside it, in the instance's network. What that container
 * may do is read here, and on which hosts it can be: pure.
 *
 * - `rootless`: nobody's right of the host is in it. It begins as root with two capabilities, to hand out a range of user ids, and
 *   goes on as a user that nobody else is, in a user namespace. It may not have no-new-privileges (two programs have a capability
 *   each), and nothing of /proc may be masked, or the kernel refuses its containers a /proc of their own; what is masked elsewhere
 *   is refused to it for being no root. Docker's system call filter and AppArmor's profile forbid to make namespaces at all, so
 *   its filter is one that forbids by name: what no container needs and what has let others out before.
 * - `nested`: a daemon as root, with the rights to mount and to change networks. Faster, and all of Docker; and whoever asks it for a
 *   privileged container can become root of the host (`docs/security.md`).
 *
 * Its own root disk is read-only and its other folders are in memory: all that it keeps is on a disk with a size.
 */
import type { ContainerCreateOptions } from 'dockerode';
import { dockerName, labels } from '../../labels.ts';
import type { EngineSpec } from '../../contract.ts';
import { bindOf, SOCKET_FOLDER } from './create-options.ts';
import type { HostFacts } from '../client/host.ts';

export type DockerMode = 'rootless' | 'nested';

const DATA_FOLDER = '/srv/docker';

/** Who a rootless daemon is outside: `images/docker-inside/customize.sh`. */
const INSIDE_UID = 1_879_048_192;

/** What the folders of the disk belong to, which must be whom the daemon runs as. */
export const ownerOf = (mode: DockerMode): number => (mode === 'rootless' ? INSIDE_UID : 0);

/**
 * Folders of the disk. The daemon's container sees these and not what they are in, so that no tenant puts a link in their place.
 * Each way has its data apart: what one has written belongs to users that the other does not know. The socket has one place, as an
 * instance keeps its mounts.
 */
export const dataFolder = (storage: string, mode: DockerMode): string => `${storage}/${mode}`;
export const socketFolder = (storage: string): string => `${storage}/socket`;

export interface DaemonOptions {
  installation: string;
  mode: DockerMode;
  imageRef: string;
  /** The engine's id of the instance's container. */
  containerId: string;
  /** The instance's own group of limits, when the daemon can be under it; null: it has as much again as the instance. */
  cgroup: string | null;
  host: Pick<HostFacts, 'hasInit' | 'openFiles'>;
}

const MIB = 1024 * 1024;

export function daemonOptions(
  spec: EngineSpec & { docker: { storage: string } },
  { installation, mode, imageRef, containerId, cgroup, host }: DaemonOptions,
): ContainerCreateOptions {
  const uid = ownerOf(mode);
  const memory = spec.memoryMiB * MIB;
  const limits = { Memory: memory, MemorySwap: memory, NanoCpus: spec.cpuMilli * 1_000_000, PidsLimit: spec.pidsLimit };
  return {
    name: dockerName(spec.id),
    Image: imageRef,
    Entrypoint: ['/usr/local/sbin/docker-inside'],
    Cmd: [mode],
    User: '0',
    StopSignal: 'SIGTERM',
    Labels: {
      [labels.installation]: installation,
      [labels.kind]: 'docker',
      [labels.id]: spec.id,
      [labels.owner]: spec.ownerId,
      [labels.generation]: String(spec.generation),
    },
    HostConfig: {
      NetworkMode: `container:${containerId}`,
      ReadonlyRootfs: true,
      Tmpfs: {
        '/run': `rw,nosuid,nodev,exec,size=64m,mode=0755,uid=${uid},gid=${uid}`,
        '/tmp': 'rw,nosuid,nodev,size=64m',
      },
      // The instance's disks are at the same places, so that `docker run -v` means what it says there.
      Mounts: [
        { source: dataFolder(spec.docker.storage, mode), target: DATA_FOLDER, readOnly: false },
        { source: socketFolder(spec.docker.storage), target: SOCKET_FOLDER, readOnly: false },
        ...spec.mounts,
      ].map(bindOf),
      ...(cgroup === null ? limits : { CgroupParent: cgroup }),
      ...(host.openFiles === null ? {} : { Ulimits: [{ Name: 'nofile', Soft: host.openFiles, Hard: host.openFiles }] }),
      ...(mode === 'rootless' ? asNobody : asRoot),
      MaskedPaths: [],
      ReadonlyPaths: [],
      // The engine's init stays root, without the right to pass a signal on to another user: there the first process is the user's own.
      Init: mode === 'nested' && host.hasInit,
      // Its instance is watched by Berth. A daemon that ends by itself is started again by the engine, at longer and longer intervals.
      RestartPolicy: { Name: 'unless-stopped' },
      LogConfig: { Type: 'json-file', Config: { 'max-size': '2m', 'max-file': '2' } },
    },
  };
}

/** Of the kernel itself, of its clock, of other processes' memory; rings and filters with a past of holes; keys, which know no namespaces. */
const FORBIDDEN_CALLS = [
  'acct bpf clock_adjtime clock_settime create_module delete_module finit_module init_module',
  'ioperm iopl kexec_file_load kexec_load lookup_dcookie nfsservctl perf_event_open',
  'quotactl quotactl_fd reboot settimeofday stime swapoff swapon syslog uselib ustat',
  'fanotify_init kcmp move_pages process_vm_readv process_vm_writev userfaultfd vhangup',
  'io_uring_enter io_uring_register io_uring_setup vm86 vm86old add_key request_key',
].flatMap((line) => line.split(' '));
const callFilter = JSON.stringify({
  defaultAction: 'SCMP_ACT_ALLOW',
  syscalls: [{ names: FORBIDDEN_CALLS, action: 'SCMP_ACT_ERRNO' }],
});

const asNobody = {
  CapDrop: ['ALL'],
  CapAdd: ['SETUID', 'SETGID'],
  SecurityOpt: [`seccomp=${callFilter}`, 'apparmor=unconfined'],
  Devices: [{ PathOnHost: '/dev/net/tun', PathInContainer: '/dev/net/tun', CgroupPermissions: 'rwm' }],
};

const asRoot = {
  CapAdd: ['SYS_ADMIN', 'NET_ADMIN'],
  SecurityOpt: ['seccomp=unconfined', 'apparmor=unconfined'],
  CgroupnsMode: 'private' as const,
};

/** What of a host decides where a daemon can run; null where it can't be seen from here. */
export interface DockerGround {
  /** The engine runs on this machine, as root, and is Docker. */
  engine: 'docker' | 'rootless' | 'podman' | 'elsewhere';
  /** Berth may give folders away. */
  weAreRoot: boolean;
  kernel: string;
  tun: boolean;
  /** Of /proc/sys, as numbers; null: the kernel has no such switch. */
  maxUserNamespaces: number | null;
  userNamespacesForAll: number | null;
  apparmorHoldsNamespaces: number | null;
}

/** Why instances can't have a Docker here, and what would help; null: they can. */
export function whyNoDocker(mode: DockerMode | null, ground: DockerGround): string | null {
  if (mode === null) return 'its operator does not allow it (BERTH_DOCKER_INSIDE=off)';
  if (ground.engine === 'podman') return 'its engine is Podman, and only Docker is known to hold one inside';
  if (ground.engine === 'rootless') return 'its engine runs without root; one that runs as root can';
  if (ground.engine === 'elsewhere') return 'its engine is on another machine than Berth';
  if (!ground.weAreRoot) return 'Berth does not run as root there, and can not give a daemon a disk of its own';
  if (mode === 'nested') return null;
  const [major = 0, minor = 0] = ground.kernel.split('.').map(Number.parseFloat);
  if (major < 5 || (major === 5 && minor < 11))
    return `its kernel is ${ground.kernel}, and a daemon without rights keeps images from 5.11 on`;
  if (!ground.tun) return 'its host has no /dev/net/tun; the operator can load it (modprobe tun)';
  if (ground.maxUserNamespaces === 0 || ground.userNamespacesForAll === 0)
    return 'its host allows no user namespaces; the operator can (sysctl user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1)';
  if (ground.apparmorHoldsNamespaces === 1)
    return 'AppArmor keeps programs of its host from user namespaces; the operator can allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0)';
  return null;
}

/**
 * The group that holds a container's limits, from `/proc/<pid>/cgroup`: one path in all that limit. Of version 1 alone, where a group
 * may have processes and groups below it; null where there is none such, or it lies outside of what is seen from here.
 */
export function limitingGroup(text: string): string | null {
  const paths = new Map(
    text.split('\n').flatMap((line): [string, string][] => {
      const [, controllers = '', path = ''] = /^\d+:([^:]*):(\/.+)$/.exec(line) ?? [];
      return controllers.split(',').map((controller) => [controller, path]);
    }),
  );
  const [memory, cpu, pids] = ['memory', 'cpu', 'pids'].map((controller) => paths.get(controller));
  return memory !== undefined && memory === cpu && memory === pids && !memory.includes('..') ? memory : null;
}
