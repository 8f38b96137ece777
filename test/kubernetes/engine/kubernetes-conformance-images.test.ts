/** The Kubernetes engine conforms to the engine contract: images. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeKubernetesFixture } from './kubernetes-fixture.ts';

describeConformance('kubernetes', makeKubernetesFixture, 'images');
