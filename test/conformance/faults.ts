/** Missing images, aborted calls, unreachable engines. */
import { describe, expect, it } from 'vitest';
import type { Engine, EngineSpec, ImageProgress, OwnedObject } from '../../src/engines/contract.ts';
import { containerName } from '../../src/engines/labels.ts';
import { deadline, expectFault, expectRunning, faultOf, newInstanceId, type Subject } from './subject.ts';

const ownedOf = ({ id, ownerId, generation, imageRef }: EngineSpec): OwnedObject => ({
  kind: 'instance',
  id,
  ownerId,
  generation,
  running: true,
  engineName: containerName(id),
  createdAtMs: 0,
  imageRef,
});

/** Calls every verb that returns an answer, with this signal. */
const calls = (engine: Engine, spec: EngineSpec, signal: AbortSignal): Record<string, () => Promise<unknown>> => ({
  probe: () => engine.probe(signal),
  listOwned: () => engine.listOwned(signal),
  ensureImage: () => engine.ensureImage(spec.imageRef, () => {}, signal),
  checkImage: () => engine.checkImage('127.0.0.1:9/a/b:1', signal),
  describeImage: () => engine.describeImage(spec.imageRef, signal),
  pushImage: () => engine.pushImage(spec.imageRef, () => {}, signal),
  removeImage: () => engine.removeImage('berth.local/not-there:1', signal),
  saveImage: () => engine.saveImage(spec.id, 'berth.local/not-there:1', signal),
  discard: () => engine.discard(ownedOf(spec), signal),
  ensure: () => engine.ensure(spec, signal),
  halt: () => engine.halt(spec.id, 1_000, signal),
  destroy: () => engine.destroy(spec.id, signal),
  logs: () => engine.logs(spec.id, 'console', { tail: 10 }, signal),
  followLogs: () => engine.followLogs(spec.id, 'console', { tail: 10 }, signal),
  openExec: () => engine.openExec(spec.id, { command: ['true'], env: {}, terminal: null }, signal),
  exec: () => engine.exec(spec.id, ['true'], signal),
  dial: () => engine.dial(spec.id, 22, signal),
  joinNetwork: () => engine.joinNetwork(spec.id, signal),
  listenUnix: () => engine.listenUnix(spec.id, () => {}, signal),
});

