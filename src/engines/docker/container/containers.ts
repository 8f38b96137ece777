/**
 * # The life of an instance's container
 *
 * The name follows from the instance's id, and creation does not ask first: on "name taken" (409)
 * the existing container is inspected. So every half-done attempt is finished:
 *
 *     create ── created ──► start ──► inspect
 *        └── name taken ──► inspect ── not ours ────────────────────────────► rejected
 *                              ├────── running ─────────────────────────────► done
 *                              ├────── never ran, of another generation ────► remove, create
 *                              ├────── has run, with other node ports ──────► rejected
 *                              └────── else ────────────────────────────────► start ──► inspect
 *
 * Docker can't change published ports. A container that never ran is recreated; after a run the
 * root disk, and so the ports, stay: a taken port is then `busy` without `takenNodePort`. Rejected:
 * recreating from an image of the root disk. A start would copy gigabytes, add a layer each time,
 * and lose the disk in a crash between the halves.
 */
import type { ContainerInspectInfo } from 'dockerode';
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { makeSemaphore, type Semaphore } from '../../../async/semaphore.ts';
import { EngineFault } from '../../../domain/engine-fault.ts';
import { userId, type InstanceId } from '../../../domain/ids.ts';
import type { EngineSpec, Observation } from '../../contract.ts';
import { containerName, labels } from '../../labels.ts';
import type { AddressCache } from '../network/addresses.ts';
import type { Client } from '../client/client.ts';
import { abortFault, faultOf, isContainerGone, statusOf } from '../client/faults.ts';
import type { Host, HostFacts } from '../client/host.ts';
import type { Networks } from '../network/networks.ts';
import { inspectContainer, pollPause, removeContainer } from './container-calls.ts';
import type { ControlFiles } from './control-files.ts';
import { makeCreate } from './create.ts';
import { hasDocker, type DockerInside } from './docker-inside.ts';
import { makeGpuAllocator } from './gpus.ts';
import {
  generationOf,
  isOurs,
  isRemoving,
  isRunning,
  nodePortsOf,
  observationOf,
  samePorts,
  startedAtMs,
} from './observation.ts';
import { makeOutOfMemory } from './out-of-memory.ts';
import { makeStart, removedMeanwhile } from './start.ts';
import type { Tools } from './tools.ts';

/** A tenth faster than two; bare containers, without networks, gain nothing (`bench/burst.ts`). */
const STARTS_PER_CORE = 4;
/** Rounds of creation, 50 ms apart, while an invisible container holds the name. */
const MAX_ROUNDS = 40;

