/** Images: save, push, pull, remove, and discard owned objects. */
import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { beforeEach, describe, expect, it } from 'vitest';
import type { EngineSpec, ImageProgress, OwnedObject } from '../../src/engines/contract.ts';
import { labels, networkName } from '../../src/engines/labels.ts';
import {
  deadline,
  expectFault,
  expectRunning,
  faultOf,
  newInstanceId,
  newUserId,
  skipWithout,
  type Subject,
} from './subject.ts';

/** A new name, removed after the test. */
function newRef(subject: Subject, registry = 'berth.local'): string {
  const ref = `${registry}/saved-${randomUUID().slice(-12)}:1`;
  subject.after(() => subject.fixture.dropImage(ref));
  return ref;
}

/** A running instance with a file on its root disk. */
async function withFile(subject: Subject, file = '/root/kept'): Promise<EngineSpec> {
  const spec = subject.spec();
  await subject.ensure(spec);
  await subject.exec(spec.id, 'touch', file);
  return spec;
}

async function hasFile(subject: Subject, imageRef: string, file = '/root/kept'): Promise<boolean> {
  const spec = subject.spec({ imageRef });
  await subject.ensure(spec);
  const { exitCode } = await subject.exec(spec.id, 'ls', file);
  await subject.fixture.engine.destroy(spec.id, deadline());
  return exitCode === 0;
}

function expectProgress(reported: readonly ImageProgress[]): void {
  for (const [index, { done, total, unit }] of reported.entries()) {
    expect(unit).toBe('bytes');
    expect(done).toBeLessThanOrEqual(total);
    expect(done).toBeGreaterThanOrEqual(reported[index - 1]?.done ?? 0);
  }
  const last = reported.at(-1);
  expect(last?.done).toBe(last?.total);
}

