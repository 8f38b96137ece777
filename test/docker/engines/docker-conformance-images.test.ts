/** The Docker engine conforms to the engine contract: images. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeDockerFixture } from './docker-fixture.ts';

describeConformance('docker', makeDockerFixture, 'images');
