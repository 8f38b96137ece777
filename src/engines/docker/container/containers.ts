/**
 * # The life of an instance's container
 *
 * Made under a name that follows from the id, without asking first whether it is there: the engine
 * says "name taken" (409) and then it is looked at. So a fresh instance costs create, start and
 * inspect, and whatever was half done is finished:
 *
 *     create ── made ──► start ──► inspect
 *        └── name taken ──► inspect ── not ours ──────────────────────────────► rejected
 *                              ├────── runs ────────────────────────────────────► done
 *                              ├────── never ran, and made for another wish ───► remove, create
 *                              ├────── has run, with other node ports ─────────► rejected
 *                              └────── else ────────────────────────────────────► start ──► inspect
 *
 * Docker can't change the published ports of a container. One that never ran is made anew. One that
 * has run keeps its root disk, so its ports stay what they are: a port of it that is taken at a
 * later start is said as `busy` without `takenNodePort` (another port would not help), and it
 * starts again as soon as the port is free. Copying the root disk into an image and making the
 * container anew from it was weighed and left: gigabytes to copy under a start's deadline, twice
 * the disk, one more layer each time, and between the two halves a crash would cost the disk.
 */
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { makeSemaphore, type Semaphore } from '../../../async/semaphore.ts';
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import { userId, type InstanceId } from '../../../domain/ids.ts';
import type { EngineSpec, Observation } from '../../contract.ts';
import { containerName, labels, networkName } from '../../labels.ts';
import type { AddressCache } from '../network/addresses.ts';
import type { Client } from '../client/client.ts';
import type { ControlFiles } from './control-files.ts';
import { chooseGpus, createOptions, gpuLabel, gpusOf } from './create-options.ts';
import {
  abortFault,
  faultOf,
  isContainerGone,
  isImageGone,
  isUntracked,
  isNameTaken,
  isNetworkGone,
  sentenceOf,
  statusOf,
  portTakenText,
  takenPort,
} from '../client/faults.ts';
import { hasDocker, type DockerInside } from './docker-inside.ts';
import type { Host, HostFacts } from '../client/host.ts';
import type { Networks } from '../network/networks.ts';
import {
  generationOf,
  isRemoving,
  isOurs,
  isRunning,
  nodePortsOf,
  observationOf,
  samePorts,
  startedAtMs,
} from './observation.ts';
import { makeOutOfMemory } from './out-of-memory.ts';
import type { Tools } from './tools.ts';

const STARTS_FOR_EACH_CORE = 4;
const PAUSE_MS = 50;
/** Together with the pause: how long a name may be taken by what can't be seen. */
const ROUNDS = 40;

