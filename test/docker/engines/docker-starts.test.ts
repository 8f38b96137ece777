/** Starts that fail on a real daemon, each with its reason. */
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { deadline, expectFault, expectRunning, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';
import { squat } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

describe('a start that fails', () => {
  const mounted = async (source: string, target: string) => {
    const spec = subject.spec({ mounts: [{ source, target, readOnly: false }] });
    const fault = await expectFault(subject.ensure(spec), 'rejected');
    await fixture.engine.destroy(spec.id, deadline());
    expect(await subject.owned(spec.ownerId)).toEqual([]);
    return fault;
  };

  it('for a folder that is not there, or is a file, says a bad mount that may pass, and not where on the host it is', async () => {
    const folder = await fixture.hostFolder();
    const file = path.join(folder, 'file');
    await writeFile(file, '');
    for (const source of [path.join(folder, 'nothing'), file]) {
      const fault = await mounted(source, '/root/dataDisk');
      expect(fault).toMatchObject({ reason: 'badMount', retry: true });
      expect(fault.message).not.toContain(folder);
    }
  });

  it('for a folder that is to be where the image has a file says a bad mount that stays one', async () => {
    const fault = await mounted(await fixture.hostFolder(), '/bin/busybox');
    expect(fault).toMatchObject({ reason: 'badMount', retry: false });
  });

  it('for a folder that went away while it was stopped says so, and starts when it is back', async () => {
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

  it('for a type too small to start anything says the memory; for one with more cores than the host, the host', async () => {
    const small = await expectFault(subject.ensure(subject.spec({ memoryMiB: 1 })), 'no_capacity');
    expect(small).toMatchObject({ reason: 'outOfMemory', retry: false });
    const wide = await expectFault(subject.ensure(subject.spec({ cpuMilli: 10_000_000 })), 'no_capacity');
    expect(wide.reason).toBe('hostTooSmall');
  });

  it('for a port that another program has says which, and that it is that', async () => {
    const nodePort = await fixture.releaseNodePort();
    const leave = await squat(fixture.nodePortAddress, nodePort);
    subject.after(leave);
    const fault = await expectFault(subject.ensure(subject.spec({ nodePorts: [{ port: 22, nodePort }] })), 'busy');
    expect(fault).toMatchObject({ reason: 'portTaken', takenNodePort: nodePort });
  });
});
