/**
 * Instances that use up limits of the kernel, each bounded by a small memory. Raises the limits of
 * the machine, and restores them. Builds the default image when it is absent.
 */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { kernelLimits } from '../../../src/engines/docker/host/kernel-limits.ts';
import { ensureKernelLimits } from '../../../src/engines/docker/host/sysctls.ts';
import { BUILD_DEADLINE_MS, ensureDefaultImage } from '../../fixtures/default-images.ts';
import { deadline, until, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';

const run = promisify(execFile);

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

const files = kernelLimits.map(({ name }) => `/proc/sys/${name.replaceAll('.', '/')}`);
let before: (string | null)[] = [];
let notebook = '';

beforeAll(async () => {
  before = await Promise.all(files.map((file) => readFile(file, 'utf8').catch(() => null)));
  await ensureKernelLimits(fixture.facts.memoryMiB * 1024 ** 2, 'raise');
  notebook = await ensureDefaultImage(fixture.docker, 'notebook');
}, BUILD_DEADLINE_MS);
afterAll(async () => {
  for (const [index, file] of files.entries()) if (before[index]) await writeFile(file, before[index]);
});

const PREAMBLE = `
import ctypes, os, resource, select
libc = ctypes.CDLL(None, use_errno=True)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def taken(what):
    if what < 0: raise OSError(ctypes.get_errno(), 'refused')
    return what
def in_children(use):
    # A process holds so many files only.
    for _ in range(64):
        ready, done = os.pipe()
        if os.fork() == 0:
            try:
                for _ in range(hard - 32): use()
            finally:
                os.write(done, b'.')
            import time; time.sleep(1000)
        os.read(ready, 1)
        os.close(ready); os.close(done)
`;

/** Each takes objects of one kind until the instance has no memory left. */
const bombs: Record<string, string> = {
  'epoll watches': `
events = [os.eventfd(0) for _ in range(4000)]
held = []
while True:
    held.append(select.epoll())
    for event in events: held[-1].register(event)
`,
  'inotify instances': `in_children(lambda: taken(libc.inotify_init()))`,
  'AIO contexts': `
while True: taken(libc.syscall(206, 65536, ctypes.byref(ctypes.c_ulong(0))))
`,
};

/** Uses one of each as a program of the host or of another instance would. */
const NEIGHBOUR = `${PREAMBLE}
import pty, subprocess
poll = select.epoll()
poll.register(os.eventfd(0))
fd = taken(libc.inotify_init())
taken(libc.inotify_add_watch(fd, b'/usr', 2))
taken(libc.syscall(206, 128, ctypes.byref(ctypes.c_ulong(0))))
pty.openpty()
subprocess.run(['true'], check=True)
`;
/** Node ends with SIGABRT when it gets no epoll watch. */
const HOST = `require('fs').watch('/tmp').close(); require('net').createServer().listen(0, function () { this.close(); });`;

const launch = async (options: Partial<EngineSpec> = {}): Promise<EngineSpec> => {
  const spec = subject.spec({ imageRef: notebook, memoryMiB: 256, cpuMilli: 1_000, pidsLimit: 512, ...options });
  await subject.ensure(spec);
  return spec;
};

describe('an instance without memory for more', () => {
  it.each(Object.entries(bombs))('takes no %s from the host and its neighbors', async (_kind, bomb) => {
    const [attacker, neighbor] = [await launch(), await launch()];
    let ended = false;
    const attack = fixture.engine
      .exec(attacker.id, ['python3', '-c', `${PREAMBLE}\n${bomb}`], deadline())
      .finally(() => (ended = true));
    attack.catch(() => {});
    for (let round = 0; !ended || round < 3; round++) {
      expect(await subject.exec(neighbor.id, 'python3', '-c', NEIGHBOUR)).toMatchObject({ exitCode: 0 });
      await run(process.execPath, ['-e', HOST]);
    }
    // Killed for want of memory, or refused with ENOMEM: never ENOSPC, EMFILE or EAGAIN.
    const outcome = await attack.catch((error: unknown) => ({ exitCode: 137, stderr: String(error) }));
    if (outcome.exitCode !== 137) expect(outcome.stderr).toMatch(/\[Errno 12\]|MemoryError/);
  });
});

describe('a fork bomb', () => {
  it('keeps nobody out: neither the host, nor a neighbor, nor its owner, who ends it', async () => {
    const spec = await launch({ memoryMiB: 1_024 });
    const neighbor = await launch();
    const bomb = `import os
while True:
    try: os.fork()
    except OSError: pass`;
    await fixture.engine.openExec(spec.id, { command: ['python3', '-c', bomb], env: {}, terminal: null }, deadline());
    const processes = async (): Promise<number> =>
      (await fixture.engine.usage([spec.id], deadline(), { countersOnly: true })).get(spec.id)?.processes ?? 0;
    await until('the bomb has all processes', async () => (await processes()) >= 500);
    expect(await subject.exec(neighbor.id, 'python3', '-c', NEIGHBOUR)).toMatchObject({ exitCode: 0 });
    await run(process.execPath, ['-e', HOST]);
    // Stopped, none takes the place of another that ends.
    const end = 'kill -STOP -1; pkill -9 -f [o]s.fork; kill -CONT -1';
    expect(await subject.exec(spec.id, 'sh', '-c', end)).toMatchObject({ exitCode: 0, stderr: '' });
    await until('the bomb is gone', async () => (await processes()) < 100);
    expect(await subject.exec(spec.id, 'echo', 'in')).toMatchObject({ exitCode: 0, stdout: 'in\n' });
  });
});
