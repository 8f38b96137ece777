/**
 * # The simulated engine
 *
 * Implements the engine contract in memory, on a real or virtual clock, with faults on demand. With
 * it Berth is an emulator for client authors and tests.
 *
 * Files: `host.ts` holds containers and events, `container.ts` one container, `script.ts` its
 * instructions, `faults.ts` the faults, `networks.ts` and `guests.ts` listeners inside, `images.ts`
 * images and pulls, `services.ts` services, `commands.ts`, `shell.ts`, `processes.ts`,
 * `terminal.ts` commands, `logs.ts` logs, `journal.ts` persistence.
 *
 * Emulates states, root disks, node ports, images and pulls, ssh banners, HTTP on 8888, and the
 * console of `images/start.sh`. Runs no real commands, and enforces no limits.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { instanceId, type InstanceId } from '../../domain/ids.ts';
import type {
  Capabilities,
  Engine,
  EngineSpec,
  ImageProgress,
  LogSource,
  Observation,
  OwnedObject,
  RegistryCredentials,
  Usage,
} from '../contract.ts';
import { containerName, dockerName, networkName } from '../labels.ts';
import { emulate, type CommandContext } from './commands.ts';
import { copyOf, lieOf, ownedBy, probeOf, reachable, usageOf } from './answers.ts';
import { brokenOff, makeCalls } from './calls.ts';
import { observationOf, scriptOf, type Container } from './container.ts';
import { raceAbort, simulatedFault, type Faults } from './faults.ts';
import { SimulatedHost, type HostOptions, type Span } from './host.ts';
import * as images from './images.ts';
import { follow, inRange, read, emptyLog } from './logs.ts';
import { joinNetwork, listenUnix, emptyNetwork } from './networks.ts';
import { makePair } from './pair.ts';
import { openProcess } from './processes.ts';
import { runCommand } from './shell.ts';

export interface SimulatedEngineOptions extends HostOptions {
  installation: string;
  architecture?: string;
  capabilities?: Partial<Capabilities>;
  dockerImageRef?: string;
  faults?: Faults;
  /** An existing host, whose maker stops it; other host options are then ignored. */
  host?: SimulatedHost;
}

export interface SimulatedEngine extends Engine {
  /** Methods of the host make things happen. */
  readonly host: SimulatedHost;
  /** Applies faults from now on; undefined: none. */
  misbehave(faults: Faults | undefined): void;
  /** Leaves the state of a crash between create and start. */
  leaveHalfMade(spec: EngineSpec): void;
}