export interface Containers {
  /** Null when there is none of ours. Throws when it can't be told. */
  find(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo | null>;
  /** The same, and `not_found` when there is none. */
  get(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo>;
  /** Throws when it can't be told. */
  observe(id: InstanceId, signal: AbortSignal): Promise<Observation>;
  ensure(spec: EngineSpec, signal: AbortSignal): Promise<Observation>;
  halt(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;
  destroy(id: InstanceId, signal: AbortSignal): Promise<void>;
  /**
   * The container of that name and id alone; the account's network stays. `rejected` when it is not
   * ours.
   */
  discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void>;
  /**
   * While nobody else makes, starts or removes it. Once begun, `work` is not called off by the
   * signal.
   */
  alone<T>(id: InstanceId, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /**
   * It stands still during `work`, at the wish of whoever works: so it is observed as running all
   * the same.
   */
  whileStill<T>(id: InstanceId, work: () => Promise<T>): Promise<T>;
}

export function makeContainers(options: {
  client: Client;
  installation: string;
  host: Host;
  networks: Networks;
  files: ControlFiles;
  addresses: AddressCache;
  inside: DockerInside;
  tools: Tools;
  /** Told when the engine says that an image is gone after all. */
  onImageGone: (ref: string) => void;
}): Containers {
  const { client, installation, host, networks, files, addresses, inside, tools } = options;
  const { docker, call } = client;
  const outOfMemory = makeOutOfMemory(client);
  /**
   * Bare containers start no faster at more than two for each core; with networks, node ports and
   * software that starts in them, four for each core still gain a tenth (`bench/burst.ts`). More
   * only wait longer.
   */
  let startSemaphore: Semaphore | undefined;
  const mutex = makeKeyedMutex<InstanceId>({ abortError: abortFault });
  const still = new Set<InstanceId>();
  /** GPUs are chosen and given (by the create) by one at a time. */
  const gpuSemaphore = makeSemaphore(1, { abortError: abortFault });

  const inspect = async (nameOrId: string, signal: AbortSignal): Promise<ContainerInspectInfo | null> => {
    try {
      return await call(signal, (abortSignal) => docker.getContainer(nameOrId).inspect({ abortSignal }));
    } catch (error) {
      if (isContainerGone(error)) return null;
      throw error;
    }
  };

  const find: Containers['find'] = async (id, signal) => {
    const info = await inspect(containerName(id), signal);
    return info !== null && isOurs(info.Config.Labels, installation, id) ? info : null;
  };

  async function see(id: InstanceId, found: ContainerInspectInfo, signal: AbortSignal): Promise<Observation> {
    const info = still.has(id) ? { ...found, State: { ...found.State, Paused: false } } : found;
    addresses.put(id, info);
    const [ranOut, docker] = await Promise.all([outOfMemory(info, signal), inside.stateOf(id, info, signal)]);
    return observationOf(info, ranOut, docker);
  }

  async function ensure(spec: EngineSpec, signal: AbortSignal): Promise<Observation> {
    const facts = await host.facts(signal);
    const semaphore = (startSemaphore ??= makeSemaphore(STARTS_FOR_EACH_CORE * facts.cores, {
      abortError: abortFault,
    }));
    if (signal.aborted) throw faultOf(signal.reason);
    await files.write(spec.id, spec.files);
    const found = await networks.use(spec.ownerId, signal, (network) =>
      semaphore.run(() => createAndStart(spec, network, facts, signal), { signal }),
    );
    const info = typeof found === 'string' ? await inspect(found, signal) : found;
    if (info === null) throw goneMeanwhile();
    await inside.ensure(spec, info, signal);
    tools.prepare();
    return see(spec.id, info, signal);
  }

  /** Answers the container's id when it was started, all of it when it ran already. */
  async function createAndStart(
    spec: EngineSpec,
    network: string,
    facts: HostFacts,
    signal: AbortSignal,
  ): Promise<string | ContainerInspectInfo> {
    for (let round = 0; round < ROUNDS; round++) {
      const made = await create(spec, network, facts, signal);
      if (made !== null) {
        await start(made, spec, { hasRun: false }, signal);
        return made;
      }
      const info = await inspect(containerName(spec.id), signal);
      if (info === null) {
        // On its way out, or in: a create whose caller gave up goes on in the engine, and holds the
        // name before it can be seen.
        await pause(signal);
        continue;
      }
      if (!isOurs(info.Config.Labels, installation, spec.id)) {
        const text = `a container called ${containerName(spec.id)} is on the host and not of this installation; the operator has to remove it`;
        throw new EngineFault('rejected', text, { retry: false, reason: 'nameTaken' });
      }
      if (isRunning(info.State)) return info;
      const hasRun = startedAtMs(info.State) > 0;
      const portsFit = samePorts(nodePortsOf(info), spec.nodePorts);
      const madeForThis = portsFit && generationOf(info.Config.Labels) === spec.generation;
      if (isRemoving(info.State) || (!hasRun && !madeForThis)) {
        await remove(info.Id, signal);
        continue;
      }
      if (!portsFit) {
        const has = nodePortsOf(info).map(({ nodePort }) => nodePort);
        const text = `an instance that has run keeps its node ports (${has.join(', ')}); start it with these, or launch another`;
        throw new EngineFault('rejected', text, { retry: false });
      }
      if (info.State.Paused) {
        const request = { abortSignal: signal };
        await call(signal, () => docker.getContainer(info.Id).unpause(request));
      } else {
        await ensureGpusFree(info, facts, signal);
        await inside.clear(spec, signal);
        await files.removeSockets(spec.id);
        await tools.folder();
        await start(info.Id, spec, { hasRun }, signal);
      }
      return info.Id;
    }
    throw goneMeanwhile();
  }

  /** Null when the name is taken. */
  async function create(
    spec: EngineSpec,
    network: string,
    facts: HostFacts,
    signal: AbortSignal,
    mayRestore = true,
  ): Promise<string | null> {
    if (client.local) await refuseFiles(spec.mounts);
    const dockerSocketFolder = await inside.prepare(spec, signal);
    const toolsFolder = await tools.folder();
    const withGpus = async (gpuIds: readonly string[]): Promise<string | null> => {
      const request = createOptions(spec, {
        installation,
        network,
        controlFolder: files.folder(spec.id),
        toolsFolder,
        dockerSocketFolder,
        gpuIds,
        host: facts,
      });
      const container = await call(signal, (abortSignal) => docker.createContainer({ ...request, abortSignal }));
      return container.id;
    };
    try {
      if (spec.gpus === 0) return await withGpus([]);
      return await gpuSemaphore.run(async () => {
        const devices = facts.gpus.map(({ id }) => id);
        if (devices.length < spec.gpus) {
          const text = `it needs ${spec.gpus} GPUs, and the host has ${devices.length}; choose a type with fewer`;
          throw new EngineFault('rejected', text, { retry: false, reason: 'gpuMissing' });
        }
        const chosen = chooseGpus(spec.gpus, devices, await gpuHolders(signal));
        if (chosen === null) throw gpusTaken();
        return withGpus(chosen);
      });
    } catch (error) {
      if (isNameTaken(error)) return null;
      if (isImageGone(error)) options.onImageGone(spec.imageRef);
      if (!mayRestore || !isNetworkGone(error)) throw error;
      await networks.restore(spec.ownerId, signal);
      return create(spec, network, facts, signal, false);
    }
  }

  async function start(
    id: string,
    spec: EngineSpec,
    { hasRun }: { hasRun: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const once = (): Promise<unknown> => call(signal, (abortSignal) => docker.getContainer(id).start({ abortSignal }));
    try {
      await once().catch(async (error: unknown) => {
        if (!isNetworkGone(error)) throw error;
        await networks.restore(spec.ownerId, signal);
        await rejoin(id, networkName(installation, spec.ownerId), signal);
        return once();
      });
    } catch (error) {
      if (statusOf(error) === 304) return; // it runs already
      if (isContainerGone(error)) throw goneMeanwhile();
      if (isUntracked(error)) throw await lostSight(id, { hasRun }, signal);
      const taken = takenPort(
        error,
        spec.nodePorts.map(({ nodePort }) => nodePort),
      );
      if (taken === null) throw error;
      const text = portTakenText(taken, error);
      const told = { retry: true, reason: 'portTaken', cause: error } as const;
      throw hasRun
        ? new EngineFault(
            'busy',
            `${text}; an instance that has run keeps its ports, and starts when the port is free`,
            told,
          )
        : new EngineFault('busy', text, { ...told, takenNodePort: taken });
    }
  }

  /**
   * One without a past is made anew. A root disk that is worth something waits until somebody has
   * ended that process.
   */
  async function lostSight(id: string, { hasRun }: { hasRun: boolean }, signal: AbortSignal): Promise<EngineFault> {
    if (!hasRun) {
      await remove(id, signal);
      return goneMeanwhile();
    }
    const text = `the engine was killed and has lost sight of a process of container ${id.slice(0, 12)}; the operator has to end it, or to restart the host`;
    return new EngineFault('unreachable', text, { retry: true });
  }

  /**
   * A container keeps the id of the network it was made with, and a network made again has another.
   */
  async function rejoin(id: string, network: string, signal: AbortSignal): Promise<void> {
    const leave = { Container: id, Force: true, abortSignal: signal };
    await call(signal, () => docker.getNetwork(network).disconnect(leave)).catch(() => {}); // it is in none: so much the better
    const join = { Container: id, abortSignal: signal };
    await call(signal, () => docker.getNetwork(network).connect(join));
  }

  async function gpuHolders(signal: AbortSignal): Promise<{ name: string; ids: string[]; running: boolean }[]> {
    const filters = { label: [`${labels.installation}=${installation}`, gpuLabel] };
    const all = await call(signal, (abortSignal) => docker.listContainers({ all: true, filters, abortSignal }));
    return all.map(({ Id, Labels, State }) => ({
      name: Id,
      ids: gpusOf(Labels),
      running: State === 'running',
    }));
  }

  /**
   * A stopped container's GPUs may have been given to another one, and Docker can't give it others.
   */
  async function ensureGpusFree(info: ContainerInspectInfo, facts: HostFacts, signal: AbortSignal): Promise<void> {
    const mine = gpusOf(info.Config.Labels);
    if (mine.length === 0 || facts.gpuDriver === null) return;
    const others = (await gpuHolders(signal))
      .filter(({ name, running }) => running && name !== info.Id)
      .flatMap(({ ids }) => ids);
    if (mine.some((id) => others.includes(id))) throw gpusTaken();
  }

  const pause = (signal: AbortSignal): Promise<void> =>
    call(signal, (abortSignal) => sleep(PAUSE_MS, undefined, { signal: abortSignal }));

  async function remove(id: string, signal: AbortSignal): Promise<void> {
    const request = { force: true, v: true, abortSignal: signal };
    for (;;) {
      try {
        await call(signal, () => docker.getContainer(id).remove(request));
        return;
      } catch (error) {
        if (isContainerGone(error)) return;
        if (statusOf(error) !== 409 || !/already in progress/i.test(sentenceOf(error))) throw error;
      }
      // Somebody else removes it; the engine has no better way to wait for that which all versions
      // know.
      await pause(signal);
    }
  }

  async function destroy(id: InstanceId, signal: AbortSignal): Promise<void> {
    addresses.delete(id);
    const info = await find(id, signal);
    if (info === null || hasDocker(info.Mounts)) await inside.remove(id, 0, signal);
    if (info !== null) await remove(info.Id, signal);
    await files.remove(id);
    const owner = info?.Config.Labels[labels.owner];
    if (owner === undefined) await networks.removeAllUnused(signal);
    else await networks.removeIfUnused(userId(owner), signal);
  }

  async function discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void> {
    const info = await inspect(name, signal);
    if (info === null) return;
    if (!isOurs(info.Config.Labels, installation, id)) {
      const text = `the container ${name} is not an instance of this installation, so it is not removed`;
      throw new EngineFault('rejected', text, { retry: false });
    }
    addresses.delete(id);
    await remove(info.Id, signal);
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
      return info === null ? { kind: 'absent' } : see(id, info, signal);
    },
    // One id at a time: two at once would take each other's half-made container for a leftover.
    ensure: (spec, signal) => mutex.run(spec.id, () => ensure(spec, signal), signal),
    async halt(id, graceMs, signal) {
      addresses.delete(id);
      const untilMs = performance.now() + graceMs;
      const info = await find(id, signal);
      // First, as it is in the instance's network and under its limits. Its containers may have
      // half of the time.
      if (info !== null && hasDocker(info.Mounts)) await inside.remove(id, graceMs / 2, signal);
      await files.removeSockets(id);
      if (info === null || !(info.State.Running || info.State.Restarting)) return;
      try {
        const t = Math.ceil(Math.max(0, untilMs - performance.now()) / 1000);
        await call(signal, (abortSignal) => docker.getContainer(info.Id).stop({ t, abortSignal }));
      } catch (error) {
        if (statusOf(error) !== 304 && !isContainerGone(error)) throw error;
      }
    },
    destroy: (id, signal) => mutex.run(id, () => destroy(id, signal), signal),
    discard: (name, id, signal) => mutex.run(id, () => discard(name, id, signal), signal),
    alone: (id, signal, work) => mutex.run(id, work, signal),
    async whileStill(id, work) {
      still.add(id);
      try {
        return await work();
      } finally {
        still.delete(id);
      }
    },
  };
}

/**
 * A file would be mounted without a word where the image has nothing. One that is missing is told
 * by the engine.
 */
async function refuseFiles(mounts: EngineSpec['mounts']): Promise<void> {
  for (const { source, target } of mounts) {
    const found = await stat(source).catch(() => null);
    if (found === null || found.isDirectory()) continue;
    const text = `what is to be mounted at ${target} is no folder on the host; the operator has to look at it`;
    throw new EngineFault('rejected', text, { retry: true, reason: 'badMount' });
  }
}

const goneMeanwhile = (): EngineFault =>
  new EngineFault('busy', 'the container went away while it was started; it is tried again', { retry: true });

const gpusTaken = (): EngineFault =>
  new EngineFault('no_capacity', 'the GPUs it needs are used by other instances at the moment', {
    retry: true,
    reason: 'gpuBusy',
  });
