/** The Docker engine conforms to the engine contract: instances, faults and ownership. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, 'instances');
