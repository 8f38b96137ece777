/**
 * Sizes that programs in an instance see. Runs a lxcfs of its own beside the host's. Builds the
 * default image when it is absent.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Engine, EngineSpec } from '../../../src/engines/contract.ts';
import { BUILD_DEADLINE_MS, ensureDefaultImage } from '../../fixtures/default-images.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { deadline, until, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';

const run = promisify(execFile);

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

let notebook: string;
let lxcfs: Awaited<ReturnType<typeof startLxcfs>>;
let engine: Engine;
beforeAll(async () => {
  notebook = await ensureDefaultImage(fixture.docker, 'notebook');
}, BUILD_DEADLINE_MS);
beforeEach(async () => {
  lxcfs = await startLxcfs();
  engine = fixture.make({ sizes: { cpusets: true, lxcfs: lxcfs.folder } });
});
afterEach(() => lxcfs.remove());

async function startLxcfs() {
  const lab = await mkdtemp(path.join(tmpdir(), 'berth-lxcfs-'));
  const folder = path.join(lab, 'mounted');
  let child: ChildProcess;
  const start = async (): Promise<void> => {
    await run('mkdir', ['-p', folder]);
    child = spawn('lxcfs', ['--pidfile', path.join(lab, 'pid'), folder], { stdio: 'ignore' });
    await until('lxcfs answers', () => readFile(path.join(folder, 'proc/meminfo'), 'utf8').then(Boolean, () => false));
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  const unmount = () => run('umount', ['--lazy', folder]);
  await start();
  return {
    folder,
    kill,
    start,
    unmount,
    async remove() {
      await kill();
      await unmount().catch(() => {});
      await rm(lab, { recursive: true });
    },
  };
}

const launch = async (options: Partial<EngineSpec> = {}): Promise<EngineSpec> => {
  const spec = subject.spec({ imageRef: notebook, memoryMiB: 700, cpuMilli: 1_000, ...options });
  onTestFinished(() => engine.destroy(spec.id, deadline()));
  await engine.ensure(spec, deadline());
  return spec;
};

const output = async ({ id }: EngineSpec, command: string): Promise<string> => {
  const { exitCode, stdout, stderr } = await engine.exec(id, ['sh', '-c', command], deadline());
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return stdout.trim();
};
const memoryMiB = (spec: EngineSpec): Promise<string> => output(spec, "free -m | awk '/^Mem/ { print $2 }'");

/** Threads that have run at the same time, of a pool sized as frameworks do, and where they ran. */
const POOL = `
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
size = os.cpu_count()
meet = Barrier(size)
def work(n):
    meet.wait(20)
    return sum(i * i for i in range(20000))
with ThreadPoolExecutor(size) as pool:
    list(pool.map(work, range(size)))
print(size, len(os.sched_getaffinity(0)), len(os.listdir('/proc/self/task')) <= size + 1)
`;

describe('an instance with whole processors', () => {
  it('sees as many as it has, and its memory', async () => {
    const spec = await launch();
    const command = `nproc; getconf _NPROCESSORS_ONLN; python3 -c "${POOL}"; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat`;
    expect((await output(spec, command)).split('\n')).toEqual(['1', '1', '1 1 True', '1', '1']);
    expect(await memoryMiB(spec)).toBe('700');
    expect(await output(spec, "free -m | awk '/^Swap/ { print $2 }'")).toBe('0');
    // Limits of the kernel are whatever this host has.
    expect(fixture.warnings.filter((line) => !line.includes('limits of its kernel'))).toEqual([]);
  });

  longTest('cannot change what it sees', async () => {
    const spec = await launch();
    const write =
      'for file in /sys/devices/system/cpu/online /proc/meminfo; do (echo 8 >$file || umount $file) && echo changed; done; true';
    expect((await engine.exec(spec.id, ['sh', '-c', write], deadline())).stdout).toBe('');
    expect(await output(spec, 'cat /sys/devices/system/cpu/online')).toMatch(/^\d+$/);
  });

  longTest('has another one than a neighbor, and follows the load at its next start', async () => {
    const specs = [await launch(), await launch()];
    const sets = async () =>
      Promise.all(specs.map(async ({ id }) => (await fixture.inspect(id)).HostConfig.CpusetCpus));
    expect(new Set(await sets()).size, 'a processor each').toBe(2);
    const [first, second] = specs as [EngineSpec, EngineSpec];
    await engine.halt(second.id, 2_000, deadline());
    await engine.observe([second.id], deadline());
    // The place of the stopped one is taken by others meanwhile.
    const other = await launch();
    const { CpusetCpus } = (await fixture.inspect(other.id)).HostConfig;
    await engine.halt(first.id, 2_000, deadline());
    await engine.observe([first.id], deadline());
    await engine.ensure(second, deadline());
    expect((await fixture.inspect(second.id)).HostConfig.CpusetCpus).not.toBe(CpusetCpus);
    expect(await output(second, 'nproc; cat /sys/devices/system/cpu/online')).toBe(
      `1\n${(await fixture.inspect(second.id)).HostConfig.CpusetCpus}`,
    );
  });

  it('shares its processors with its Docker', async () => {
    const storage = await fixture.hostFolder();
    await engine.ensureImage(engine.dockerImageRef ?? '', () => {}, deadline());
    const spec = await launch({ docker: { storage } });
    const daemon = await fixture.docker.getContainer(`berth-docker-${spec.id}`).inspect();
    const allowed = await readFile(`/proc/${daemon.State.Pid}/status`, 'utf8');
    const { CpusetCpus } = (await fixture.inspect(spec.id)).HostConfig;
    expect(/^Cpus_allowed_list:\s*(\S+)$/m.exec(allowed)?.[1]).toBe(CpusetCpus);
  });
});

longTest('counts a part of a processor as one', async () => {
  const spec = await launch({ cpuMilli: 500 });
  expect(await output(spec, 'python3 -c "import os; print(os.cpu_count())"')).toBe('1');
  expect((await fixture.inspect(spec.id)).HostConfig.CpusetCpus).toBe('');
});

describe('when lxcfs', () => {
  it('dies, running instances see the host again, and the instance when it is back', async () => {
    const spec = await launch();
    await lxcfs.kill();
    expect((await engine.exec(spec.id, ['free'], deadline())).exitCode).not.toBe(0);
    const dead = await engine.probe(deadline());
    expect(dead.capabilities.sizes).toMatchObject({
      memory: false,
      whyNoMemory: expect.stringContaining('restart lxcfs'),
    });
    expect(Number(await memoryMiB(spec))).toBeGreaterThan(700);
    const late = await launch();
    expect(Number(await memoryMiB(late)), 'starts without lxcfs').toBeGreaterThan(700);
    expect(await output(late, 'nproc')).toBe('1');
    await lxcfs.unmount();
    await lxcfs.start();
    expect((await engine.probe(deadline())).capabilities.sizes).toEqual({ processors: true, memory: true });
    expect([await memoryMiB(spec), await memoryMiB(late)]).toEqual(['700', '700']);
  });

  longTest('is started again, or Berth is, running instances follow', async () => {
    const spec = await launch();
    await lxcfs.kill();
    await lxcfs.unmount();
    await lxcfs.start();
    const later = fixture.make({ sizes: { cpusets: true, lxcfs: lxcfs.folder } });
    await later.probe(deadline());
    expect(await memoryMiB(spec)).toBe('700');
  });
});
