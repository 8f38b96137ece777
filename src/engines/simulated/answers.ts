/** What a simulated engine answers, made of what its host holds. */
import type { Capabilities, EngineSpec, Observation, Owned, Probe, Usage } from '../contract.ts';
import { containerName, networkName } from '../labels.ts';
import { addressOf, type Container } from './container.ts';
import type { SimulatedHost } from './host.ts';

/** All instances in all states, and the networks that their accounts have for as long as one is left. */
export function ownedBy(host: SimulatedHost, installation: string): Owned[] {
  const instances: Owned[] = [];
  const owners = new Set<EngineSpec['ownerId']>();
  for (const { spec, state } of host.all(installation)) {
    const { id, ownerId, generation } = spec;
    owners.add(ownerId);
    instances.push({
      kind: 'instance',
      id,
      ownerId,
      generation,
      running: state === 'running',
      engineName: containerName(id),
    });
  }
  const networks = [...owners].map((ownerId): Owned => {
    const engineName = networkName(installation, ownerId);
    return { kind: 'network', id: ownerId, ownerId, generation: 0, running: true, engineName };
  });
  return [...instances, ...networks];
}

/** So that what the caller changes later in what it handed over changes nothing here. */
export const copyOf = (spec: EngineSpec): EngineSpec => ({
  ...spec,
  mounts: spec.mounts.map((mount) => ({ ...mount })),
  nodePorts: spec.nodePorts.map((pair) => ({ ...pair })),
  files: spec.files.map((file) => ({ ...file })),
});

/** A host may be said to have a million GPUs; nobody wants to read them. */
const listedDevices = 16;

export function probeOf({ capacity }: SimulatedHost, architecture: string, capabilities: Capabilities): Probe {
  const devices = Array.from({ length: Math.min(capacity.gpus, listedDevices) }, (_, index) => ({
    kind: 'gpu' as const,
    name: 'Simulated GPU',
    id: `gpu-${index}`,
  }));
  return {
    version: 'simulation 1',
    capacity: { ...capacity },
    devices,
    architecture,
    capabilities: { ...capabilities },
  };
}

export const lieOf = ({ clock }: SimulatedHost): Observation => ({
  kind: 'present',
  generation: 1,
  running: true,
  exitCode: null,
  outOfMemory: false,
  startedAtMs: clock.now(),
  nodePorts: [],
});

/** A little load, drawn anew each time. */
export function usageOf({ random }: SimulatedHost, container: Container | undefined): Usage | undefined {
  if (container === undefined) return undefined;
  const { state, spec, rootDisk } = container;
  const share = state === 'running' ? 0.02 + 0.05 * random() : 0;
  return {
    cpuMilli: Math.round(spec.cpuMilli * share),
    memoryBytes: Math.round(spec.memoryMiB * 1024 * 1024 * share),
    rootDiskBytes: 4096 * (1 + rootDisk.size),
  };
}

/** Within the account's network: what listens at that address. */
export function reachable(host: SimulatedHost, from: Container, address: string, port: number): boolean {
  for (const other of host.all(from.installation)) {
    if (other.spec.ownerId !== from.spec.ownerId || addressOf(other) !== address) continue;
    const stream = host.connect(other, port);
    stream?.destroy();
    return stream !== undefined;
  }
  return false;
}
