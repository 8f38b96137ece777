/** Limits of the kernel and the control group of instances, on folders in place of the kernel's. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ensureInstanceGroup } from '../../../src/engines/docker/host/cgroups.ts';
import { terminalOptions } from '../../../src/engines/docker/container/terminal-limit.ts';
import { remountCommand } from '../../../src/engines/docker/host/group-moves.ts';
import { instanceGroupOf, type GroupHost } from '../../../src/engines/docker/host/instance-group.ts';
import { kernelLimits, lowLimits, raiseCommand } from '../../../src/engines/docker/host/kernel-limits.ts';
import { ensureKernelLimits } from '../../../src/engines/docker/host/sysctls.ts';
import { groupIn } from '../../../src/engines/docker/host/process-group.ts';
import { openFileLimitOf, processLimitOf } from '../../../src/domain/compute/instance-limits.ts';

const GIB = 2 ** 30;
const MEMORY = 24 * GIB;

async function newFolder(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-kernel-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), content);
  }
  return folder;
}

const read = (folder: string, name: string): Promise<string> => readFile(path.join(folder, name), 'utf8');

/** Values of a kernel that has just started on such a host. */
const defaults = {
  'fs.epoll.max_user_watches': '5491511\n',
  'fs.inotify.max_user_instances': '128\n',
  'fs.pipe-user-pages-soft': '16384\n',
  'fs.file-max': '9223372036854775807\n',
  'kernel.pid_max': '32768\n',
};
const asFiles = (values: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name.replaceAll('.', '/'), value]));

describe('limits of the kernel', () => {
  test('outlast the memory of all instances: one object for each 128 bytes of the host for epoll', () => {
    const needed = new Map(kernelLimits.map((limit) => [limit.name, limit.needed(MEMORY)]));
    expect(needed.get('fs.epoll.max_user_watches')).toBe(MEMORY / 128);
    expect(needed.get('kernel.pid_max')).toBe(4_194_304);
    // The kernel refuses more than an int there.
    const large = new Map(kernelLimits.map((limit) => [limit.name, limit.needed(4_096 * GIB)]));
    expect(large.get('fs.inotify.max_user_watches')).toBe(2 ** 31 - 1);
  });

  test('are raised where they are too low, and never lowered', async () => {
    const folder = await newFolder(asFiles(defaults));
    const { raised, low } = await ensureKernelLimits(MEMORY, 'raise', folder);
    expect(low).toEqual([]);
    expect(raised.map(({ name }) => name)).toEqual([
      'fs.epoll.max_user_watches',
      'fs.inotify.max_user_instances',
      'fs.pipe-user-pages-soft',
      'kernel.pid_max',
    ]);
    expect(await read(folder, 'fs/epoll/max_user_watches')).toBe(String(MEMORY / 128));
    expect(await read(folder, 'fs/file-max')).toBe(defaults['fs.file-max']);
    expect(await ensureKernelLimits(MEMORY, 'raise', folder)).toEqual({ raised: [], low: [] });
    // Half the memory needs half: the values stay.
    expect(await ensureKernelLimits(MEMORY / 2, 'raise', folder)).toEqual({ raised: [], low: [] });
    expect(await read(folder, 'fs/epoll/max_user_watches')).toBe(String(MEMORY / 128));
  });

  test('are left alone by "check", which names each with the command that raises them', async () => {
    const folder = await newFolder(asFiles(defaults));
    const { raised, low } = await ensureKernelLimits(MEMORY, 'check', folder);
    expect(raised).toEqual([]);
    expect(await read(folder, 'kernel/pid_max')).toBe(defaults['kernel.pid_max']);
    expect(raiseCommand(low)).toMatch(
      /^sysctl -w fs\.epoll\.max_user_watches=201326592 fs\.inotify\.max_user_instances=\d+ .*kernel\.pid_max=4194304$/,
    );
  });

  test('stay low where the kernel refuses', async () => {
    const folder = await newFolder({ 'kernel/pid_max/a': 'a folder cannot be written', 'fs/aio-max-nr': '65536' });
    const { raised } = await ensureKernelLimits(MEMORY, 'raise', folder);
    expect(raised.map(({ name }) => name)).toEqual(['fs.aio-max-nr']);
  });

  test('that a kernel lacks, or sets to "no limit", need nothing', () => {
    expect(lowLimits(new Map(), MEMORY)).toEqual([]);
    expect(lowLimits(new Map([['fs.pipe-user-pages-soft', 0]]), MEMORY)).toEqual([]);
    expect(lowLimits(new Map([['fs.aio-max-nr', 0]]), MEMORY)).toHaveLength(1);
  });
});

