/** The Docker engine conforms to the engine contract: networks and node ports. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, 'network');
