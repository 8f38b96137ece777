/**
 * Instances that use up limits of the kernel, each bounded by a small memory. Raises the limits of
 * the machine, and restores them. Builds the default image when it is absent.
 */
import { once } from 'node:events';
import { readFile, readlink } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineSpec, OpenExec } from '../../../src/engines/contract.ts';
import { limitTerminals } from '../../../src/engines/docker/container/terminal-limit.ts';
import { startedPid } from '../../../src/engines/docker/exec/exec-start.ts';
import { ensureKernelLimits } from '../../../src/engines/docker/host/sysctls.ts';
import { BUILD_DEADLINE_MS, ensureDefaultImage } from '../../fixtures/default-images.ts';
import { bomb, CONNECT_TO_GATEWAY, keepKernelLimits, NEIGHBOR, SEARCH, useHost } from '../../fixtures/bombs.ts';
import { deadline, until, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

let restoreLimits: (() => Promise<void>) | undefined;
let notebook = '';

beforeAll(async () => {
  restoreLimits = await keepKernelLimits();
  await ensureKernelLimits(fixture.facts.memoryMiB * 1024 ** 2, 'raise');
  notebook = await ensureDefaultImage(fixture.docker, 'notebook');
}, BUILD_DEADLINE_MS);
afterAll(() => restoreLimits?.());

/** A bomb ends by itself after that time. */
const ATTACK_SECONDS = 100;

const open = (spec: EngineSpec, program: string): Promise<OpenExec> =>
  fixture.engine.openExec(spec.id, { command: ['python3', '-c', program], env: {}, terminal: null }, deadline());

const launch = async (options: Partial<EngineSpec> = {}): Promise<EngineSpec> => {
  const spec = subject.spec({ imageRef: notebook, memoryMiB: 256, cpuMilli: 1_000, pidsLimit: 512, ...options });
  await subject.ensure(spec);
  return spec;
};

describe('an instance without memory for more', () => {
  it.each(['epoll watches', 'inotify instances', 'AIO contexts'] as const)(
    'takes no %s from the host and its neighbors',
    async (kind) => {
      const [attacker, neighbor] = [await launch(), await launch()];
      let ended = false;
      const attack = fixture.engine
        .exec(attacker.id, ['python3', '-c', bomb(kind, 20)], deadline())
        .finally(() => (ended = true));
      for (let round = 0; !ended || round < 3; round++) {
        expect(await subject.exec(neighbor.id, 'python3', '-c', NEIGHBOR)).toMatchObject({ exitCode: 0 });
        await useHost();
      }
      // Killed for want of memory, or refused with ENOMEM: never ENOSPC, EMFILE or EAGAIN.
      const { exitCode, stdout } = await attack;
      if (exitCode !== 137) expect(stdout).toMatch(/Cannot allocate memory|MemoryError/);
    },
  );
});

describe('an instance that takes all terminals it can get', () => {
  it('gets 512, and leaves those of the host to others', async () => {
    const [attacker, neighbor] = [await launch(), await launch()];
    const attack = await open(attacker, bomb('terminals', ATTACK_SECONDS));
    expect(String((await once(attack.stdout, 'data'))[0])).toMatch(/out of pty devices/);
    expect(await subject.exec(attacker.id, 'sh', '-c', 'ls /dev/pts | wc -l')).toMatchObject({ stdout: '513\n' });
    const terminal = { columns: 80, rows: 24 };
    const shell = { command: ['sh', '-c', 'tty'], env: {}, terminal };
    const theirs = await fixture.engine.openExec(neighbor.id, shell, deadline());
    expect(await text(theirs.stdout)).toMatch(/^\/dev\/pts\/0/);
    const own = await fixture.engine.openExec(attacker.id, shell, deadline()).catch(String);
    expect(own).toMatch(/no terminal is left in the instance/);
    await attack.kill();
  });

  it('has that limit whatever root folder its first process has', async () => {
    const enter = 'mkdir -p /other/dev /other/bin; cp /bin/busybox /other/bin/; ln -s /dev/pts /other/dev/pts';
    const container = await fixture.docker.createContainer({
      Image: fixture.imageRef,
      Entrypoint: ['sh', '-c', `${enter}; exec chroot /other /bin/busybox sleep 1000`],
    });
    subject.after(() => container.remove({ force: true }));
    await container.start();
    const info = await container.inspect();
    const host = async (): Promise<string> =>
      (await readFile('/proc/self/mountinfo', 'utf8')).replaceAll(/^(?!.*devpts).*$/gm, '');
    const before = await host();
    await until('it has changed its root', async () => (await readlink(`/proc/${info.State.Pid}/root`)) === '/other');
    await limitTerminals(info);
    expect(await host()).toBe(before);
    const exec = await container.exec({ Cmd: ['sleep', '1000'] });
    await exec.start({ Detach: true });
    const pid = await startedPid(() => exec.inspect());
    expect(await readFile(`/proc/${pid}/mountinfo`, 'utf8')).toMatch(/ devpts .*max=512/);
  });
});

describe('instances that look for all addresses of their networks', () => {
  it('leave entries of the table of neighbors to others', async () => {
    for (let count = 0; count < 5; count++) {
      const attack = await open(await launch(), SEARCH);
      expect(String((await once(attack.stdout, 'data'))[0])).toMatch(/^sent/);
    }
    const other = await launch();
    const { stdout } = await subject.exec(other.id, 'python3', '-c', CONNECT_TO_GATEWAY);
    expect(stdout).toMatch(/Connection refused/);
  });
});

describe('a fork bomb', () => {
  it('keeps nobody out: neither the host, nor a neighbor, nor its owner, who ends it', async () => {
    const spec = await launch({ memoryMiB: 1_024 });
    const neighbor = await launch();
    await open(spec, bomb('processes', ATTACK_SECONDS));
    const processes = async (): Promise<number> =>
      (await fixture.engine.usage([spec.id], deadline(), { countersOnly: true })).get(spec.id)?.processes ?? 0;
    await until('the bomb has all processes', async () => (await processes()) >= 500);
    expect(await subject.exec(neighbor.id, 'python3', '-c', NEIGHBOR)).toMatchObject({ exitCode: 0 });
    await useHost();
    expect(await subject.exec(spec.id, 'pkill', '-9', '-f', 'python3')).toMatchObject({ exitCode: 0, stderr: '' });
    await until('the bomb is gone', async () => (await processes()) < 100);
    expect(await subject.exec(spec.id, 'echo', 'in')).toMatchObject({ exitCode: 0, stdout: 'in\n' });
  });
});
