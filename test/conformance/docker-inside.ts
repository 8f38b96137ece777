/**
 * Docker inside an instance: present only while the instance runs. Its features are tested by the
 * engine's own tests.
 */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { dockerName } from '../../src/engines/labels.ts';
import type { EngineSpec } from '../../src/engines/contract.ts';
import { deadline, expectFault, expectPresent, expectRunning, skipWithout, type Subject } from './subject.ts';

const BUILD_MS = 600_000;

export function describeDockerInside(current: () => Subject): void {
  describe('a Docker sidecar', () => {
    beforeAll(async () => {
      const { engine, lacks } = current().fixture;
      if (engine.dockerImageRef !== undefined && lacks.dockerInside === undefined)
        await engine.ensureImage(engine.dockerImageRef, () => {}, AbortSignal.timeout(BUILD_MS));
    }, BUILD_MS);
    beforeEach((context) => skipWithout('dockerInside', current(), context));

    const withDocker = async (subject: Subject): Promise<EngineSpec> =>
      subject.spec({
        docker: { storage: await subject.fixture.mountSource(await subject.fixture.hostFolder()) },
        memoryMiB: 512,
        pidsLimit: 256,
      });
    const dockersOf = async (subject: Subject, { ownerId }: EngineSpec) =>
      (await subject.owned(ownerId)).filter(({ kind }) => kind === 'docker');

    it('starts and stops with its instance, and is listed', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const spec = await withDocker(subject);
      expect(expectRunning(await subject.ensure(spec)).docker).toBe('running');
      const about = { id: spec.id, ownerId: spec.ownerId, generation: 1, running: true };
      expect(await dockersOf(subject, spec)).toMatchObject([{ ...about, engineName: dockerName(spec.id) }]);
      expect(await subject.owned(spec.ownerId)).toContainEqual(
        expect.objectContaining({ kind: 'instance', docker: 'running' }),
      );
      await engine.halt(spec.id, 5_000, deadline());
      expect(expectPresent(await subject.observe(spec.id))).toMatchObject({ running: false, docker: 'stopped' });
      expect(await dockersOf(subject, spec)).toEqual([]);
      expect(expectRunning(await subject.ensure(spec)).docker).toBe('running');
      await engine.destroy(spec.id, deadline());
      expect(await subject.owned(spec.ownerId)).toEqual([]);
    });

    it('a lost daemon is reported, and the next ensure restores it in the same run', async () => {
      const subject = current();
      const spec = await withDocker(subject);
      const before = expectRunning(await subject.ensure(spec));
      await subject.fixture.loseDocker(spec.id);
      expect(expectRunning(await subject.observe(spec.id)).docker).toBe('stopped');
      expect(await subject.owned(spec.ownerId)).toContainEqual(
        expect.objectContaining({ kind: 'instance', docker: 'stopped' }),
      );
      expect(expectRunning(await subject.ensure(spec))).toEqual(before);
    });

    it('outlives the main process, is reported, and ends with a halt', async () => {
      const subject = current();
      const spec = await withDocker(subject);
      await subject.ensure(spec);
      await subject.fixture.stopOutside(spec.id);
      const seen = await subject.until('it has stopped', async () => {
        const one = expectPresent(await subject.observe(spec.id));
        return !one.running && one;
      });
      expect(seen.docker).toBe('running');
      await subject.fixture.engine.halt(spec.id, 5_000, deadline());
      expect(expectPresent(await subject.observe(spec.id)).docker).toBe('stopped');
      expect(await dockersOf(subject, spec)).toEqual([]);
    });

    it('is discarded alone, by its instance’s id', async () => {
      const subject = current();
      const spec = await withDocker(subject);
      await subject.ensure(spec);
      const [one] = await dockersOf(subject, spec);
      if (one === undefined) return expect.fail('it is not listed');
      await subject.fixture.engine.discard(one, deadline());
      expect(expectRunning(await subject.observe(spec.id)).docker).toBe('stopped');
      await subject.fixture.engine.discard(one, deadline());
    });

    it('is not discarded for another installation', async (context) => {
      const subject = current();
      skipWithout('neighbours', subject, context);
      const spec = subject.spec();
      const engineName = dockerName(spec.id);
      const neighbour = await subject.fixture.neighbour({ name: engineName, labels: {} });
      subject.after(() => neighbour.remove());
      const listed = {
        id: spec.id,
        ownerId: spec.ownerId,
        generation: 1,
        running: true,
        createdAtMs: 0,
        imageRef: null,
      };
      const { engine } = subject.fixture;
      await expectFault(engine.discard({ ...listed, kind: 'docker', engineName }, deadline()), 'rejected');
      expect(await neighbour.untouched()).toBe(true);
    });

    it('is not reported for an instance without Docker', async () => {
      const subject = current();
      const spec = subject.spec();
      expect(expectRunning(await subject.ensure(spec))).not.toHaveProperty('docker');
      expect(await dockersOf(subject, spec)).toEqual([]);
    });
  });
}
