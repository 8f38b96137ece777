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
 * Docker can't change published ports, mounts or devices. A container that never ran is recreated;
 * after a run the root disk, and so the ports, stay: a taken port is then `busy` without
 * `takenNodePort`. Limits of CPU, memory and processes follow the spec at each start. For other
 * changes the caller saves the root disk, destroys, and calls `ensure` with the saved image.
 */
import type { ContainerInspectInfo } from 'dockerode';
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { userId, type InstanceId } from '../../../domain/kernel/ids.ts';
import type { Engine, Observation } from '../../contract.ts';
import { containerName, installationLabel, labels } from '../../labels.ts';
import type { AddressCache } from '../network/addresses.ts';
import type { SpareProcesses } from '../exec/spare-processes.ts';
import { abortFault, faultOf, isContainerGone, statusOf } from '../../../docker/faults.ts';
import { inspectContainer, listContainers, removeContainer } from './container-calls.ts';
import { hasDocker } from './docker-inside.ts';
import { makeEnsure, type EnsureDeps } from './ensure.ts';
import { isOurs, makeOutOfMemory, observationOf } from './observation.ts';

/** More inspects at once are no faster. */
const INSPECTS_AT_ONCE = 8;
/** Number of instances from which one list finds the absent ones first. */
const LIST_FROM = 4;

export interface Containers extends Pick<Engine, 'observe' | 'ensure' | 'halt' | 'destroy'> {
  /** Null when there is no container of ours. Throws when unknown. */
  find(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo | null>;
  /** Throws `not_found` when there is no container of ours. */
  get(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo>;
  /** Removes the container of that name; the network stays. `rejected` for a foreign one. */
  discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void>;
  /** Holds the instance's mutex against create, start, removal. No abort stops a running `fn`. */
  exclusively<T>(id: InstanceId, signal: AbortSignal, fn: () => Promise<T>): Promise<T>;
  /** Marks the pause of a commit, during which the instance is observed as running. */
  whilePaused<T>(id: InstanceId, fn: () => Promise<T>): Promise<T>;
}

export function makeContainers(deps: EnsureDeps & { addresses: AddressCache; spare: SpareProcesses }): Containers {
  const { client, installation, networks, files, addresses, daemons, spare, processors } = deps;
  const outOfMemory = makeOutOfMemory(client);
  const mutex = makeKeyedMutex<InstanceId>({ abortError: abortFault });
  const inspects = makeSemaphore(INSPECTS_AT_ONCE, { abortError: abortFault });
  const paused = new Set<InstanceId>();

  async function listNames(signal: AbortSignal): Promise<Set<string>> {
    const all = await listContainers(client, [installationLabel(installation)], signal);
    return new Set(all.flatMap(({ Names }) => Names.map((name) => name.replace(/^\//, ''))));
  }

  const find: Containers['find'] = async (id, signal) => {
    const info = await inspectContainer(client, containerName(id), signal);
    return info !== null && isOurs(info.Config.Labels, installation, id) ? info : null;
  };

  async function read(id: InstanceId, found: ContainerInspectInfo, signal: AbortSignal): Promise<Observation> {
    const info = paused.has(id) ? { ...found, State: { ...found.State, Paused: false } } : found;
    addresses.put(id, info);
    processors.observe(id, info);
    const [oom, docker] = await Promise.all([
      outOfMemory(info, signal),
      daemons.stateOf(id, info, signal),
      spare.restore(info),
    ]);
    return observationOf(info, oom, docker);
  }

  async function observeOne(id: InstanceId, signal: AbortSignal): Promise<Observation> {
    const info = await find(id, signal);
    if (info !== null) return read(id, info, signal);
    processors.observe(id, null);
    return { kind: 'absent' };
  }

  const ensure = makeEnsure(deps);

  async function destroy(id: InstanceId, signal: AbortSignal): Promise<void> {
    addresses.delete(id);
    processors.observe(id, null);
    const info = await find(id, signal);
    if (info === null || hasDocker(info.Mounts)) await daemons.remove(id, 0, signal);
    if (info !== null) await removeContainer(client, info.Id, signal);
    await files.remove(id, signal);
    const owner = info?.Config.Labels[labels.owner];
    if (owner === undefined) await networks.removeAllUnused(signal);
    else await networks.removeIfUnused(userId(owner), signal);
  }

  async function discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void> {
    const info = await inspectContainer(client, name, signal);
    if (info === null) return;
    if (!isOurs(info.Config.Labels, installation, id)) {
      const text = `the container ${name} is not an instance of this installation, so Berth does not remove it`;
      throw new EngineFault('rejected', text, { retry: false });
    }
    addresses.delete(id);
    await removeContainer(client, info.Id, signal);
    if (name === containerName(id)) await files.remove(id, signal);
  }

  return {
    find,
    async get(id, signal) {
      const info = await find(id, signal);
      if (info === null) throw new EngineFault('not_found', 'the instance has no container', { retry: false });
      return info;
    },
    async observe(ids, signal) {
      const unknown = (error: unknown): Observation => ({ kind: 'unknown', reason: faultOf(error).message });
      let names: Set<string> | null = null;
      try {
        if (ids.length >= LIST_FROM) names = await listNames(signal);
      } catch (error) {
        return new Map(ids.map((id) => [id, unknown(error)]));
      }
      const observations = ids.map(async (id): Promise<[InstanceId, Observation]> => {
        if (names !== null && !names.has(containerName(id))) return [id, { kind: 'absent' }];
        return [id, await inspects.run(() => observeOne(id, signal), { signal }).catch(unknown)];
      });
      return new Map(await Promise.all(observations));
    },
    // Without the mutex, two calls would each take the other's half-made container for a leftover.
    ensure: (spec, signal) => mutex.run(spec.id, async () => read(spec.id, await ensure(spec, signal), signal), signal),
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
