/** The Kubernetes engine conforms to the engine contract: files and logs inside an instance. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeKubernetesFixture } from './kubernetes-fixture.ts';

describeConformance('kubernetes', makeKubernetesFixture, 'inside');
