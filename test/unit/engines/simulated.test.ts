/** The simulated engine: conformance, and its promises as an emulator. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { containerName } from '../../../src/engines/labels.ts';
import type { Capabilities } from '../../../src/engines/contract.ts';
import { SimulatedHost } from '../../../src/engines/simulated/host.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { describeConformance, type Fixture } from '../../conformance/engine.ts';
import { makeFreeClock } from '../../fixtures/auto-clock.ts';
import { freePort } from '../../fixtures/free-port.ts';

const clusterLike: Partial<Capabilities> = {
  keepsRootDisk: false,
  whyNoRootDisk: 'the simulated Pod ends',
  saveImage: false,
  whyNoSaveImage: 'the simulated Pod ends',
  dockerInside: false,
  whyNoDocker: 'the simulated Pod has no rights',
  joinNetwork: false,
  whyNoJoinNetwork: 'the simulated Pod is elsewhere',
  listenUnix: false,
  whyNoListenUnix: 'the simulated Pod is elsewhere',
};
const lackedByClusters = {
  rootDisk: 'a capability that it lacks',
  saveImage: 'a capability that it lacks',
  dockerInside: 'a capability that it lacks',
  joinNetwork: 'a capability that it lacks',
  listenUnix: 'a capability that it lacks',
};

async function makeFixture(publishPorts: boolean, capabilities: Partial<Capabilities> = {}): Promise<Fixture> {
  const installation = randomUUID();
  const clock = makeFreeClock();
  const host = new SimulatedHost({ publishPorts, clock });
  const engine = makeSimulatedEngine({ installation, host, capabilities });
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-simulated-'));
  return {
    engine,
    time: { now: clock.now, sleep: (ms) => clock.sleep(ms, new AbortController().signal), slackMs: 0 },
    installation,
    imageRef: 'registry.example/tiny:1',
    missingImageRef: 'missing.invalid/none:1',
    nodePortAddress: '127.0.0.1',
    releaseNodePort: freePort,
    hostFolder: () => mkdtemp(path.join(folder, 'mount-')),
    mountSource: async (source) => source,
    engineName: containerName,
    again: async () => makeSimulatedEngine({ installation, host, capabilities }),
    elsewhere: async (other) => makeSimulatedEngine({ installation: other, host, capabilities }),
    async unreachable() {
      const away = makeSimulatedEngine({ installation });
      away.host.goAway(Infinity);
      return away;
    },
    async neighbour({ name }) {
      host.foreignNames.add(name);
      return {
        untouched: async () => host.foreignNames.has(name),
        remove: async () => void host.foreignNames.delete(name),
      };
    },
    neighbourNetwork: () => Promise.reject(new Error('networks of the simulation have no names')),
    neighbourImage: () => Promise.reject(new Error('images of the simulation have no labels')),
    registries: async () => ({
      open: 'registry.example',
      closed: 'private.invalid',
      credentials: { username: 'berth', secret: 'harbour' },
      wrongCredentials: { username: 'berth', secret: 'wrong' },
    }),
    leaveHalfMade: async (spec) => engine.leaveHalfMade(spec),
    stopOutside: (id) => host.crash(id),
    async connectUnix(id, pathInside) {
      const container = host.find(installation, id);
      const connection = container && host.connectUnix(container, pathInside);
      if (connection === undefined) throw new Error(`nothing listens at ${pathInside}`);
      return connection;
    },
    loseDocker: async (id) => host.setDocker(id, 'stopped'),
    dropImage: async (ref) => host.dropImage(ref),
    generationFollows: 'ensure',
    lacks: {
      shell: 'the simulation runs no scripts, it pretends single commands',
      neighbourNetworks: 'an account’s network is there while it has containers, and is no object of its own',
      neighbourImages: 'it knows of an image who saved it, and no labels',
      ...(capabilities === clusterLike ? lackedByClusters : {}),
      ...(publishPorts ? {} : { publishedPorts: 'this simulation publishes no ports' }),
    },
    async stop() {
      await host.stop();
      await rm(folder, { recursive: true });
    },
  };
}

describeConformance('simulated', () => makeFixture(true));
describeConformance('simulated, no ports published', () => makeFixture(false));
describeConformance('simulated, with what a cluster lacks', () => makeFixture(true, clusterLike));
