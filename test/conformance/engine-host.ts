/** Host of an engine: probe, usage, watch, and a restarted server. */
import { describe, expect, it } from 'vitest';
import { countGpus } from '../../src/domain/regions/catalog.ts';
import type { InstanceId } from '../../src/domain/kernel/ids.ts';
import type { Capabilities, Isolation } from '../../src/engines/contract.ts';
import {
  deadline,
  echoPort,
  expectPresent,
  expectRunning,
  newInstanceId,
  untilStopped,
  type Subject,
} from './subject.ts';

/** A missing capability has a reason. */
const promised = <Of extends Capabilities | Isolation>(
  capabilities: Of,
  name: keyof Of & string,
  why: Extract<keyof Of, `whyNo${string}`>,
): Record<string, unknown> =>
  capabilities[name] === true ? { [name]: true } : { [name]: false, [why]: expect.stringMatching(/./) };

export function describeSurroundings(current: () => Subject): void {
  describe('probe', () => {
    it('reports version, capacity, architecture and capabilities', async () => {
      const probe = await current().fixture.engine.probe(deadline());
      expect(probe.version).not.toBe('');
      expect(probe.architecture).not.toBe('');
      expect(probe.capacity.cpuMilli).toBeGreaterThan(0);
      expect(probe.capacity.memoryMiB).toBeGreaterThan(0);
      const gpus = Object.values(probe.capacity.gpus);
      expect(Math.min(0, ...gpus)).toBe(0);
      expect(probe.devices.length).toBeLessThanOrEqual(countGpus(probe.capacity.gpus));
      expect(probe.devices.length > 0).toBe(probe.capabilities.gpus);
      expect(probe.capabilities).toEqual({
        rootDiskLimit: expect.stringMatching(/^(hard|none)$/),
        ...promised(probe.capabilities, 'keepsRootDisk', 'whyNoRootDisk'),
        dockerInside: expect.any(Boolean),
        ...(probe.capabilities.dockerInside ? {} : { whyNoDocker: expect.any(String) }),
        ...promised(probe.capabilities, 'saveImage', 'whyNoSaveImage'),
        ...promised(probe.capabilities, 'listenUnix', 'whyNoListenUnix'),
        ...promised(probe.capabilities, 'processLimit', 'whyNoProcessLimit'),
        gpus: expect.any(Boolean),
        dial: true,
        joinNetwork: expect.any(Boolean),
        ...(probe.capabilities.whyNoJoinNetwork === undefined ? {} : { whyNoJoinNetwork: expect.any(String) }),
        isolation: expect.objectContaining({
          connectionLimit: expect.any(Boolean),
          linkLocalClosed: expect.any(Boolean),
          ...promised(probe.capabilities.isolation, 'callFilter', 'whyNoCallFilter'),
          ...promised(probe.capabilities.isolation, 'securityModule', 'whyNoSecurityModule'),
          egressPolicy: expect.any(Boolean),
          kernelLimits: expect.any(Boolean),
          hostReserve: expect.any(Boolean),
          userNamespaces: expect.stringMatching(/^(none|shared)$/),
          runtimes: expect.any(Array),
        }),
        sizes: expect.objectContaining({ processors: expect.any(Boolean), memory: expect.any(Boolean) }),
      });
    });
  });

  describe('usage', () => {
    it('reports running instances, and omits absent ones', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      const absent = newInstanceId();
      const { engine } = subject.fixture;
      const usage = await engine.usage([spec.id, absent], deadline());
      expect(usage.has(absent)).toBe(false);
      const { atMs, cpuMilli, cpuOverMs, memoryBytes, gpus, rootDiskBytes, ...more } =
        usage.get(spec.id) ?? expect.fail('no usage reported');
      expect(Math.abs(atMs - subject.fixture.time.now())).toBeLessThan(10_000 + subject.fixture.time.slackMs);
      expect(cpuMilli).toBeGreaterThanOrEqual(0);
      expect(cpuOverMs).toBeGreaterThanOrEqual(1_000);
      expect(more.startedAtMs, 'start of the counters').toBe(expectRunning(await subject.observe(spec.id)).startedAtMs);
      expect(more.startedAtMs).toBeLessThanOrEqual(atMs);
      expect(more.cpuTimeMs).toBeGreaterThanOrEqual(0);
      expect(more.cpuTimeMs).toBeLessThan(60_000);
      expect(more.receivedBytes).toBeGreaterThanOrEqual(0);
      expect(more.sentBytes).toBeGreaterThanOrEqual(0);
      expect(more.processes).toBeGreaterThan(0);
      if (subject.fixture.lacks.processLimit === undefined) expect(more.processLimit).toBe(spec.pidsLimit);
      expect(more.memoryLimitBytes).toBe(spec.memoryMiB * 1024 * 1024);
      expect(gpus, 'it has no GPU').toBeNull();
      expect(rootDiskBytes, 'not requested').toBeNull();
      expect(memoryBytes).toBeGreaterThan(0);
      expect(memoryBytes).toBeLessThanOrEqual(spec.memoryMiB * 1024 * 1024);
      const measured = await engine.usage([spec.id], deadline(), { rootDisk: true });
      const { rootDiskUsage } = subject.fixture.lacks;
      const rootDisk = measured.get(spec.id)?.rootDiskBytes;
      if (rootDiskUsage === undefined) expect(rootDisk).toBeGreaterThanOrEqual(0);
      else expect(rootDisk).toBeNull();
    });
  });

  describe('watch', () => {
    it('hints at an instance that was stopped from outside, until its signal ends it', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = subject.spec();
      await subject.ensure(spec);
      const hints = new Set<InstanceId>();
      const ending = new AbortController();
      subject.after(async () => ending.abort());
      engine.watch((id) => hints.add(id), ending.signal);
      // A watch needs a moment to start and may lose events: stop and start until an event arrives.
      await subject.until('a hint came', async () => {
        await subject.fixture.stopOutside(spec.id);
        const ended = await untilStopped(subject, spec.id);
        expect(ended.exitCode).toBe(137);
        await subject.ensure(spec);
        return hints.has(spec.id);
      });
      ending.abort();
      hints.clear();
      await subject.fixture.stopOutside(spec.id);
      await untilStopped(subject, spec.id);
      await subject.ensure(spec);
      expect(hints.size).toBe(0);
    });
  });

  describe('a restarted server', () => {
    it('finds running instances, uses them, and leaves them running when it stops', async () => {
      const subject = current();
      const spec = subject.spec();
      const before = await subject.ensure(spec);
      const later = await subject.fixture.again();
      subject.after(() => later.stop());
      expect((await later.observe([spec.id], deadline())).get(spec.id)).toEqual(before);
      expect(await later.ensure(spec, deadline())).toEqual(before);
      (await subject.dial(spec.id, echoPort)).destroy();
      (await later.dial(spec.id, echoPort, deadline())).destroy();
      const owned = await later.listOwned(deadline());
      expect(owned.some(({ kind, id }) => kind === 'instance' && id === spec.id)).toBe(true);
      await later.stop();
      expect(expectRunning(await subject.observe(spec.id))).toEqual(before);
    });

    it('halts and destroys an instance that another server created', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      const later = await subject.fixture.again();
      subject.after(() => later.stop());
      await later.halt(spec.id, 5_000, deadline());
      expect(expectPresent(await subject.observe(spec.id)).running).toBe(false);
      await later.destroy(spec.id, deadline());
      expect(await subject.owned(spec.ownerId)).toEqual([]);
    });
  });
}