describe('the control group of all instances', () => {
  const host: GroupHost = {
    cgroupVersion: 1,
    cgroupDriver: 'cgroupfs',
    memoryBytes: MEMORY,
    reservedBytes: GIB,
    maxProcesses: 196_608,
  };
  const groupOf = (more: Partial<GroupHost> = {}) => {
    const group = instanceGroupOf({ ...host, ...more });
    if (group === null) throw new Error('no group');
    return group;
  };

  test('has half of the default weight, and leaves memory and a quarter of the processes to the host (version 1)', async () => {
    const folder = await newFolder({
      'cpu/berth/cpu.shares': '1024\n',
      'memory/berth/memory.limit_in_bytes': '9223372036854771712\n',
      'pids/berth/pids.max': 'max\n',
    });
    expect(await ensureInstanceGroup(groupOf(), folder)).toBeNull();
    expect(await read(folder, 'cpu/berth/cpu.shares')).toBe('512');
    expect(await read(folder, 'memory/berth/memory.limit_in_bytes')).toBe(String(23 * GIB));
    expect(await read(folder, 'pids/berth/pids.max')).toBe('147456');
  });

  test('same for version 2, IO included where the kernel has weights', async () => {
    const folder = await newFolder({
      'cgroup.subtree_control': '',
      'berth/cpu.weight': '100\n',
      'berth/memory.max': 'max\n',
      'berth/pids.max': 'max\n',
      'berth/io.weight': 'default 100\n',
    });
    expect(await ensureInstanceGroup(groupOf({ cgroupVersion: 2 }), folder)).toBeNull();
    expect(await read(folder, 'berth/cpu.weight')).toBe('50');
    expect(await read(folder, 'berth/memory.max')).toBe(String(23 * GIB));
    expect(await read(folder, 'berth/pids.max')).toBe('147456');
    expect(await read(folder, 'berth/io.weight')).toBe('50');
  });

  test('is a slice with the same settings under systemd', () => {
    expect(groupOf({ cgroupVersion: 2, cgroupDriver: 'systemd' })).toEqual({
      driver: 'systemd',
      parent: 'berth.slice',
      properties: ['CPUWeight=25', 'IOWeight=25', `MemoryMax=${23 * GIB}`, 'TasksMax=147456'],
    });
  });

  test('leaves half of a small host to instances', () => {
    const { driver, ...group } = groupOf({ memoryBytes: GIB, cgroupDriver: 'systemd' });
    expect([driver, 'properties' in group && group.properties]).toEqual([
      'systemd',
      expect.arrayContaining([`MemoryMax=${GIB / 2}`]),
    ]);
  });

  test('says why it lacks a setting', async () => {
    const folder = await newFolder({ 'cpu/berth/cpu.shares': '1024\n' });
    expect(await ensureInstanceGroup(groupOf(), folder)).toMatch(/memory/);
    expect(instanceGroupOf({ ...host, cgroupDriver: null })).toBeNull();
  });
});

describe('moves into control groups', () => {
  const mounts = `tmpfs /run tmpfs rw 0 0
cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate,memory_recursiveprot 0 0
`;
  test('do not wait for forks of others, once the hierarchy is mounted for them', () => {
    const args = ['-o', 'remount,rw,nosuid,nsdelegate,memory_recursiveprot,favordynmods', '/sys/fs/cgroup'];
    for (const kernel of ['6.18.0-1-amd64', '7.0.3']) expect(remountCommand(mounts, kernel)).toEqual(args);
    expect(remountCommand(mounts.replace('nsdelegate', 'nsdelegate,favordynmods'), '6.18.0')).toBeNull();
  });

  test.each(['6.12.48+deb13-amd64', '5.15.0'])(
    'stay as they are with Linux %s, where the option costs and does not help',
    (kernel) => {
      expect(remountCommand(mounts, kernel)).toBeNull();
    },
  );
});

describe('terminals of an instance', () => {
  test('keep owner, mode and ids of their file system when the limit is set', () => {
    const mountinfo = `76 62 0:41 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
77 76 0:44 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=165541,mode=620,ptmxmode=666,max=7
`;
    expect(terminalOptions(mountinfo)).toEqual(['gid=165541', 'mode=620', 'ptmxmode=666']);
  });
});

describe('limits by size', () => {
  test('allow 1024 processes and 512 for each processor, and all instances of a host together a quarter of its threads', () => {
    const limits = [1_000, 2_000, 4_000].map((cpuMilli) => processLimitOf({ cpuMilli, memoryMiB: 65_536 }));
    expect(limits).toEqual([1_536, 2_048, 3_072]);
    const threadsMaxOf = (memoryMiB: number): number => (memoryMiB * 1_024) / 128;
    for (const [memoryMiB, count] of [
      [1_024, 23],
      [2_048, 11],
      [24_576, 1],
    ] as const) {
      const limit = processLimitOf({ memoryMiB, cpuMilli: 1_000_000 });
      expect(limit * count).toBeLessThanOrEqual(threadsMaxOf(24_576) / 4);
    }
    expect(processLimitOf({ memoryMiB: 4 * 1_024 * 1_024, cpuMilli: 1_000_000 })).toBe(65_536);
  });

  test('grow with memory for open files, within bounds', () => {
    expect([64, 1_024, 2_048, 1_048_576].map(openFileLimitOf)).toEqual([16_384, 65_536, 131_072, 524_288]);
  });
});

test.each([
  ['9:name=systemd:/\n8:pids:/berth/abc\n0::/\n', { root: 'pids', path: '/berth/abc' }],
  ['3:cpu,pids:/docker/abc\n', { root: 'pids', path: '/docker/abc' }],
  ['0::/berth.slice/docker-abc.scope\n', { root: '', path: '/berth.slice/docker-abc.scope' }],
  ['', null],
])('the control group that counts processes is read from %j', (text, found) => {
  expect(groupIn(text, 'pids')).toEqual(found);
});

test('the control group of memory is read in both versions of control groups', () => {
  const first = '8:pids:/berth/abc\n4:memory:/berth/def\n0::/\n';
  expect(groupIn(first, 'memory')).toEqual({ root: 'memory', path: '/berth/def' });
  expect(groupIn('0::/docker-abc.scope\n', 'memory')).toEqual({ root: '', path: '/docker-abc.scope' });
});