export function makeSimulatedEngine(options: SimulatedEngineOptions): SimulatedEngine {
  const { installation } = options;
  const host = options.host ?? new SimulatedHost(options);
  const { capacity } = host;
  const capabilities: Capabilities = {
    rootDiskLimit: 'none',
    dockerInside: true,
    saveImage: true,
    gpus: capacity.gpus > 0,
    dial: true,
    joinNetwork: true,
    ...options.capabilities,
  };
  const ending = new AbortController();
  const calls = makeCalls({ host, faults: options.faults, ended: ending.signal });
  const { call, sleep } = calls;

  const alone = <T>(id: InstanceId, signal: AbortSignal, work: () => Promise<T>): Promise<T> =>
    locked(containerName(id), signal, work);

  /** Serializes save, push and removal of one name. */
  const aloneOn = <T>(ref: string, signal: AbortSignal, work: () => T | Promise<T>): Promise<T> =>
    locked(`image ${ref}`, signal, work);

  const locked = <T>(key: string, signal: AbortSignal, work: () => T | Promise<T>): Promise<T> =>
    host.mutex.run(key, async () => work(), signal);

  /** Continues after its caller aborts, as a real engine copies on. */
  const unhurried = <T>(id: InstanceId, ref: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> =>
    raceAbort(
      signal,
      aloneOn(ref, signal, () => alone(id, signal, work)),
    );

  const find = (id: InstanceId): Container | undefined => host.find(installation, id);

  function running(id: InstanceId): Container {
    const container = find(id);
    if (container?.state !== 'running') throw simulatedFault('not_found', `${id} does not run`);
    return container;
  }

  function withLog(id: InstanceId, source: LogSource): Container {
    const container = find(id);
    if (container === undefined) throw simulatedFault('not_found', `${id} is not there`);
    return source === 'init' ? running(id) : container;
  }

  const insideOf = (container: Container) => (): CommandContext => ({
    container,
    nowMs: host.clock.now(),
    reaches: (address, port) => reachable(host, container, address, port),
    onWrite: () => host.persist(container),
  });

  /** Ends with the host's event or with this engine object. */
  const attachTo =
    (container: Container) =>
    (lose: (fault: EngineFault) => void): (() => void) => {
      const stop = (): void => lose(simulatedFault('unreachable', 'this engine object was stopped'));
      ending.signal.addEventListener('abort', stop, { once: true });
      const detach = host.attach(container, lose);
      return () => {
        ending.signal.removeEventListener('abort', stop);
        detach();
      };
    };

  /** Lets time pass; fails if the host went away. */
  async function pass(span: Span, signal: AbortSignal): Promise<void> {
    await sleep(host.spanMs(span), signal);
    calls.checkThere(signal);
  }

  async function bringUp(spec: EngineSpec, signal: AbortSignal, more: { halfway: boolean }): Promise<Observation> {
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
    if (more.halfway) throw brokenOff();
    await pass(host.times.start, signal);
    if (find(spec.id) !== container) throw brokenOff();
    await host.start(container);
    return observationOf(container);
  }

  async function haltAlone(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void> {
    const container = find(id);
    host.setDocker(id, 'stopped');
    if (container?.state !== 'running') return;
    const heardMs = container.script.ignoresTerm ? Infinity : host.spanMs(host.times.halt);
    await sleep(Math.min(heardMs, graceMs), signal);
    if (find(id) !== container || container.state !== 'running') return;
    await host.end(container, heardMs <= graceMs ? 0 : 137);
  }

  const transferOf = (
    ref: string,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
    credentials: RegistryCredentials | undefined,
  ) => ({ host, ref, onProgress, credentials, pass: (ms: number) => pass(ms, signal) });

  async function discard({ kind, id, engineName, ownerId }: OwnedObject, signal: AbortSignal): Promise<void> {
    switch (kind) {
      case 'instance': {
        if (host.isForeign(installation, engineName)) {
          throw simulatedFault(
            'rejected',
            `${engineName} is not an instance of this installation, so it is not removed`,
          );
        }
        const container = find(instanceId(id));
        if (container !== undefined && engineName === containerName(container.spec.id)) {
          await alone(container.spec.id, signal, () => host.remove(container));
        }
        return;
      }
      case 'docker':
        if (host.isForeign(installation, engineName))
          throw simulatedFault('rejected', `${engineName} is not of this installation, so it is not removed`);
        if (engineName === dockerName(instanceId(id)) && find(instanceId(id)) !== undefined)
          await alone(instanceId(id), signal, async () => host.setDocker(instanceId(id), 'stopped'));
        return;
      case 'network':
        for (const { spec } of host.all(installation)) {
          if (spec.ownerId === ownerId && engineName === networkName(installation, spec.ownerId))
            throw simulatedFault('busy', `the network ${engineName} has instances; terminate them first`);
        }
        return;
      case 'image':
        return aloneOn(engineName, signal, () => images.remove(host, installation, engineName, id));
      default:
        return kind satisfies never;
    }
  }

  return {
    host,
    dockerImageRef: options.dockerImageRef,
    misbehave: calls.misbehave,
    leaveHalfMade(spec) {
      host.create(installation, copyOf(spec));
    },
    probe: (signal) =>
      call({
        verb: 'probe',
        about: '',
        signal,
        work: () => probeOf(host, options.architecture ?? 'amd64', capabilities),
        lie: () => probeOf(host, options.architecture ?? 'amd64', capabilities),
      }),
    listOwned: (signal) =>
      call({ verb: 'listOwned', about: '', signal, work: () => ownedBy(host, installation), lie: () => [] }),
    async observe(ids, signal) {
      const look = (id: InstanceId): Observation => {
        const container = find(id);
        return container === undefined ? { kind: 'absent' } : observationOf(container);
      };
      const unknown = ({ message }: EngineFault): Observation => ({ kind: 'unknown', reason: message });
      try {
        const seen = await calls.each({ verb: 'observe', ids, signal, look, lie: () => lieOf(host) });
        return new Map([...seen].map(([id, answer]) => [id, answer instanceof EngineFault ? unknown(answer) : answer]));
      } catch (fault) {
        if (!(fault instanceof EngineFault)) throw fault;
        return new Map(ids.map((id) => [id, unknown(fault)]));
      }
    },
    ensureImage: (ref, onProgress, signal, credentials, more) =>
      call({
        verb: 'ensureImage',
        about: ref,
        signal,
        work: () => images.pull({ ...transferOf(ref, onProgress, signal, credentials), ...more }),
        lie: () => {},
      }),
    pushImage: (ref, onProgress, signal, credentials) =>
      call({
        verb: 'pushImage',
        about: ref,
        signal,
        work: () => aloneOn(ref, signal, () => images.push(transferOf(ref, onProgress, signal, credentials))),
        lie: () => {},
      }),
    removeImage: (ref, signal) =>
      call({
        verb: 'removeImage',
        about: ref,
        signal,
        work: () => aloneOn(ref, signal, () => images.remove(host, installation, ref)),
        lie: () => {},
      }),
    discard: (owned, signal) =>
      call({
        verb: 'discard',
        about: owned.engineName,
        signal,
        work: () => discard(owned, signal),
        lie: () => {},
      }),
    ensure: (spec, signal) =>
      call({
        verb: 'ensure',
        about: spec.id,
        signal,
        work: (more) => alone(spec.id, signal, () => bringUp(spec, signal, more)),
        lie: () => lieOf(host),
      }),
    halt: (id, graceMs, signal) =>
      call({
        verb: 'halt',
        about: id,
        signal,
        work: () => alone(id, signal, () => haltAlone(id, graceMs, signal)),
        lie: () => {},
      }),
    destroy: (id, signal) =>
      call({
        verb: 'destroy',
        about: id,
        signal,
        work: (more) =>
          alone(id, signal, async () => {
            const container = find(id);
            if (container === undefined) return;
            if (more.halfway) {
              if (container.state === 'running') await host.end(container, 137);
              throw brokenOff();
            }
            await host.remove(container);
          }),
        lie: () => {},
      }),
    saveImage: (id, ref, signal) =>
      call({
        verb: 'saveImage',
        about: id,
        signal,
        work: () =>
          unhurried(id, ref, signal, async () => {
            if (!capabilities.saveImage) throw simulatedFault('rejected', 'this engine can not save images');
            const container = find(id);
            if (container === undefined) throw simulatedFault('not_found', `${id} has no root disk here`);
            images.checkSavable(host, installation, ref);
            await pass(host.times.save, ending.signal);
            if (find(id) !== container) throw brokenOff();
            return images.save(host, container, ref);
          }),
        lie: () => ({ sizeBytes: 0 }),
      }),
    watch(onHint, signal) {
      const stop = AbortSignal.any([signal, ending.signal]);
      if (stop.aborted) return;
      const tell = (id: InstanceId): void => {
        if (!stop.aborted) onHint(id);
      };
      const leave = host.listen((whose, id) => {
        if (whose !== installation) return;
        const fault = calls.draw('watch', id);
        if (fault === undefined) queueMicrotask(() => tell(id));
        else if (fault.mode === 'late' || fault.mode === 'slow')
          sleep(fault.ms, stop).then(
            () => tell(id),
            () => {},
          );
      });
      stop.addEventListener('abort', leave, { once: true });
    },
    logs: (id, source, range, signal) =>
      call({
        verb: 'logs',
        about: id,
        signal,
        work: () => read(inRange(withLog(id, source), source, range, host.clock.now()), { source, signal }),
        lie: emptyLog,
      }),
    followLogs: (id, source, range, signal) =>
      call({
        verb: 'followLogs',
        about: id,
        signal,
        work: () => {
          const ended = AbortSignal.any([signal, ending.signal]);
          return follow(host, withLog(id, source), { source, range, signal: ended });
        },
        lie: emptyLog,
      }),
    openExec: (id, request, signal) =>
      call({
        verb: 'openExec',
        about: id,
        signal,
        work: () => {
          const container = running(id);
          const { clock } = host;
          const attach = attachTo(container);
          const inside = insideOf(container);
          return openProcess({
            request,
            attach,
            program: (io) => runCommand({ inside, clock, io, env: request.env }, request),
          });
        },
        lie: () => openProcess({ request, attach: () => () => {}, program: async () => 0 }),
      }),
    exec: (id, command, signal) =>
      call({
        verb: 'exec',
        about: id,
        signal,
        work: () => emulate(insideOf(running(id))(), command),
        lie: () => ({ exitCode: 0, stdout: '', stderr: '' }),
      }),
    dial: (id, port, signal) =>
      call({
        verb: 'dial',
        about: id,
        signal,
        work: () => {
          const stream = host.connect(running(id), port);
          if (stream === undefined) throw simulatedFault('busy', `nothing listens on port ${port} of ${id} (yet)`);
          return stream;
        },
        lie: () => {
          const [inside, outside] = makePair();
          inside.destroy();
          return outside;
        },
      }),
    joinNetwork: (id, signal) =>
      call({
        verb: 'joinNetwork',
        about: id,
        signal,
        work: () => {
          if (!capabilities.joinNetwork)
            throw simulatedFault('rejected', 'this engine can not join the networks of instances');
          const container = running(id);
          return joinNetwork({ host, container, attach: attachTo(container) });
        },
        lie: () => emptyNetwork,
      }),
    listenUnix: (id, onConnection, signal) =>
      call({
        verb: 'listenUnix',
        about: id,
        signal,
        work: () => {
          const container = running(id);
          return listenUnix({ host, container, attach: attachTo(container) }, onConnection);
        },
        lie: () => ({ pathInside: '/etc/berth/sockets/nothing', close: () => {} }),
      }),
    async usage(ids, signal, more = {}) {
      const look = (id: InstanceId): Usage | undefined => usageOf(host, find(id), more);
      const used = await calls.each({ verb: 'usage', ids, signal, look, lie: () => undefined });
      const usages = new Map<InstanceId, Usage>();
      for (const [id, usage] of used) if (usage !== undefined && !(usage instanceof EngineFault)) usages.set(id, usage);
      return usages;
    },
    async stop() {
      ending.abort();
      if (options.host === undefined) await host.stop();
    },
  };
}