export function describeImages(current: () => Subject): void {
  const imagesOwned = async (...refs: string[]): Promise<OwnedObject[]> =>
    (await current().fixture.engine.listOwned(deadline())).filter(
      ({ kind, engineName }) => kind === 'image' && refs.includes(engineName),
    );

  describe('a saved root disk', () => {
    beforeEach((context) => skipWithout('saveImage', current(), context));

    it('is an image to launch from, while its instance is observed running', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = await withFile(subject);
      const ref = newRef(subject);
      const beforeMs = subject.fixture.time.now();
      let saving = true;
      const saved = engine.saveImage(spec.id, ref, deadline()).finally(() => (saving = false));
      while (saving) {
        expectRunning(await subject.observe(spec.id));
        await subject.fixture.time.sleep(2);
      }
      expect((await saved).sizeBytes).toBeGreaterThan(0);
      expectRunning(await subject.observe(spec.id));
      expect(await imagesOwned(ref)).toMatchObject([
        { id: spec.id, ownerId: spec.ownerId, running: false, imageRef: null },
      ]);
      const { createdAtMs } = (await imagesOwned(ref))[0] ?? expect.fail();
      expect(createdAtMs).toBeGreaterThan(beforeMs - 2_000);
      expect(createdAtMs).toBeLessThan(subject.fixture.time.now() + 2_000);
      await engine.ensureImage(ref, () => {}, deadline());
      expect(await hasFile(subject, ref)).toBe(true);
    });

    it("outlives its stopped instance's destruction, and launches again", async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const ref = newRef(subject); // first, so that clean-up removes the image after its instances
      const spec = await withFile(subject);
      await engine.halt(spec.id, 5_000, deadline());
      await engine.saveImage(spec.id, ref, deadline());
      await engine.destroy(spec.id, deadline());
      expectRunning(await subject.ensure({ ...spec, imageRef: ref, generation: 2 }));
      expect((await subject.exec(spec.id, 'ls', '/root/kept')).exitCode).toBe(0);
      const owned = (await subject.owned(spec.ownerId)).find(({ kind }) => kind === 'instance');
      expect(owned?.imageRef).toBe(ref);
    });

    it('replaces the image of an earlier save under its ref', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = await withFile(subject, '/root/first');
      const ref = newRef(subject);
      const before = (await engine.listOwned(deadline())).filter(({ kind }) => kind === 'image');
      await engine.saveImage(spec.id, ref, deadline());
      await subject.exec(spec.id, 'touch', '/root/second');
      await engine.saveImage(spec.id, ref, deadline());
      expect(await imagesOwned(ref)).toHaveLength(1);
      expect(await engine.listOwned(deadline()).then((all) => all.filter(({ kind }) => kind === 'image'))).toHaveLength(
        before.length + 1,
      );
      expect(await hasFile(subject, ref, '/root/second')).toBe(true);
    });

    it('never replaces an image that was not saved here', async () => {
      const subject = current();
      const { engine, imageRef } = subject.fixture;
      const spec = await withFile(subject);
      const fault = await expectFault(engine.saveImage(spec.id, imageRef, deadline()), 'rejected');
      expect(fault).toMatchObject({ reason: 'nameTaken', retry: false });
      expect(await hasFile(subject, imageRef)).toBe(false);
    });

    it('is not_found for an absent instance', async () => {
      const subject = current();
      await expectFault(subject.fixture.engine.saveImage(newInstanceId(), newRef(subject), deadline()), 'not_found');
    });

    it('aborted at any moment: settles promptly, the instance runs, and a repeated call succeeds', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = await withFile(subject);
      for (const afterMs of [0, 1, 5, 30]) {
        const ref = newRef(subject);
        const abort = new AbortController();
        const call = engine.saveImage(spec.id, ref, abort.signal).then(
          () => undefined,
          (thrown: unknown) => faultOf(Promise.reject(thrown)),
        );
        await subject.fixture.time.sleep(afterMs);
        abort.abort();
        const abortedMs = subject.fixture.time.now();
        const fault = await call;
        expect(subject.fixture.time.now() - abortedMs, `aborted after ${afterMs} ms`).toBeLessThan(
          1_000 + subject.fixture.time.slackMs,
        );
        if (fault !== undefined) expect(fault.retry, fault.message).toBe(true);
        await engine.saveImage(spec.id, ref, deadline());
        expect(await imagesOwned(ref)).toHaveLength(1);
        expectRunning(await subject.observe(spec.id));
      }
    });
  });

  describe('removeImage', () => {
    beforeEach((context) => skipWithout('saveImage', current(), context));

    it('waits for a save whose caller aborted, and leaves nothing', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = await withFile(subject);
      for (const afterMs of [0, 1, 5, 20]) {
        const ref = newRef(subject);
        const abort = new AbortController();
        const saving = engine.saveImage(spec.id, ref, abort.signal).catch(() => {});
        await subject.fixture.time.sleep(afterMs);
        abort.abort();
        await saving;
        await engine.removeImage(ref, deadline());
        // Exclusive access implies that earlier operations have ended.
        await engine.halt(spec.id, 0, deadline());
        expect(await imagesOwned(ref), `aborted after ${afterMs} ms`).toEqual([]);
        await subject.ensure(spec);
      }
    });

    it('removes a saved image; absent is success, and one in use is busy', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = await withFile(subject);
      const ref = newRef(subject);
      await engine.removeImage(ref, deadline());
      await engine.saveImage(spec.id, ref, deadline());
      const user = subject.spec({ imageRef: ref });
      await subject.ensure(user);
      await engine.halt(user.id, 0, deadline());
      expect((await expectFault(engine.removeImage(ref, deadline()), 'busy')).retry).toBe(true);
      await engine.destroy(user.id, deadline());
      await engine.removeImage(ref, deadline());
      expect(await imagesOwned(ref)).toEqual([]);
      await expectFault(subject.ensure(subject.spec({ imageRef: ref })), 'not_found');
    });

    it('rejects an image that this installation did not save', async () => {
      const subject = current();
      const { engine, imageRef } = subject.fixture;
      await expectFault(engine.removeImage(imageRef, deadline()), 'rejected');
      const other = await subject.fixture.elsewhere(randomUUID());
      subject.after(() => other.stop());
      const spec = await withFile(subject);
      const ref = newRef(subject);
      await engine.saveImage(spec.id, ref, deadline());
      await expectFault(other.removeImage(ref, deadline()), 'rejected');
      expect(await other.listOwned(deadline())).toEqual([]);
      expect(await imagesOwned(ref)).toHaveLength(1);
      expect(await hasFile(subject, imageRef)).toBe(false);
    });
  });

  describe('registries', () => {
    beforeEach((context) => skipWithout('saveImage', current(), context));

    it('accept and return an image unchanged, and deny both without the right credentials', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const { closed, credentials, wrongCredentials } = await subject.fixture.registries();
      const spec = await withFile(subject);
      const ref = newRef(subject, closed);
      await engine.saveImage(spec.id, ref, deadline());
      const reported: ImageProgress[] = [];
      const tell = (progress: ImageProgress): void => void reported.push(progress);
      for (const given of [undefined, wrongCredentials]) {
        const fault = await expectFault(engine.pushImage(ref, tell, deadline(), given), 'denied');
        expect(fault).toMatchObject({ reason: 'imageDenied', retry: false });
      }
      await engine.pushImage(ref, tell, deadline(), credentials);
      if (subject.fixture.lacks.pushProgress === undefined) expect(reported.at(-1)?.total).toBeGreaterThan(0);
      expectProgress(reported);
      await engine.pushImage(ref, () => {}, deadline(), credentials);
      await engine.removeImage(ref, deadline());

      const again = await subject.fixture.again();
      subject.after(() => again.stop());
      for (const given of [undefined, wrongCredentials]) {
        const fault = await expectFault(again.ensureImage(ref, tell, deadline(), given), 'denied');
        expect(fault.reason).toBe('imageDenied');
        expect(inspect(fault, { depth: Infinity, showHidden: true })).not.toContain(wrongCredentials.secret);
      }
      reported.length = 0;
      for (const given of [undefined, wrongCredentials])
        expect((await expectFault(again.checkImage(ref, deadline(), given), 'denied')).reason).toBe('imageDenied');
      expect(await again.checkImage(ref, deadline(), credentials)).toMatchObject({ digest: expect.any(String) });
      await again.ensureImage(ref, tell, deadline(), credentials);
      expectProgress(reported);
      expect(await hasFile(subject, ref)).toBe(true);
      expect(await imagesOwned(ref), 'its owner is known after the pull').toMatchObject([{ id: spec.id }]);
    });

    it('an open registry needs no credentials; an absent image can not be pushed', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const { open } = await subject.fixture.registries();
      const spec = await withFile(subject);
      const ref = newRef(subject, open);
      const fault = await expectFault(
        engine.pushImage(ref, () => {}, deadline()),
        'not_found',
      );
      expect(fault.reason).toBe('imageMissing');
      await engine.saveImage(spec.id, ref, deadline());
      await engine.pushImage(ref, () => {}, deadline());
      await engine.removeImage(ref, deadline());
      await engine.ensureImage(ref, () => {}, deadline());
      expect(await hasFile(subject, ref)).toBe(true);
    });
  });

  describe('discard', () => {
    it('removes exactly the listed object, and succeeds again', async (context) => {
      const subject = current();
      skipWithout('saveImage', subject, context);
      const { engine } = subject.fixture;
      const ownerId = newUserId();
      const [one, other] = [subject.spec({ ownerId }), subject.spec({ ownerId })];
      await Promise.all([subject.ensure(one), subject.ensure(other)]);
      const ref = newRef(subject);
      await engine.saveImage(one.id, ref, deadline());
      const owned = await subject.owned(ownerId);
      const pick = (kind: OwnedObject['kind'], id: string): OwnedObject =>
        owned.find((entry) => entry.kind === kind && entry.id === id) ?? expect.fail(`no ${kind} ${id} is listed`);
      expect((await expectFault(engine.discard(pick('network', ownerId), deadline()), 'busy')).retry).toBe(true);

      for (const gone of [pick('instance', one.id), pick('image', one.id)]) {
        await engine.discard(gone, deadline());
        await engine.discard(gone, deadline());
      }
      expect((await subject.owned(ownerId)).map(({ kind, id }) => [kind, id])).toEqual([
        ['instance', other.id],
        ['network', ownerId],
      ]);
      expectRunning(await subject.observe(other.id));
      await engine.discard(pick('instance', other.id), deadline());
      await engine.discard(pick('network', ownerId), deadline());
      await engine.discard(pick('network', ownerId), deadline());
      expect(await subject.owned(ownerId)).toEqual([]);
    });

    it('rejects an image that was replaced by another instance’s', async (context) => {
      const subject = current();
      skipWithout('saveImage', subject, context);
      const { engine } = subject.fixture;
      const [one, other] = [await withFile(subject), await withFile(subject)];
      const ref = newRef(subject);
      await engine.saveImage(one.id, ref, deadline());
      const [reported] = await imagesOwned(ref);
      await engine.saveImage(other.id, ref, deadline());
      await expectFault(engine.discard(reported ?? expect.fail(), deadline()), 'rejected');
      expect(await imagesOwned(ref)).toMatchObject([{ id: other.id }]);
    });

    it('never touches a foreign container with our name, or one passed by mistake', async (context) => {
      const subject = current();
      skipWithout('neighbours', subject, context);
      const { engine } = subject.fixture;
      const spec = subject.spec();
      const theirs = { [labels.installation]: randomUUID(), [labels.kind]: 'instance', [labels.id]: spec.id };
      for (const worn of [{}, theirs]) {
        const name = subject.fixture.engineName(spec.id);
        const neighbour = await subject.fixture.neighbour({ name, labels: worn });
        const about = { id: spec.id, ownerId: spec.ownerId, generation: 1, running: true, createdAtMs: 0 };
        const reported: OwnedObject = { kind: 'instance', engineName: name, imageRef: null, ...about };
        await expectFault(engine.discard(reported, deadline()), 'rejected');
        expect(await neighbour.untouched()).toBe(true);
        await neighbour.remove();
      }
    });

    it('never touches a foreign network', async (context) => {
      const subject = current();
      skipWithout('neighbourNetworks', subject, context);
      const ownerId = newUserId();
      const name = networkName(subject.fixture.installation, ownerId);
      const neighbour = await subject.fixture.neighbourNetwork({ name, labels: { [labels.owner]: ownerId } });
      subject.after(() => neighbour.remove());
      const about = { id: ownerId, ownerId, generation: 0, running: false, createdAtMs: 0, imageRef: null };
      const reported: OwnedObject = { kind: 'network', engineName: name, ...about };
      await expectFault(subject.fixture.engine.discard(reported, deadline()), 'rejected');
      expect(await neighbour.untouched()).toBe(true);
    });

    it('never lists or touches a foreign image: unlabelled, of another installation, or built from ours', async (context) => {
      const subject = current();
      skipWithout('neighbourImages', subject, context);
      const { engine, installation } = subject.fixture;
      const spec = await withFile(subject);
      const saved = newRef(subject);
      const ours = {
        [labels.installation]: installation,
        [labels.kind]: 'image',
        [labels.id]: spec.id,
        [labels.owner]: spec.ownerId,
        [labels.imageRef]: saved,
      };
      for (const worn of [{}, { ...ours, [labels.installation]: randomUUID() }, ours]) {
        const ref = newRef(subject, 'berth.local/others');
        const neighbour = await subject.fixture.neighbourImage({ ref, labels: worn });
        subject.after(() => neighbour.remove());
        expect(await imagesOwned(ref)).toEqual([]);
        const about = { id: spec.id, ownerId: spec.ownerId, generation: 0, running: false, createdAtMs: 0 };
        const reported: OwnedObject = { kind: 'image', engineName: ref, imageRef: null, ...about };
        await expectFault(engine.discard(reported, deadline()), 'rejected');
        await expectFault(engine.removeImage(ref, deadline()), 'rejected');
        await expectFault(engine.saveImage(spec.id, ref, deadline()), 'rejected');
        expect(await neighbour.untouched()).toBe(true);
      }
    });
  });
}
