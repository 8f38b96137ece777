/** The Docker engine conforms to the engine contract: networks, the host, and Docker inside. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, 'network');
