/** Verbs that create, stop and remove instances. */
import { instanceId, type InstanceId } from '../../domain/kernel/ids.ts';
import type { Engine, EngineSpec, Observation, OwnedObject } from '../contract.ts';
import { containerName, dockerName, networkName } from '../labels.ts';
import { copyOf, observationOf, scriptOf, type Container } from './container.ts';
import { brokenOff, type EngineContext } from './context.ts';
import { simulatedFault } from './injected-faults.ts';
import { removeImage } from './image-verbs.ts';
import { lieOf } from './observation-verbs.ts';

export function lifecycleVerbs(context: EngineContext): Pick<Engine, 'ensure' | 'halt' | 'destroy' | 'discard'> {
  const { host, call, lockInstance } = context;
  return {
    ensure: (spec, signal) =>
      call({ verb: 'ensure', about: spec.id, signal, lie: () => lieOf(host) }, ({ halfway }) =>
        lockInstance(spec.id, signal, () => bringUp(context, spec, signal, halfway)),
      ),
    halt: (id, graceMs, signal) =>
      call({ verb: 'halt', about: id, signal, lie: () => {} }, () =>
        lockInstance(id, signal, () => halt(context, id, graceMs, signal)),
      ),
    destroy: (id, signal) =>
      call({ verb: 'destroy', about: id, signal, lie: () => {} }, ({ halfway }) =>
        lockInstance(id, signal, () => destroy(context, id, halfway)),
      ),
    discard: (owned, signal) =>
      call({ verb: 'discard', about: owned.engineName, signal, lie: () => {} }, () => discard(context, owned, signal)),
  };
}

async function bringUp(
  { host, installation, capabilities, find, pass }: EngineContext,
  spec: EngineSpec,
  signal: AbortSignal,
  halfway: boolean,
): Promise<Observation> {
  if (spec.gpus > 0 && !capabilities.gpus) {
    throw simulatedFault('rejected', 'this host has no GPUs', { reason: 'gpuMissing' });
  }
  if (spec.docker !== undefined && !capabilities.dockerInside) {
    throw simulatedFault('rejected', 'this host cannot run Docker inside instances');
  }
  let container = find(spec.id);
  if (container === undefined) {
    if (spec.mustExist === true) throw simulatedFault('busy', 'the container was removed during its start');
    await pass(host.times.create, signal);
    container = host.create(installation, copyOf(spec));
  } else if (container.state === 'running') {
    const { files, generation } = copyOf(spec);
    container.spec = { ...container.spec, files, generation };
    host.persist(container);
    if (spec.docker !== undefined) host.setDocker(spec.id, 'running');
    return observationOf(container);
  } else {
    if (!capabilities.keepsRootDisk) host.renew(container, copyOf(spec));
    else container.spec = specOfExisting(container, spec);
    container.script = scriptOf(spec);
    host.persist(container);
  }
  if (halfway) throw brokenOff();
  await pass(host.times.start, signal);
  if (find(spec.id) !== container) throw brokenOff();
  await host.start(container);
  return observationOf(container);
}

/** Changes limits and files alone, as a real engine does. */
function specOfExisting({ spec: has, starts }: Container, given: EngineSpec): EngineSpec {
  const spec = copyOf(given);
  if (starts === 0) return spec;
  if (JSON.stringify(has.nodePorts) !== JSON.stringify(spec.nodePorts))
    throw simulatedFault('rejected', 'an instance that ran before keeps its node ports; start the instance with these');
  const { imageRef, mounts, gpus, gpuName, runtime, rootDiskGB, docker } = has;
  return { ...spec, imageRef, mounts, gpus, gpuName, runtime, rootDiskGB, docker };
}

async function halt(
  { host, capabilities, sleep, find }: EngineContext,
  id: InstanceId,
  graceMs: number,
  signal: AbortSignal,
): Promise<void> {
  const container = find(id);
  host.setDocker(id, 'stopped');
  if (container?.state !== 'running') return;
  const exitAfterMs = container.script.ignoresTerm ? Infinity : host.spanMs(host.times.halt);
  await sleep(Math.min(exitAfterMs, graceMs), signal);
  if (find(id) !== container || container.state !== 'running') return;
  await host.end(container, exitAfterMs <= graceMs ? 0 : 137);
  if (!capabilities.keepsRootDisk) container.console = [];
}

async function destroy({ host, find }: EngineContext, id: InstanceId, halfway: boolean): Promise<void> {
  const container = find(id);
  if (container === undefined) return;
  if (halfway) {
    if (container.state === 'running') await host.end(container, 137);
    throw brokenOff();
  }
  await host.remove(container);
}

async function discard(context: EngineContext, owned: OwnedObject, signal: AbortSignal): Promise<void> {
  const { host, installation, find, lockInstance, lockImage } = context;
  const { kind, id, engineName, ownerId } = owned;
  switch (kind) {
    case 'instance':
    case 'docker': {
      if (host.isForeign(installation, engineName))
        throw simulatedFault(
          'rejected',
          `${engineName} does not belong to this installation, so Berth does not remove it`,
        );
      const instance = instanceId(id);
      const container = find(instance);
      if (container === undefined) return;
      if (kind === 'instance' && engineName === containerName(instance))
        await lockInstance(instance, signal, () => host.remove(container));
      if (kind === 'docker' && engineName === dockerName(instance))
        await lockInstance(instance, signal, async () => host.setDocker(instance, 'stopped'));
      return;
    }
    case 'network':
      for (const { spec } of host.all(installation)) {
        if (spec.ownerId === ownerId && engineName === networkName(installation, spec.ownerId))
          throw simulatedFault('busy', `the network ${engineName} has instances; terminate the instances first`);
      }
      return;
    case 'image':
      return lockImage(engineName, signal, () => removeImage(host, installation, engineName, id));
    default:
      return kind satisfies never;
  }
}
