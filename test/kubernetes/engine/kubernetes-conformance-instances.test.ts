/** The Kubernetes engine conforms to the engine contract: instances, faults and ownership. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeKubernetesFixture } from './kubernetes-fixture.ts';

describeConformance('kubernetes', makeKubernetesFixture, 'instances');
