/**
 * Create options of a Docker daemon's container, and with them every right of a daemon. Pure. The
 * container shares the instance's network.
 *
 * - `rootless`: no rights on the host. Starts as root with two capabilities, to map a range of user
 *   ids, and goes on as a user of its own in a user namespace. No no-new-privileges (two programs
 *   have a capability each). No masked /proc, or the kernel refuses its containers a /proc; what
 *   masks would hide is refused to a non-root user. Docker's seccomp filter and AppArmor profile
 *   forbid namespaces, so the filter here lists forbidden calls: unneeded in containers, or used
 *   for escapes before.
 * - `nested`: root, with rights to mount and to change networks. Faster, complete Docker; but a
 *   privileged container of such a daemon can become root of the host (`docs/security.md`).
 *
 * The root disk is read-only, other folders are in memory: all data is on a disk with a size limit.
 */
import type { ContainerCreateOptions } from 'dockerode';
import { dockerName, labelsOf } from '../../labels.ts';
import type { EngineSpec } from '../../contract.ts';
import { denyingFilter, IO_URING } from './call-filter.ts';
import { bindOf, limitsOf, openFilesOf, parentOf, SOCKET_FOLDER } from './create-options.ts';
import type { DockerMode, HostFacts } from '../client/host-facts.ts';

const DATA_FOLDER = '/srv/docker';
const CA_FOLDER = '/srv/ca';

/** Host user id of a rootless daemon: `images/docker-inside/customize.sh`. */
const ROOTLESS_UID = 1_879_048_192;

export const uidOf = (mode: DockerMode): number => (mode === 'rootless' ? ROOTLESS_UID : 0);

/** Mounted without their parent, so no tenant can replace one by a symlink; ids differ by mode. */
export const dataFolder = (storage: string, mode: DockerMode): string => `${storage}/${mode}`;
export const socketFolder = (storage: string): string => `${storage}/socket`;

export interface DaemonOptions {
  installation: string;
  mode: DockerMode;
  imageRef: string;
  containerId: string;
  /** Cgroup of the instance, to share its limits; null: equal limits of its own. */
  cgroup: string | null;
  processors: string;
  host: Pick<HostFacts, 'hasInit' | 'openFiles' | 'perUser' | 'cgroupParent' | 'diskRates'>;
}

export function daemonOptions(
  spec: EngineSpec & { docker: NonNullable<EngineSpec['docker']> },
  { installation, mode, imageRef, containerId, cgroup, processors, host }: DaemonOptions,
): ContainerCreateOptions {
  const uid = uidOf(mode);
  const { caFolder } = spec.docker;
  // Go adds all files of these folders to the bundle of the image.
  const trusted = caFolder === undefined ? {} : { SSL_CERT_DIR: `/etc/ssl/certs:${CA_FOLDER}` };
  return {
    name: dockerName(spec.id),
    Image: imageRef,
    Entrypoint: ['/usr/local/sbin/docker-inside'],
    Cmd: [mode],
    User: '0',
    Env: Object.entries({ ...spec.docker.environment, ...trusted }).map((pair) => pair.join('=')),
    StopSignal: 'SIGTERM',
    Labels: labelsOf(installation, { ...spec, kind: 'docker', imageRef }),
    HostConfig: {
      NetworkMode: `container:${containerId}`,
      ReadonlyRootfs: true,
      Tmpfs: {
        '/run': `rw,nosuid,nodev,exec,size=64m,mode=0755,uid=${uid},gid=${uid}`,
        '/tmp': 'rw,nosuid,nodev,size=64m',
      },
      // The instance's disks at the same paths, so `docker run -v` works as expected.
      Mounts: [
        { source: dataFolder(spec.docker.storage, mode), target: DATA_FOLDER, readOnly: false },
        { source: socketFolder(spec.docker.storage), target: SOCKET_FOLDER, readOnly: false },
        ...(caFolder === undefined ? [] : [{ source: caFolder, target: CA_FOLDER, readOnly: true }]),
        ...spec.mounts,
      ].map(bindOf),
      ...(cgroup === null ? { ...limitsOf(spec, host), ...parentOf(host) } : { CgroupParent: cgroup }),
      ...(processors === '' ? {} : { CpusetCpus: processors }),
      ...openFilesOf(spec, host),
      ...(mode === 'rootless' ? rootlessRights : nestedRights),
      MaskedPaths: [],
      ReadonlyPaths: [],
      // The engine's init stays root and, rootless, lacks the right to signal another user.
      Init: mode === 'nested' && host.hasInit,
      // The engine restarts a failed daemon, with back-off; Berth watches the instance.
      RestartPolicy: { Name: 'unless-stopped' },
      LogConfig: { Type: 'json-file', Config: { 'max-size': '2m', 'max-file': '2' } },
    },
  };
}

/** Kernel, clock, foreign memory; interfaces with past holes; keys, which lack namespaces. */
const FORBIDDEN_CALLS = [
  'acct bpf clock_adjtime clock_settime create_module delete_module finit_module init_module',
  'ioperm iopl kexec_file_load kexec_load lookup_dcookie nfsservctl perf_event_open',
  'quotactl quotactl_fd reboot settimeofday stime swapoff swapon syslog uselib ustat',
  'fanotify_init kcmp move_pages process_vm_readv process_vm_writev userfaultfd vhangup',
  'vm86 vm86old add_key request_key',
].flatMap((line) => line.split(' '));

const rootlessRights = {
  CapDrop: ['ALL'],
  CapAdd: ['SETUID', 'SETGID'],
  SecurityOpt: [`seccomp=${denyingFilter([...FORBIDDEN_CALLS, ...IO_URING])}`, 'apparmor=unconfined'],
  Devices: [{ PathOnHost: '/dev/net/tun', PathInContainer: '/dev/net/tun', CgroupPermissions: 'rwm' }],
};

const nestedRights = {
  CapAdd: ['SYS_ADMIN', 'NET_ADMIN'],
  SecurityOpt: [`seccomp=${denyingFilter(IO_URING)}`, 'apparmor=unconfined'],
  CgroupnsMode: 'private' as const,
};
