/** Usage figures of instances on a real daemon; two readings make a sample. */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { makeDeviceBytes } from '../../../src/engines/docker/usage/block-io.ts';
import { figureNames, sampleValues, type FigureName } from '../../../src/domain/compute/metrics.ts';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { Usage } from '../../../src/engines/contract.ts';
import { deadline, until, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

const MIB = 1024 * 1024;

async function look(id: InstanceId): Promise<Usage> {
  return (await fixture.engine.usage([id], deadline())).get(id) ?? expect.fail(`no usage of ${id}`);
}

/** Sample over the time of `fn`. */
async function during(id: InstanceId, fn: () => Promise<unknown>) {
  const before = await look(id);
  await fn();
  const after = await look(id);
  const values = sampleValues(after, before);
  const seconds = (after.atMs - before.atMs) / 1000;
  const rate = (name: FigureName): number => values[figureNames.indexOf(name)] ?? Number.NaN;
  return { rate, sum: (name: FigureName) => rate(name) * seconds, grownBytes: after.memoryBytes - before.memoryBytes };
}

describe('metrics', () => {
  it('show the share of a core that a busy loop gets', async () => {
    const spec = subject.spec({ cpuMilli: 2_000 });
    await subject.ensure(spec);
    await subject.exec(spec.id, 'sh', '-c', '(while :; do :; done) >/dev/null 2>&1 & echo $! >/root/pid');
    /** CPU time of the loop by the kernel inside, in hundredths of a second. */
    const own = async (): Promise<number> => {
      const { stdout } = await fixture.engine.exec(
        spec.id,
        ['sh', '-c', 'cat /proc/$(cat /root/pid)/stat'],
        deadline(),
      );
      const [user, system] = stdout.split(' ').slice(13, 15).map(Number);
      return (user ?? 0) + (system ?? 0);
    };
    let [loopMs, overMs] = [0, 0];
    const { rate } = await during(spec.id, async () => {
      const [from, beganMs] = [await own(), performance.now()];
      while (loopMs < 3_000) {
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        loopMs = 10 * ((await own()) - from);
      }
      overMs = performance.now() - beganMs;
    });
    const expected = (1_000 * loopMs) / overMs;
    // Processes of the observation count, too.
    expect(rate('cpuMilli')).toBeGreaterThan(expected * 0.8);
    expect(rate('cpuMilli')).toBeLessThan(expected * 1.2 + 100);
    expect(rate('cpuMilli')).toBeLessThan(1_100);
  });

  it('show bytes written to a disk and received over the network in the next sample', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'berth-metrics-'));
    subject.after(() => rm(folder, { recursive: true, force: true }));
    const spec = subject.spec({ mounts: [{ source: folder, target: '/data', readOnly: false }] });
    await subject.ensure(spec);
    const write = 'dd if=/dev/zero of=/data/file bs=1M count=64 conv=fsync 2>/dev/null; touch /root/written; sleep 600';
    const written = await during(spec.id, async () => {
      await subject.exec(spec.id, 'sh', '-c', `(${write}) >/dev/null 2>&1 &`);
      await until('it has written', async () => {
        const { exitCode } = await fixture.engine.exec(spec.id, ['test', '-e', '/root/written'], deadline());
        return exitCode === 0;
      });
    });
    expect(written.sum('writtenBytesPerSecond')).toBeGreaterThan(60 * MIB);
    expect(written.sum('writtenBytesPerSecond')).toBeLessThan(80 * MIB);
    await subject.exec(spec.id, 'sh', '-c', 'nc -l -p 7070 >/dev/null 2>&1 &');
    const fetched = await during(spec.id, async () => {
      const dial = async () => (await subject.dial(spec.id, 7070).catch(() => undefined)) ?? false;
      const stream = await until('it listens', dial);
      await new Promise((resolve, reject) =>
        stream
          .on('error', reject)
          .on('close', resolve)
          .resume()
          .end(Buffer.alloc(8 * MIB)),
      );
    });
    expect(fetched.sum('receivedBytesPerSecond')).toBeGreaterThan(8 * MIB);
    expect(fetched.sum('receivedBytesPerSecond')).toBeLessThan(9 * MIB);
    expect(fetched.sum('sentBytesPerSecond')).toBeLessThan(MIB);
  });

  it('show memory within a tenth, without files that were only read', async () => {
    const spec = subject.spec({ memoryMiB: 512 });
    await subject.ensure(spec);
    // Its reader is blocked, so it retains what it read.
    const { grownBytes } = await during(spec.id, async () => {
      await subject.exec(spec.id, 'sh', '-c', '(dd if=/dev/zero bs=160M count=1 | sleep 600) >/dev/null 2>&1 &');
      await until('the memory is counted', async () => (await look(spec.id)).memoryBytes > 150 * MIB);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    });
    expect(grownBytes).toBeGreaterThan(144 * MIB);
    expect(grownBytes).toBeLessThan(176 * MIB);
    const cached = await during(spec.id, () =>
      subject.exec(spec.id, 'sh', '-c', 'dd if=/dev/zero of=/root/file bs=1M count=100 conv=fsync 2>/dev/null'),
    );
    expect(cached.grownBytes).toBeLessThan(20 * MIB);
  });

  it('show processes and their limit', async () => {
    const spec = subject.spec({ pidsLimit: 77 });
    await subject.ensure(spec);
    const before = await look(spec.id);
    await subject.exec(spec.id, 'sh', '-c', 'for i in 1 2 3 4 5; do sleep 600 & done >/dev/null 2>&1');
    expect((await look(spec.id)).processes).toBe((before.processes ?? 0) + 5);
    expect(before.processLimit).toBe(77);
  });
});

describe('bytes by device', () => {
  const entry = (device: string, op: string, value: number) => {
    const [major = 0, minor = 0] = device.split(':').map(Number);
    return { major, minor, op, value };
  };

  it('counts bytes through several devices once, and is unknown until the engine reports a device', async () => {
    const bytes = makeDeviceBytes(async (device) => device === '253:0');
    expect(await bytes([])).toEqual({ readBytes: null, writtenBytes: null });
    const listed = [
      ...['8:0', '253:0', '7:3'].flatMap((device) => [entry(device, 'read', 100), entry(device, 'write', 7)]),
      entry('259:1', 'Read', 20),
      entry('8:0', 'Total', 1_000),
    ];
    expect(await bytes(listed)).toEqual({ readBytes: 120, writtenBytes: 7 });
    expect(await bytes([]), 'an idle device').toEqual({ readBytes: 0, writtenBytes: 0 });
  });
});
