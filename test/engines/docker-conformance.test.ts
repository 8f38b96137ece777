/** Docker holds the engine contract. */
import { describeConformance } from './conformance.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture);
