/** The Kubernetes engine conforms to the engine contract: networks and node ports. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeKubernetesFixture } from './kubernetes-fixture.ts';

describeConformance('kubernetes', makeKubernetesFixture, 'network');
