/** Owned objects are found; foreign objects stay untouched. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { labels, networkName } from '../../src/engines/labels.ts';
import type { EngineSpec } from '../../src/engines/contract.ts';
import {
  deadline,
  expectFault,
  expectPresent,
  expectRunning,
  newUserId,
  skipWithout,
  type Subject,
} from './subject.ts';

export function describeOwnership(current: () => Subject): void {
  describe('listOwned', () => {
    it('lists instances in every state, and the network of their account', async () => {
      const subject = current();
      const ownerId = newUserId();
      const running = subject.spec({ ownerId, generation: 4 });
      const halted = subject.spec({ ownerId, generation: 5 });
      await Promise.all([subject.ensure(running), subject.ensure(halted)]);
      await subject.fixture.engine.halt(halted.id, 5_000, deadline());
      const owned = await subject.owned(ownerId);
      expect(owned).toHaveLength(3);
      for (const { id, generation, running: runs } of [
        { id: running.id, generation: 4, running: true },
        { id: halted.id, generation: 5, running: false },
      ]) {
        const one = owned.find((entry) => entry.id === id);
        expect(one).toMatchObject({ kind: 'instance', ownerId, generation, running: runs });
        expect(one?.engineName).toBe(subject.fixture.engineName(id));
        expect(one?.imageRef).toBe(subject.fixture.imageRef);
        expect(Math.abs((one?.createdAtMs ?? 0) - subject.fixture.time.now())).toBeLessThan(60_000);
      }
      expect(owned.at(-1)).toMatchObject({ kind: 'network', id: ownerId, ownerId });
    });

    it('lists a container that was created and never started', async (context) => {
      const subject = current();
      skipWithout('halfMade', subject, context);
      const spec = subject.spec();
      await subject.fixture.leaveHalfMade(spec);
      expect((await subject.owned(spec.ownerId)).filter(({ kind }) => kind === 'instance')).toMatchObject([
        { id: spec.id, running: false },
      ]);
    });
  });

  describe('foreign containers and networks', () => {
    const foreignOwners: { whose: string; labelsFor: (spec: EngineSpec) => Record<string, string> }[] = [
      { whose: 'without any label', labelsFor: () => ({}) },
      {
        whose: "with another installation's labels",
        labelsFor: ({ id, ownerId }) => ({
          [labels.installation]: randomUUID(),
          [labels.kind]: 'instance',
          [labels.id]: id,
          [labels.owner]: ownerId,
          [labels.generation]: '1',
        }),
      },
      {
        whose: 'with all our labels but that of the installation',
        labelsFor: ({ id, ownerId }) => ({
          [labels.kind]: 'instance',
          [labels.id]: id,
          [labels.owner]: ownerId,
          [labels.generation]: '1',
        }),
      },
    ];

    it.for(foreignOwners)('neither lists nor touches a container $whose', async ({ labelsFor }, context) => {
      const subject = current();
      skipWithout('neighbours', subject, context);
      const spec = subject.spec();
      const name = `stranger-${randomUUID()}`;
      const neighbour = await subject.fixture.neighbour({ name, labels: labelsFor(spec) });
      subject.after(() => neighbour.remove());
      expect(await subject.owned(spec.ownerId)).toEqual([]);
      expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
      await subject.fixture.engine.halt(spec.id, 0, deadline());
      await subject.fixture.engine.destroy(spec.id, deadline());
      expect(await neighbour.untouched()).toBe(true);
      expectRunning(await subject.ensure(spec));
      await subject.fixture.engine.destroy(spec.id, deadline());
      expect(await neighbour.untouched()).toBe(true);
    });

    it.for(foreignOwners)(
      'ensure refuses the name of a container $whose, and leaves the container untouched',
      async ({ labelsFor }, context) => {
        const subject = current();
        skipWithout('neighbours', subject, context);
        const spec = subject.spec();
        const name = subject.fixture.engineName(spec.id);
        const neighbour = await subject.fixture.neighbour({ name, labels: labelsFor(spec) });
        subject.after(() => neighbour.remove());
        const fault = await expectFault(subject.ensure(spec), 'rejected', 'busy');
        expect(fault.message).toContain(name);
        expect(fault.reason).toBe('nameTaken');
        expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
        expect((await subject.owned(spec.ownerId)).filter(({ kind }) => kind === 'instance')).toEqual([]);
        await subject.fixture.engine.halt(spec.id, 0, deadline());
        await subject.fixture.engine.destroy(spec.id, deadline());
        expect(await neighbour.untouched()).toBe(true);
        await neighbour.remove();
        expectRunning(await subject.ensure(spec));
      },
    );

    it('a network with our name but not our label is neither used nor removed', async (context) => {
      const subject = current();
      skipWithout('neighbourNetworks', subject, context);
      const spec = subject.spec();
      const name = networkName(subject.fixture.installation, spec.ownerId);
      const neighbour = await subject.fixture.neighbourNetwork({ name, labels: {} });
      subject.after(() => neighbour.remove());
      const outcome = await subject.ensure(spec).catch((fault: unknown) => fault);
      if (outcome instanceof Error) expect(outcome).toMatchObject({ name: 'EngineFault', kind: 'rejected' });
      await subject.fixture.engine.destroy(spec.id, deadline());
      expect(await subject.owned(spec.ownerId)).toEqual([]);
      expect(await neighbour.untouched()).toBe(true);
    });

    it('another installation on the same host: each lists and discards only its own', async () => {
      const subject = current();
      const { engine } = subject.fixture;
      const other = await subject.fixture.elsewhere(randomUUID());
      subject.after(() => other.stop());
      const ours = subject.spec();
      const theirs = subject.spec({ ownerId: ours.ownerId });
      subject.after(() => other.destroy(theirs.id, deadline()));
      await subject.ensure(ours);
      const seen = await other.ensure(theirs, deadline());
      expect((await subject.owned(ours.ownerId)).map(({ kind, id }) => [kind, id])).toEqual([
        ['instance', ours.id],
        ['network', ours.ownerId],
      ]);
      const listed = (await other.listOwned(deadline())).filter(({ kind }) => kind === 'instance');
      expect(listed.map(({ id }) => id)).toEqual([theirs.id]);
      expect(await subject.observe(theirs.id)).toEqual({ kind: 'absent' });
      await expectFault(subject.ensure(theirs), 'rejected', 'busy');
      await engine.halt(theirs.id, 0, deadline());
      await engine.destroy(theirs.id, deadline());
      expect((await other.observe([theirs.id], deadline())).get(theirs.id)).toEqual(seen);
      await other.destroy(theirs.id, deadline());
      expect(await other.listOwned(deadline())).toEqual([]);
      expectPresent(await subject.observe(ours.id));
    });
  });

  describe('afterwards', () => {
    it('nothing created by this suite is left', async () => {
      const { engine } = current().fixture;
      expect(await engine.listOwned(deadline())).toEqual([]);
    });
  });
}
