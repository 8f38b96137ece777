/** The Kubernetes engine conforms to the engine contract: joined networks and the host. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeKubernetesFixture } from './kubernetes-fixture.ts';

describeConformance('kubernetes', () => makeKubernetesFixture({ joinsNetworks: true }), 'host');
