/** The Docker engine conforms to the engine contract: instances, and the host around them. */
import { describeConformance, partsAround } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, partsAround);
