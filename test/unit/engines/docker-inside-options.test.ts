/** Rights of a Docker daemon's container, and hosts that support it: pure create options. */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import {
  daemonOptions,
  uidOf,
  type DaemonOptions,
} from '../../../src/engines/docker/container/docker-inside-options.ts';
import { limitingGroup } from '../../../src/engines/docker/container/docker-inside.ts';
import { whyNoDocker, type DockerHost } from '../../../src/engines/docker/client/host-facts.ts';
import { hostFacts } from './host-facts.ts';

const id = instanceIdOf('00000000-0000-4000-8000-000000000001');
const spec: EngineSpec & { docker: { storage: string } } = {
  id,
  ownerId: userId('owner'),
  generation: 3,
  hostname: `${id}-0`,
  imageRef: 'some:1',
  cpuMilli: 1500,
  memoryMiB: 2048,
  pidsLimit: 100,
  gpus: 0,
  mounts: [
    { source: '/disks/data', target: '/root/dataDisk', readOnly: false },
    { source: '/common', target: '/root/commonData', readOnly: true },
  ],
  docker: { storage: '/disks/docker' },
  nodePorts: [],
  nodePortAddress: '127.0.0.1',
  files: [],
};
const daemonOptionsInput: DaemonOptions = {
  installation: 'i',
  mode: 'rootless',
  imageRef: 'berth.local/docker-inside:1',
  containerId: 'abc',
  processors: '',
  cgroup: null,
  host: { hasInit: true, openFiles: 1000, perUser: [], cgroupParent: '/berth', diskRates: [] },
};

describe('the container of a Docker daemon', () => {
  const options = daemonOptions(spec, daemonOptionsInput);

  test('has only the instance’s network, no port, no device but tun, no writable folder of the host', () => {
    const { HostConfig: host, ExposedPorts } = options;
    expect(host).toMatchObject({ NetworkMode: 'container:abc', ReadonlyRootfs: true, Init: false });
    expect([host?.PortBindings, ExposedPorts, host?.Privileged, host?.PidMode, host?.IpcMode]).toEqual(
      Array.from({ length: 5 }),
    );
    expect(host?.Devices).toMatchObject([{ PathOnHost: '/dev/net/tun', PathInContainer: '/dev/net/tun' }]);
    expect(Object.values(host?.Tmpfs ?? {}).every((text) => /\bsize=64m\b/.test(text))).toBe(true);
    const writable = host?.Mounts?.filter(({ ReadOnly }) => !ReadOnly).map(({ Source }) => Source);
    expect(writable).toEqual(['/disks/docker/rootless', '/disks/docker/socket', '/disks/data']);
  });

  test('has two capabilities in rootless mode, and a filter of dangerous system calls', () => {
    const { CapDrop, CapAdd, SecurityOpt = [] } = options.HostConfig ?? {};
    expect([CapDrop, CapAdd]).toEqual([['ALL'], ['SETUID', 'SETGID']]);
    const filter: { syscalls: { names: string[]; action: string }[] } = JSON.parse(
      (SecurityOpt[0] ?? '').replace('seccomp=', ''),
    );
    const [rule] = filter.syscalls;
    expect(rule?.action).toBe('SCMP_ACT_ERRNO');
    expect(rule?.names).toEqual(
      expect.arrayContaining(['bpf', 'io_uring_setup', 'kexec_load', 'init_module', 'perf_event_open']),
    );
  });

  test('has the instance’s limits again, unless it can share them', () => {
    const limits = { Memory: 2 ** 31, MemorySwap: 2 ** 31, NanoCpus: 1.5e9, PidsLimit: 100 };
    expect(options.HostConfig).toMatchObject({ ...limits, CgroupParent: '/berth' });
    const under = daemonOptions(spec, { ...daemonOptionsInput, cgroup: '/docker/abc' }).HostConfig;
    expect(under?.CgroupParent).toBe('/docker/abc');
    for (const name of Object.keys(limits)) expect(under).not.toHaveProperty(name);
  });

  test('may only mount and change networks in nested mode, and has data of its own', () => {
    const { HostConfig } = daemonOptions(spec, { ...daemonOptionsInput, mode: 'nested' });
    expect(HostConfig?.CapAdd).toEqual(['SYS_ADMIN', 'NET_ADMIN']);
    expect(HostConfig?.Privileged).toBeUndefined();
    expect(HostConfig?.Mounts?.map(({ Source }) => Source)).toContain('/disks/docker/nested');
    expect(HostConfig?.Mounts?.map(({ Source }) => Source)).toContain('/disks/docker/socket');
  });

  test('runs as the image’s user, who is no user of the host', async () => {
    const script = await readFile(new URL('../../../images/docker-inside/customize.sh', import.meta.url), 'utf8');
    expect(script).toContain(`inside:x:${uidOf('rootless')}:${uidOf('rootless')}:`);
    expect(uidOf('rootless')).toBeGreaterThanOrEqual(1_879_048_192);
  });

  test('is visible as a read-only folder in its instance alone', () => {
    const host = hostFacts({ sharesLimits: true });
    const placement = { installation: 'i', network: 'n', controlFolder: '/c', gpuIds: [], host };
    const { docker, ...without } = spec;
    const mountsOf = (more: { dockerSocketFolder?: string }) =>
      createOptions(docker ? { ...without, docker } : without, { ...placement, ...more }).HostConfig?.Mounts ?? [];
    expect(mountsOf({ dockerSocketFolder: '/disks/docker/socket' })).toContainEqual(
      expect.objectContaining({ Source: '/disks/docker/socket', Target: '/run/berth-docker', ReadOnly: true }),
    );
    expect(mountsOf({}).map(({ Target }) => Target)).toEqual(['/etc/berth', '/root/dataDisk', '/root/commonData']);
  });
});