export function describeFaults(current: () => Subject): void {
  describe('images', () => {
    it('ensures a present or available image, and returns at once the second time', async () => {
      const { engine, imageRef } = current().fixture;
      const reported: ImageProgress[] = [];
      await engine.ensureImage(imageRef, (progress) => reported.push(progress), deadline());
      for (const { done, total } of reported) expect(done).toBeLessThanOrEqual(total);
      await engine.ensureImage(imageRef, () => {}, deadline());
    });

    it('a missing image is not_found to ensureImage and to ensure, which leaves nothing behind', async () => {
      const subject = current();
      const { engine, missingImageRef } = subject.fixture;
      const fault = await expectFault(
        engine.ensureImage(missingImageRef, () => {}, deadline()),
        'not_found',
      );
      expect(fault.message).toContain(missingImageRef);
      expect(fault.reason).toBe('imageMissing');
      const spec = subject.spec({ imageRef: missingImageRef });
      await expectFault(subject.ensure(spec), 'not_found');
      expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
      await engine.destroy(spec.id, deadline());
      expect(await subject.owned(spec.ownerId)).toEqual([]);
    });
  });

  describe('unsupported requests', () => {
    it('rejects each verb whose capability is missing', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const { capabilities } = await engine.probe(deadline());
      const spec = subject.spec();
      await subject.ensure(spec);
      const all = calls(engine, spec, deadline());
      const refused = [
        ...(capabilities.saveImage ? [] : ['saveImage', 'pushImage']),
        ...(capabilities.joinNetwork ? [] : ['joinNetwork']),
        ...(capabilities.listenUnix ? [] : ['listenUnix']),
      ];
      for (const verb of refused) {
        const fault = await faultOf(all[verb]?.() ?? Promise.resolve());
        expect({ verb, kind: fault.kind, retry: fault.retry }).toEqual({ verb, kind: 'rejected', retry: false });
      }
    });

    it('refuses a GPU on an engine without GPUs', async (context) => {
      const subject = current();
      const { capabilities } = await subject.fixture.engine.probe(deadline());
      if (capabilities.gpus) context.skip('gpus: the engine has them');
      const spec = subject.spec({ gpus: 1 });
      const fault = await expectFault(subject.ensure(spec), 'rejected', 'no_capacity');
      expect(fault.reason).toBe('gpuMissing');
      await subject.fixture.engine.destroy(spec.id, deadline());
      expect(await subject.owned(spec.ownerId)).toEqual([]);
    });
  });

  describe('aborted', () => {
    it('before the call: every verb throws a retryable fault at once, without effect', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const running = subject.spec();
      await subject.ensure(running);
      const spec = subject.spec();
      for (const [verb, call] of Object.entries(calls(engine, spec, AbortSignal.abort()))) {
        const fault = await faultOf(call());
        expect(fault.retry, verb).toBe(true);
      }
      await faultOf(engine.halt(running.id, 1_000, AbortSignal.abort()));
      await faultOf(engine.destroy(running.id, AbortSignal.abort()));
      expectRunning(await subject.observe(running.id));
      expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
    });

    it('observe answers unknown for each, and usage none', async () => {
      const subject = current();
      const spec = subject.spec();
      await subject.ensure(spec);
      const ids = [spec.id, newInstanceId()];
      const seen = await subject.fixture.engine.observe(ids, AbortSignal.abort());
      expect(ids.map((id) => seen.get(id)?.kind)).toEqual(['unknown', 'unknown']);
    });

    it('during an ensure: the call settles promptly, and a repeated call succeeds', async () => {
      const subject = current();
      for (const afterMs of [0, 3, 10, 30, 60, 100, 200]) {
        const spec = subject.spec();
        const abort = new AbortController();
        const call = subject.fixture.engine.ensure(spec, abort.signal).then(
          () => undefined,
          (thrown: unknown) => faultOf(Promise.reject(thrown)),
        );
        await subject.fixture.time.sleep(afterMs);
        abort.abort();
        const abortedMs = subject.fixture.time.now();
        const fault = await call;
        expect(subject.fixture.time.now() - abortedMs, `aborted after ${afterMs} ms`).toBeLessThan(
          2_000 + subject.fixture.time.slackMs,
        );
        if (fault !== undefined) expect(fault.retry, fault.message).toBe(true);
        expectRunning(await subject.ensure(spec));
        expect(await subject.owned(spec.ownerId)).toHaveLength(2);
      }
    });

    it('during a halt: the call settles promptly, and a repeated call succeeds', async () => {
      const subject = current();
      const spec = subject.spec({ start: 'stubborn' });
      await subject.ensure(spec);
      const abort = new AbortController();
      const call = faultOf(subject.fixture.engine.halt(spec.id, 60_000, abort.signal));
      await subject.fixture.time.sleep(50);
      const abortedMs = subject.fixture.time.now();
      abort.abort();
      expect((await call).retry).toBe(true);
      expect(subject.fixture.time.now() - abortedMs).toBeLessThan(2_000 + subject.fixture.time.slackMs);
      await subject.fixture.engine.halt(spec.id, 0, deadline());
      expect(await subject.observe(spec.id)).toMatchObject({ kind: 'present', running: false });
    });

    it('during a destroy: a repeated call leaves nothing', async () => {
      const subject = current();
      for (const afterMs of [0, 3, 10, 50]) {
        const spec = subject.spec();
        await subject.ensure(spec);
        const abort = new AbortController();
        const call = subject.fixture.engine.destroy(spec.id, abort.signal).catch(() => {});
        await subject.fixture.time.sleep(afterMs);
        abort.abort();
        await call;
        await subject.fixture.engine.destroy(spec.id, deadline());
        expect(await subject.owned(spec.ownerId)).toEqual([]);
      }
    });
  });

  describe('an engine that does not answer', () => {
    it('makes every verb unreachable and retryable, and observe unknown', async () => {
      const subject = current();
      const away = await subject.fixture.unreachable();
      subject.after(() => away.stop());
      const spec = subject.spec();
      for (const [verb, call] of Object.entries(calls(away, spec, AbortSignal.timeout(5_000)))) {
        const fault = await faultOf(call());
        expect({ verb, kind: fault.kind, retry: fault.retry }).toEqual({ verb, kind: 'unreachable', retry: true });
      }
      const ids = [spec.id, newInstanceId()];
      const seen = await away.observe(ids, AbortSignal.timeout(5_000));
      for (const id of ids) expect(seen.get(id)).toMatchObject({ kind: 'unknown', reason: expect.stringMatching(/./) });
    });
  });
}
