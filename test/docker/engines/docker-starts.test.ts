/** Failed starts on a real daemon, each with its reason. */
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { deadline, expectFault, expectRunning, type Subject } from '../../conformance/subject.ts';
import { isolation, onDocker, type DockerFixture } from './docker-fixture.ts';
import { ensureDefaultImage } from '../../fixtures/default-images.ts';
import { run } from '../../conformance/storage.ts';
import { mountExt4 } from '../storage/file-systems.ts';
import { squat } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

describe('a failed start', () => {
  const mounted = async (source: string, target: string) => {
    const spec = subject.spec({ mounts: [{ source, target, readOnly: false }] });
    const fault = await expectFault(subject.ensure(spec), 'rejected');
    await fixture.engine.destroy(spec.id, deadline());
    expect(await subject.owned(spec.ownerId)).toEqual([]);
    return fault;
  };

  it('is a retryable badMount without the host’s path for a missing folder or a file at its path', async () => {
    const folder = await fixture.hostFolder();
    const file = path.join(folder, 'file');
    await writeFile(file, '');
    for (const source of [path.join(folder, 'nothing'), file]) {
      const fault = await mounted(source, '/root/dataDisk');
      expect(fault).toMatchObject({ reason: 'badMount', retry: true });
      expect(fault.message).not.toContain(folder);
    }
  });

  it('is a permanent badMount for a folder mounted over a file of the image', async () => {
    const fault = await mounted(await fixture.hostFolder(), '/bin/busybox');
    expect(fault).toMatchObject({ reason: 'badMount', retry: false });
  });

  it('is a badMount for a folder removed while stopped, and succeeds once the folder is back', async () => {
    const source = path.join(await fixture.hostFolder(), 'disk');
    await mkdir(source);
    const spec = subject.spec({ mounts: [{ source, target: '/root/dataDisk', readOnly: false }] });
    await subject.ensure(spec);
    await fixture.engine.halt(spec.id, 5_000, deadline());
    await rmdir(source);
    expect(await expectFault(subject.ensure(spec), 'rejected')).toMatchObject({ reason: 'badMount', retry: true });
    await mkdir(source);
    expectRunning(await subject.ensure(spec));
  });

  it('names the memory for a type too small to start, and the host for too many cores', async () => {
    const small = await expectFault(subject.ensure(subject.spec({ memoryMiB: 1 })), 'no_capacity');
    expect(small).toMatchObject({ reason: 'outOfMemory', retry: false });
    const wide = await expectFault(subject.ensure(subject.spec({ cpuMilli: 10_000_000 })), 'no_capacity');
    expect(wide.reason).toBe('hostTooSmall');
  });

  it('names the port and the cause for a port of another program', async () => {
    const nodePort = await fixture.releaseNodePort();
    const leave = await squat(fixture.nodePortAddress, nodePort);
    subject.after(leave);
    const fault = await expectFault(subject.ensure(subject.spec({ nodePorts: [{ port: 22, nodePort }] })), 'busy');
    expect(fault).toMatchObject({ reason: 'portTaken', takenNodePort: nodePort });
  });
});

it('limits how fast an instance writes to a named block device', async () => {
  const disk = await mountExt4(1);
  subject.after(disk.remove);
  await mkdir(path.join(disk.folder, 'data'));
  const device = (await run('findmnt', ['-no', 'SOURCE', disk.folder])).stdout.trim();
  const engine = fixture.make({ isolation: { ...isolation, diskRates: [{ device, bytesPerSecond: 1_000_000 }] } });
  subject.after(() => engine.stop());
  const mount = { source: path.join(disk.folder, 'data'), target: '/root/dataDisk', readOnly: false };
  const imageRef = await ensureDefaultImage(fixture.docker, 'notebook');
  const spec = subject.spec({ imageRef, memoryMiB: 256, mounts: [mount] });
  await engine.ensure(spec, deadline());
  const write = ['dd', 'if=/dev/zero', 'of=/root/dataDisk/file', 'bs=1M', 'count=3', 'oflag=direct'];
  const beganMs = performance.now();
  expect(await engine.exec(spec.id, write, deadline())).toMatchObject({ exitCode: 0 });
  expect(performance.now() - beganMs).toBeGreaterThan(1_500);
});

it('limits the terminals of an instance after each start', async () => {
  const spec = subject.spec();
  await subject.ensure(spec);
  const mount = ['grep', ' /dev/pts ', '/proc/mounts'];
  expect((await subject.exec(spec.id, ...mount)).stdout).toMatch(/ptmxmode=666,max=512 /);
  await fixture.engine.halt(spec.id, 0, deadline());
  await subject.ensure(spec);
  expect((await subject.exec(spec.id, ...mount)).stdout).toMatch(/ptmxmode=666,max=512 /);
});
