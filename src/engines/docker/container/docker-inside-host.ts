/** Requirements of a Docker daemon on the host, and the cgroup a daemon can run under. Pure. */

export type DockerMode = 'rootless' | 'nested';

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
  if (host.engine === 'podman') return 'its engine is Podman, and only Docker is known to hold one inside';
  if (host.engine === 'rootless') return 'its engine runs without root; one that runs as root can';
  if (host.engine === 'elsewhere') return 'its engine is on another machine than Berth';
  if (!host.berthIsRoot) return 'Berth does not run as root there, and can not give a daemon a disk of its own';
  if (mode === 'nested') return null;
  const [major = 0, minor = 0] = host.kernel.split('.').map(Number.parseFloat);
  if (major < 5 || (major === 5 && minor < 11))
    return `its kernel is ${host.kernel}, and a daemon without rights keeps images from 5.11 on`;
  if (!host.tun) return 'its host has no /dev/net/tun; the operator can load it (modprobe tun)';
  if (host.maxUserNamespaces === 0 || host.userNamespacesForAll === 0)
    return 'its host allows no user namespaces; the operator can (sysctl user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1)';
  if (host.apparmorHoldsNamespaces === 1)
    return 'AppArmor keeps programs of its host from user namespaces; the operator can allow them (sysctl kernel.apparmor_restrict_unprivileged_userns=0)';
  return null;
}

/** Cgroup with a container's limits. Version 1 only, where groups may hold processes and groups. */
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
