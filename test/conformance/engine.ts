/**
 * # The conformance suite of engines
 *
 * Holds an engine to the prose of `src/engines/contract.ts`, verb by verb. An engine's own test file says
 *
 *     describeConformance('docker', async () => makeDockerFixture());
 *
 * and its fixture (`conformance/fixture.ts`) lends the suite what the contract can't: neighbours, a free node port, a way to stop
 * an instance behind the engine's back. What an engine can't do is said in `fixture.lacks`, with the reason; the test is then
 * skipped by name and shows that reason. What the suite makes it destroys, and the last test sees that nothing was left.
 *
 * It speaks to the inside of an instance in plain argument lists (`cat`, `touch`, `ls`, `stat`, `head`, `nc`, `hostname`, `sleep`,
 * `env`, `stty size`; `sh` with lines of these and `echo`), so that
 * a busybox image will do, and so that the simulation can pretend them; only tests that need `shell` give real scripts.
 */
import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import type { Fixture } from './fixture.ts';
import { describeDockerInside } from './docker-inside.ts';
import { describeOpenExec } from './exec.ts';
import { describeFaults } from './faults.ts';
import { describeImages } from './images.ts';
import { describeInside } from './inside.ts';
import { describeJoining } from './join-network.ts';
import { describeLifecycle } from './lifecycle.ts';
import { describeLogs } from './logs.ts';
import { describeNetwork } from './network.ts';
import { describeOwnership } from './ownership.ts';
import { describeSurroundings } from './engine-host.ts';
import { deadline, makeSubject, type Subject } from './subject.ts';

export type { Fixture, Neighbour } from './fixture.ts';

export function describeConformance(name: string, makeFixture: () => Promise<Fixture>): void {
  describe(`engine conformance: ${name}`, () => {
    let subject: Subject | undefined;
    const current = (): Subject => {
      if (subject === undefined) throw new Error('the fixture was not made');
      return subject;
    };
    beforeAll(async () => {
      const fixture = await makeFixture();
      await fixture.engine.ensureImage(fixture.imageRef, () => {}, deadline());
      subject = makeSubject(fixture);
    });
    afterEach(async () => {
      await subject?.clear();
    });
    afterAll(async () => {
      await subject?.fixture.engine.stop();
      await subject?.fixture.stop();
    });
    describeLifecycle(current);
    describeInside(current);
    describeOpenExec(current);
    describeLogs(current);
    describeNetwork(current);
    describeJoining(current);
    describeFaults(current);
    describeImages(current);
    describeSurroundings(current);
    describeOwnership(current);
    describeDockerInside(current);
  });
}
