/** Lifecycle: ensure, halt, destroy, observe. */
import { describe, expect, it } from 'vitest';
import {
  control,
  deadline,
  expectKept,
  expectPresent,
  expectRunning,
  newInstanceId,
  newUserId,
  skipWithout,
  untilStopped,
  type Subject,
} from './subject.ts';

export function describeLifecycle(current: () => Subject): void {
  describe('ensure', () => {
    it('creates and starts an absent instance, and returns the observation', async () => {
      const subject = current();
      const spec = subject.spec();
      expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
      const beforeMs = subject.fixture.time.now();
      const seen = expectRunning(await subject.ensure(spec));
      expect(seen).toMatchObject({ generation: 1, outOfMemory: false, nodePorts: [] });
      expect(seen.startedAtMs).toBeGreaterThanOrEqual(beforeMs - 1_000);
      expect(seen.startedAtMs).toBeLessThanOrEqual(subject.fixture.time.now() + 1_000);
      expect(await subject.observe(spec.id)).toEqual(seen);
    });

    it('called twice creates one, and leaves a running instance running', async () => {
      const subject = current();
      const spec = subject.spec();
      const first = await subject.ensure(spec);
      expect(await subject.ensure(spec)).toEqual(first);
      const instances = (await subject.owned(spec.ownerId)).filter(({ kind }) => kind === 'instance');
      expect(instances).toHaveLength(1);
    });

    it('called ten times at once creates one, and every call answers', async () => {
      const subject = current();
      const spec = subject.spec();
      const answers = await Promise.all(Array.from({ length: 10 }, () => subject.ensure(spec)));
      for (const answer of answers) expectRunning(answer);
      expect(await subject.owned(spec.ownerId)).toHaveLength(2);
      expectRunning(await subject.observe(spec.id));
    });

    it('starts five instances of one new account at once, in one network', async () => {
      const subject = current();
      const ownerId = newUserId();
      const specs = Array.from({ length: 5 }, () => subject.spec({ ownerId }));
      for (const answer of await Promise.all(specs.map((spec) => subject.ensure(spec)))) expectRunning(answer);
      const kinds = (await subject.owned(ownerId)).map(({ kind }) => kind);
      expect(kinds).toEqual(['instance', 'instance', 'instance', 'instance', 'instance', 'network']);
    });

    it('after a halt starts again, with the root disk as it was', async () => {
      const subject = current();
      const spec = subject.spec();
      const first = expectPresent(await subject.ensure(spec));
      expect(await subject.exec(spec.id, 'touch', '/root/kept')).toMatchObject({ exitCode: 0 });
      await subject.fixture.engine.halt(spec.id, 5_000, deadline());
      const second = expectRunning(await subject.ensure(spec));
      expect(second.startedAtMs).toBeGreaterThan(first.startedAtMs);
      await expectKept(subject, spec.id);
    });

    it('makes no other container in place of one that has the only root disk', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      if (!(await engine.probe(deadline())).capabilities.keepsRootDisk) return;
      const spec = subject.spec({ mustExist: true });
      await expect(subject.ensure(spec)).rejects.toMatchObject({ kind: 'busy', retry: true });
      expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
      await subject.ensure({ ...spec, mustExist: false });
      await engine.halt(spec.id, 5_000, deadline());
      expectRunning(await subject.ensure(spec));
    });

    it('finishes a container that was created and never started', async (context) => {
      const subject = current();
      skipWithout('halfMade', subject, context);
      const spec = subject.spec({ files: [control('note', 'whole')] });
      await subject.fixture.leaveHalfMade(spec);
      expect(expectPresent(await subject.observe(spec.id))).toMatchObject({
        running: false,
        exitCode: null,
        startedAtMs: 0,
      });
      expectRunning(await subject.ensure(spec));
      expect((await subject.exec(spec.id, 'cat', '/etc/berth/note')).stdout).toBe('whole');
      expect(await subject.owned(spec.ownerId)).toHaveLength(2);
    });

    it('gives a halted instance new limits, with its root disk as it was', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = subject.spec({ memoryMiB: 64, cpuMilli: 500, pidsLimit: 64 });
      await subject.ensure(spec);
      expect(await subject.exec(spec.id, 'touch', '/root/kept')).toMatchObject({ exitCode: 0 });
      for (const memoryMiB of [128, 32]) {
        await engine.halt(spec.id, 5_000, deadline());
        expectRunning(await subject.ensure({ ...spec, memoryMiB, cpuMilli: 1_000, pidsLimit: memoryMiB }));
        const usage = (await engine.usage([spec.id], deadline(), { countersOnly: true })).get(spec.id);
        expect(usage?.memoryLimitBytes).toBe(memoryMiB * 2 ** 20);
        if (subject.fixture.lacks.processLimit === undefined) expect(usage?.processLimit).toBe(memoryMiB);
        await expectKept(subject, spec.id);
      }
    });

    it('restarts an ended instance, whose exit code is reported until then', async () => {
      const subject = current();
      const spec = subject.spec({ start: 'failing' });
      const first = expectPresent(await subject.ensure(spec));
      const ended = await untilStopped(subject, spec.id);
      expect(ended).toMatchObject({ exitCode: 3, outOfMemory: false });
      await subject.ensure(spec);
      await subject.until('it has run a second time', async () => {
        const seen = await subject.observe(spec.id);
        return seen.kind === 'present' && seen.startedAtMs > first.startedAtMs;
      });
    });

    it('reports an out-of-memory kill', async (context) => {
      const subject = current();
      skipWithout('outOfMemory', subject, context);
      const spec = subject.spec({ start: 'greedy', memoryMiB: 16 });
      await subject.ensure(spec);
      expect(await untilStopped(subject, spec.id)).toMatchObject({ outOfMemory: true, exitCode: 137 });
    });

    it('keeps the instance at a higher generation, and reports the engine’s promised generation', async () => {
      const subject = current();
      const spec = subject.spec();
      const first = expectPresent(await subject.ensure(spec));
      const later = { ...spec, generation: 7 };
      const generation = subject.fixture.generationFollows === 'ensure' ? 7 : 1;
      expect(await subject.ensure(later)).toEqual({ ...first, generation });
      await subject.fixture.engine.halt(spec.id, 5_000, deadline());
      expect(expectRunning(await subject.ensure(later)).generation).toBe(generation);
      expect(expectRunning(await subject.observe(spec.id)).generation).toBe(generation);
      const [instance] = await subject.owned(spec.ownerId);
      expect(instance).toMatchObject({ id: spec.id, generation });
    });
  });

  describe('observe', () => {
    it('answers for each of many ids, absent ones included', async () => {
      const subject = current();
      const running = subject.spec();
      const halted = subject.spec({ ownerId: running.ownerId });
      await Promise.all([subject.ensure(running), subject.ensure(halted)]);
      // A busy machine ends a process late: 0 needs an end before the kill.
      await subject.fixture.engine.halt(halted.id, 60_000, deadline());
      const unknownIds = Array.from({ length: 50 }, () => newInstanceId());
      const asked = [running.id, ...unknownIds, halted.id];
      const seen = await subject.fixture.engine.observe(asked, deadline());
      expect([...seen.keys()].toSorted()).toEqual(asked.toSorted());
      expect(seen.get(running.id)).toMatchObject({ kind: 'present', running: true });
      expect(seen.get(halted.id)).toMatchObject({ kind: 'present', running: false, exitCode: 0 });
      for (const unknownId of unknownIds) expect(seen.get(unknownId)).toEqual({ kind: 'absent' });
    });

    it('returns an empty map for no ids', async () => {
      expect(await current().fixture.engine.observe([], deadline())).toEqual(new Map());
    });
  });

  describe('halt', () => {
    it('sends SIGTERM first, so a cooperative process ends before the grace period', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      (await subject.dial(spec.id, 7000)).destroy(); // the trap is set before the port listens
      const beganMs = subject.fixture.time.now();
      await subject.fixture.engine.halt(spec.id, 60_000, deadline());
      expect(subject.fixture.time.now() - beganMs).toBeLessThan(60_000);
      expect(await subject.observe(spec.id)).toMatchObject({ kind: 'present', running: false, exitCode: 0 });
    });

    it('kills a process that ignores SIGTERM after the grace period', async () => {
      const subject = current();
      const spec = subject.spec({ start: 'stubborn' });
      await subject.ensure(spec);
      await subject.until('its trap is set', async () => {
        const lines = await Array.fromAsync(
          await subject.fixture.engine.logs(spec.id, 'console', { tail: 10 }, deadline()),
        );
        return lines.length >= 2;
      });
      const beganMs = subject.fixture.time.now();
      await subject.fixture.engine.halt(spec.id, 2_000, deadline());
      expect(subject.fixture.time.now() - beganMs).toBeGreaterThan(1_800);
      expect(await subject.observe(spec.id)).toMatchObject({ kind: 'present', running: false, exitCode: 137 });
    });

    it('succeeds for an absent or stopped instance', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      await engine.halt(newInstanceId(), 1_000, deadline());
      const spec = subject.spec();
      await subject.ensure(spec);
      await engine.halt(spec.id, 5_000, deadline());
      await engine.halt(spec.id, 5_000, deadline());
      expect(await subject.observe(spec.id)).toMatchObject({ kind: 'present', running: false });
    });
  });

  describe('destroy', () => {
    it('leaves no owned object of a running instance', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      await subject.fixture.engine.destroy(spec.id, deadline());
      expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
      expect(await subject.owned(spec.ownerId)).toEqual([]);
    });

    it('leaves nothing of a stopped or half-created instance', async (context) => {
      const subject = current();
      const stopped = subject.spec();
      await subject.ensure(stopped);
      await subject.fixture.engine.halt(stopped.id, 5_000, deadline());
      await subject.fixture.engine.destroy(stopped.id, deadline());
      expect(await subject.owned(stopped.ownerId)).toEqual([]);
      skipWithout('halfMade', subject, context);
      const half = subject.spec();
      await subject.fixture.leaveHalfMade(half);
      await subject.fixture.engine.destroy(half.id, deadline());
      expect(await subject.owned(half.ownerId)).toEqual([]);
    });

    it('succeeds twice, and for an unknown id', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      await engine.destroy(newInstanceId(), deadline());
      const spec = subject.spec();
      await subject.ensure(spec);
      await Promise.all([engine.destroy(spec.id, deadline()), engine.destroy(spec.id, deadline())]);
      await engine.destroy(spec.id, deadline());
      expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
    });

    it("keeps the account's network while another of its instances is left", async () => {
      const subject = current();
      const one = subject.spec();
      const other = subject.spec({ ownerId: one.ownerId });
      await subject.ensure(one);
      await subject.ensure(other);
      await subject.fixture.engine.destroy(one.id, deadline());
      expect((await subject.owned(one.ownerId)).map(({ kind }) => kind)).toEqual(['instance', 'network']);
      expectRunning(await subject.observe(other.id));
      await subject.fixture.engine.destroy(other.id, deadline());
      expect(await subject.owned(one.ownerId)).toEqual([]);
    });

    it('removes the root disk: the same id starts empty again', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      await subject.exec(spec.id, 'touch', '/root/kept');
      await subject.fixture.engine.destroy(spec.id, deadline());
      await subject.ensure(spec);
      expect((await subject.exec(spec.id, 'ls', '/root/kept')).exitCode).not.toBe(0);
    });
  });
}
