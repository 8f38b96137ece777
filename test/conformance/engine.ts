/**
 * # Conformance suite of engines
 *
 * Holds an engine to the prose of `src/engines/contract.ts`, verb by verb. An engine's test file
 * says
 *
 *     describeConformance('docker', async () => makeDockerFixture());
 *
 * The fixture (`conformance/fixture.ts`) provides what the contract lacks: foreign objects, a free
 * node port, a way to stop an instance from outside. `fixture.lacks` names missing features with
 * the reason; their tests are skipped with that reason. The suite destroys its objects, and the
 * last test checks for leftovers.
 *
 * Commands inside an instance are plain argument lists (`cat`, `touch`, `ls`, `stat`, `head`, `nc`,
 * `hostname`, `sleep`, `env`, `stty size`; `sh` with these and `echo`), for busybox images and the
 * simulated engine. Only tests that need `shell` use real scripts.
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

export type { Fixture } from './fixture.ts';

type Part = (current: () => Subject) => void;

/** A slow engine runs each group in a test file of its own. */
export const conformanceGroups = {
  instances: [describeLifecycle, describeFaults, describeOwnership],
  inside: [describeInside, describeLogs],
  commands: [describeOpenExec],
  network: [describeNetwork],
  host: [describeJoining, describeSurroundings, describeDockerInside],
  images: [describeImages],
} satisfies Record<string, readonly Part[]>;
export type ConformanceGroup = keyof typeof conformanceGroups;

/** Describes one group, or all. */
export function describeConformance(name: string, makeFixture: () => Promise<Fixture>, group?: ConformanceGroup): void {
  const parts: readonly Part[] = group ? conformanceGroups[group] : Object.values(conformanceGroups).flat();
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
    for (const describePart of parts) describePart(current);
  });
}
