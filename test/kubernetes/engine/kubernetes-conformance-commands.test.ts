/** The Kubernetes engine conforms to the engine contract: commands inside an instance. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeKubernetesFixture } from './kubernetes-fixture.ts';

describeConformance('kubernetes', makeKubernetesFixture, 'commands');
