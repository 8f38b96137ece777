/** Verbs that create, stop and remove instances. */
import { instanceId, type InstanceId } from '../../domain/ids.ts';
import type { Engine, EngineSpec, Observation, OwnedObject } from '../contract.ts';
import { containerName, dockerName, networkName } from '../labels.ts';
import { copyOf, lieOf } from './answers.ts';
import { brokenOff } from './calls.ts';
import { observationOf, scriptOf } from './container.ts';
import type { EngineContext } from './context.ts';
import { simulatedFault } from './faults.ts';
import { remove as removeImage } from './images.ts';

interface Extent {
  /** The fault breaks the call off between create and start, or between stop and removal. */
  halfway: boolean;
}

export function lifecycleVerbs(context: EngineContext): Pick<Engine, 'ensure' | 'halt' | 'destroy' | 'discard'> {
  const { call } = context.calls;
  return {
    ensure: (spec, signal) =>
      call({
        verb: 'ensure',
        about: spec.id,
        signal,
        work: (extent) => context.lockInstance(spec.id, signal, () => bringUp(context, spec, signal, extent)),
        lie: () => lieOf(context.host),
      }),
    halt: (id, graceMs, signal) =>
      call({
        verb: 'halt',
        about: id,
        signal,
        work: () => context.lockInstance(id, signal, () => halt(context, id, graceMs, signal)),
        lie: () => {},
      }),
    destroy: (id, signal) =>
      call({
        verb: 'destroy',
        about: id,
        signal,
        work: (extent) => context.lockInstance(id, signal, () => destroy(context, id, extent)),
        lie: () => {},
      }),
    discard: (owned, signal) =>
      call({
        verb: 'discard',
        about: owned.engineName,
        signal,
        work: () => discard(context, owned, signal),
        lie: () => {},
      }),
  };
}

async function bringUp(
  { host, installation, capabilities, find, pass }: EngineContext,
  spec: EngineSpec,
  signal: AbortSignal,
  { halfway }: Extent,
): Promise<Observation> {
  if (spec.gpus > 0 && !capabilities.gpus) {
    throw simulatedFault('rejected', 'this host has no GPUs', { reason: 'gpuMissing' });
  }
  if (spec.docker !== undefined && !capabilities.dockerInside) {
    throw simulatedFault('rejected', 'this host can run no Docker inside instances');
  }
  let container = find(spec.id);
  if (container === undefined) {
    await pass(host.times.create, signal);
    container = host.create(installation, copyOf(spec));
  } else if (container.state === 'running') {
    const { files, generation } = copyOf(spec);
    container.spec = { ...container.spec, files, generation };
    host.persist(container);
    if (spec.docker !== undefined) host.setDocker(spec.id, 'running');
    return observationOf(container);
  } else {
    container.spec = copyOf(spec);
    container.script = scriptOf(spec);
    host.persist(container);
  }
  if (halfway) throw brokenOff();
  await pass(host.times.start, signal);
  if (find(spec.id) !== container) throw brokenOff();
  await host.start(container);
  return observationOf(container);
}

async function halt(
  { host, calls, find }: EngineContext,
  id: InstanceId,
  graceMs: number,
  signal: AbortSignal,
): Promise<void> {
  const container = find(id);
  host.setDocker(id, 'stopped');
  if (container?.state !== 'running') return;
  const exitAfterMs = container.script.ignoresTerm ? Infinity : host.spanMs(host.times.halt);
  await calls.sleep(Math.min(exitAfterMs, graceMs), signal);
  if (find(id) !== container || container.state !== 'running') return;
  await host.end(container, exitAfterMs <= graceMs ? 0 : 137);
}

async function destroy({ host, find }: EngineContext, id: InstanceId, { halfway }: Extent): Promise<void> {
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
    case 'instance': {
      if (host.isForeign(installation, engineName)) {
        throw simulatedFault('rejected', `${engineName} is not an instance of this installation, so it is not removed`);
      }
      const container = find(instanceId(id));
      if (container !== undefined && engineName === containerName(container.spec.id)) {
        await lockInstance(container.spec.id, signal, () => host.remove(container));
      }
      return;
    }
    case 'docker':
      if (host.isForeign(installation, engineName))
        throw simulatedFault('rejected', `${engineName} is not of this installation, so it is not removed`);
      if (engineName === dockerName(instanceId(id)) && find(instanceId(id)) !== undefined)
        await lockInstance(instanceId(id), signal, async () => host.setDocker(instanceId(id), 'stopped'));
      return;
    case 'network':
      for (const { spec } of host.all(installation)) {
        if (spec.ownerId === ownerId && engineName === networkName(installation, spec.ownerId))
          throw simulatedFault('busy', `the network ${engineName} has instances; terminate them first`);
      }
      return;
    case 'image':
      return lockImage(engineName, signal, () => removeImage(host, installation, engineName, id));
    default:
      return kind satisfies never;
  }
}