export interface Containers {
  /** Null when there is no container of ours. Throws when unknown. */
  find(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo | null>;
  /** Throws `not_found` when there is no container of ours. */
  get(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo>;
  observe(id: InstanceId, signal: AbortSignal): Promise<Observation>;
  ensure(spec: EngineSpec, signal: AbortSignal): Promise<Observation>;
  halt(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;
  destroy(id: InstanceId, signal: AbortSignal): Promise<void>;
  /** Removes the container of that name; the network stays. `rejected` for a foreign one. */
  discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void>;
  /** Holds the instance's mutex against create, start, removal. No abort stops a running `fn`. */
  exclusively<T>(id: InstanceId, signal: AbortSignal, fn: () => Promise<T>): Promise<T>;
  /** Marks the pause of a commit, during which the instance is observed as running. */
  whilePaused<T>(id: InstanceId, fn: () => Promise<T>): Promise<T>;
}

export interface ContainersDeps {
  client: Client;
  installation: string;
  host: Host;
  networks: Networks;
  files: ControlFiles;
  addresses: AddressCache;
  daemons: DockerInside;
  tools: Tools;
  onImageGone: (ref: string) => void;
}

export function makeContainers(deps: ContainersDeps): Containers {
  const { client, installation, networks, files, addresses, daemons } = deps;
  const outOfMemory = makeOutOfMemory(client);
  const mutex = makeKeyedMutex<InstanceId>({ abortError: abortFault });
  const paused = new Set<InstanceId>();

  const find: Containers['find'] = async (id, signal) => {
    const info = await inspectContainer(client, containerName(id), signal);
    return info !== null && isOurs(info.Config.Labels, installation, id) ? info : null;
  };

  async function observe(id: InstanceId, found: ContainerInspectInfo, signal: AbortSignal): Promise<Observation> {
    const info = paused.has(id) ? { ...found, State: { ...found.State, Paused: false } } : found;
    addresses.put(id, info);
    const [oom, docker] = await Promise.all([outOfMemory(info, signal), daemons.stateOf(id, info, signal)]);
    return observationOf(info, oom, docker);
  }

  const ensure = makeEnsure(deps);

  async function destroy(id: InstanceId, signal: AbortSignal): Promise<void> {
    addresses.delete(id);
    const info = await find(id, signal);
    if (info === null || hasDocker(info.Mounts)) await daemons.remove(id, 0, signal);
    if (info !== null) await removeContainer(client, info.Id, signal);
    await files.remove(id);
    const owner = info?.Config.Labels[labels.owner];
    if (owner === undefined) await networks.removeAllUnused(signal);
    else await networks.removeIfUnused(userId(owner), signal);
  }

  async function discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void> {
    const info = await inspectContainer(client, name, signal);
    if (info === null) return;
    if (!isOurs(info.Config.Labels, installation, id)) {
      const text = `the container ${name} is not an instance of this installation, so it is not removed`;
      throw new EngineFault('rejected', text, { retry: false });
    }
    addresses.delete(id);
    await removeContainer(client, info.Id, signal);
    if (name === containerName(id)) await files.remove(id);
  }

  return {
    find,
    async get(id, signal) {
      const info = await find(id, signal);
      if (info === null) throw new EngineFault('not_found', 'the instance has no container', { retry: false });
      return info;
    },
    async observe(id, signal) {
      const info = await find(id, signal);
      return info === null ? { kind: 'absent' } : observe(id, info, signal);
    },
    // Without the mutex, two calls would each take the other's half-made container for a leftover.
    ensure: (spec, signal) =>
      mutex.run(spec.id, async () => observe(spec.id, await ensure(spec, signal), signal), signal),
    async halt(id, graceMs, signal) {
      addresses.delete(id);
      const deadlineMs = performance.now() + graceMs;
      const info = await find(id, signal);
      // The daemon first, as it shares network and limits; its containers get half of the time.
      if (info !== null && hasDocker(info.Mounts)) await daemons.remove(id, graceMs / 2, signal);
      await files.removeSockets(id);
      if (info === null || !(info.State.Running || info.State.Restarting)) return;
      try {
        const t = Math.ceil(Math.max(0, deadlineMs - performance.now()) / 1000);
        await client.call(signal, (abortSignal) => client.docker.getContainer(info.Id).stop({ t, abortSignal }));
      } catch (error) {
        if (statusOf(error) !== 304 && !isContainerGone(error)) throw error;
      }
    },
    destroy: (id, signal) => mutex.run(id, () => destroy(id, signal), signal),
    discard: (name, id, signal) => mutex.run(id, () => discard(name, id, signal), signal),
    exclusively: (id, signal, fn) => mutex.run(id, fn, signal),
    async whilePaused(id, fn) {
      paused.add(id);
      try {
        return await fn();
      } finally {
        paused.delete(id);
      }
    },
  };
}

function makeEnsure(deps: ContainersDeps): (spec: EngineSpec, signal: AbortSignal) => Promise<ContainerInspectInfo> {
  const { client, installation, host, networks, files, daemons, tools } = deps;
  const gpus = makeGpuAllocator({ client, installation });
  const create = makeCreate({ ...deps, gpus });
  const start = makeStart({ client, installation, networks });
  let starts: Semaphore | undefined;

  async function createAndStart(
    spec: EngineSpec,
    network: string,
    facts: HostFacts,
    signal: AbortSignal,
  ): Promise<string | ContainerInspectInfo> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const created = await create(spec, network, facts, signal);
      if (created !== null) {
        await start(created, spec, { hasRun: false }, signal);
        return created;
      }
      const info = await inspectContainer(client, containerName(spec.id), signal);
      if (info === null) {
        // Being removed, or created: an aborted create goes on in the engine, invisible at first.
        await pollPause(client, signal);
        continue;
      }
      if (!isOurs(info.Config.Labels, installation, spec.id)) {
        const text = `a container called ${containerName(spec.id)} is on the host and not of this installation; the operator has to remove it`;
        throw new EngineFault('rejected', text, { retry: false, reason: 'nameTaken' });
      }
      if (isRunning(info.State)) return info;
      const hasRun = startedAtMs(info.State) > 0;
      const portsFit = samePorts(nodePortsOf(info), spec.nodePorts);
      const isOfSpec = portsFit && generationOf(info.Config.Labels) === spec.generation;
      if (isRemoving(info.State) || (!hasRun && !isOfSpec)) {
        await removeContainer(client, info.Id, signal);
        continue;
      }
      if (!portsFit) {
        const has = nodePortsOf(info).map(({ nodePort }) => nodePort);
        const text = `an instance that has run keeps its node ports (${has.join(', ')}); start it with these, or launch another`;
        throw new EngineFault('rejected', text, { retry: false });
      }
      await resume(info, spec, facts, signal);
      return info.Id;
    }
    throw removedMeanwhile();
  }

  async function resume(
    info: ContainerInspectInfo,
    spec: EngineSpec,
    facts: HostFacts,
    signal: AbortSignal,
  ): Promise<void> {
    if (info.State.Paused) {
      const request = { abortSignal: signal };
      await client.call(signal, () => client.docker.getContainer(info.Id).unpause(request));
      return;
    }
    await gpus.checkFree(info, facts, signal);
    await daemons.clear(spec, signal);
    await files.removeSockets(spec.id);
    await tools.folder();
    await start(info.Id, spec, { hasRun: startedAtMs(info.State) > 0 }, signal);
  }

  return async (spec, signal) => {
    const facts = await host.facts(signal);
    const permits = STARTS_PER_CORE * facts.cores;
    const semaphore = (starts ??= makeSemaphore(permits, { abortError: abortFault }));
    if (signal.aborted) throw faultOf(signal.reason);
    await files.write(spec.id, spec.files);
    const found = await networks.use(spec.ownerId, signal, (network) =>
      semaphore.run(() => createAndStart(spec, network, facts, signal), { signal }),
    );
    const info = typeof found === 'string' ? await inspectContainer(client, found, signal) : found;
    if (info === null) throw removedMeanwhile();
    await daemons.ensure(spec, info, signal);
    tools.prepare();
    return info;
  };
}
