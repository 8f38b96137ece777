/** A Docker engine on another host, over TLS, conforms to the engine contract. */
import { describeConformance } from '../../conformance/engine.ts';
import { makeRemoteFixture, startRemoteEngine } from './remote-engine.ts';

describeConformance('docker on another host', () => makeRemoteFixture(startRemoteEngine));
