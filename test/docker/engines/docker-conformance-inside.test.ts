/** The Docker engine conforms to the engine contract: files and logs inside an instance. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, 'inside');
