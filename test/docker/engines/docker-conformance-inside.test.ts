/** The Docker engine conforms to the engine contract: what runs inside an instance. */
import { describeConformance, partsInside } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, partsInside);
