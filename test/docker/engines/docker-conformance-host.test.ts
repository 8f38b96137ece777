/** The Docker engine conforms to the engine contract: joined networks, and Docker inside. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, 'host');