describe('requirements on the host', () => {
  const fit: DockerHost = {
    engine: 'docker',
    berthIsRoot: true,
    kernel: '6.1.0-18-amd64',
    tun: 'root',
    mappedIds: null,
    maxUserNamespaces: 96_000,
    userNamespacesForAll: null,
    apparmorHoldsNamespaces: null,
  };

  test('are met by a host with all features of a mode', () => {
    expect(whyNoDocker('rootless', fit)).toBeNull();
    expect(
      whyNoDocker('rootless', { ...fit, kernel: '5.11.0', userNamespacesForAll: 1, apparmorHoldsNamespaces: 0 }),
    ).toBeNull();
    expect(whyNoDocker('nested', { ...fit, tun: 'missing', maxUserNamespaces: 0, kernel: '4.19.0' })).toBeNull();
  });

  test.each([
    ['its engine', { engine: 'podman' }, /Podman/],
    [
      'its engine’s rights',
      { engine: 'rootless' },
      /runs without root, and Docker inside needs an engine that runs as root/,
    ],
    ['its connection to the engine', { engine: 'elsewhere' }, /another machine/],
    ['Berth’s rights', { berthIsRoot: false }, /does not run as root/],
    ['its kernel', { kernel: '5.10.0-28-amd64' }, /5\.10.*5\.11/],
    ['its devices', { tun: 'missing' }, /modprobe tun/],
    ['its range of ids', { mappedIds: 65_536 }, /have 65536 ids.*needs 1879179264.*\/etc\/subuid/],
    ['its tun device in user namespaces', { mappedIds: 1_879_179_264 }, /chmod 0666 \/dev\/net\/tun/],
    ['its limits', { maxUserNamespaces: 0 }, /sysctl user\.max_user_namespaces/],
    ['Debian’s switch', { userNamespacesForAll: 0 }, /kernel\.unprivileged_userns_clone/],
    ['Ubuntu’s switch', { apparmorHoldsNamespaces: 1 }, /kernel\.apparmor_restrict_unprivileged_userns=0/],
  ] as const)('are not met for %s, and the refusal names a remedy', (_, lack, words) => {
    expect(whyNoDocker('rootless', { ...fit, ...lack })).toMatch(words);
  });

  test('exclude nested daemons from an engine with user namespaces', () => {
    const mapped = { ...fit, mappedIds: 1_879_179_264, tun: 'all' } as const;
    expect(whyNoDocker('rootless', mapped)).toBeNull();
    expect(whyNoDocker('nested', mapped)).toMatch(/would need root of the host; .* BERTH_DOCKER_INSIDE=rootless/);
  });

  test('are irrelevant when the operator turned Docker off', () => {
    expect(whyNoDocker(null, fit)).toContain('BERTH_DOCKER_INSIDE=off');
  });
});

describe('the cgroup of an instance’s limits', () => {
  test('is the one path of all controllers', () => {
    expect(
      limitingGroup(
        '9:name=systemd:/docker/x\n8:pids:/docker/x\n4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n0::/other\n',
      ),
    ).toBe('/docker/x');
  });

  test.each([
    ['cgroup version 2', '0::/system.slice/docker-x.scope\n'],
    ['different paths', '8:pids:/docker/x\n4:memory:/docker/y\n1:cpu:/docker/x\n'],
    ['a path outside the visible tree', '8:pids:/../x\n4:memory:/../x\n1:cpu:/../x\n'],
    ['an empty file', ''],
  ])('is undefined for %s', (_, text) => {
    expect(limitingGroup(text)).toBeNull();
  });
});
