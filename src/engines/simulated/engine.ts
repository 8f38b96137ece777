/**
 * # The simulated engine
 *
 * An engine without containers: it answers all verbs of the contract from memory, on a clock that can be real or virtual, and
 * misbehaves as it is told. With it Berth is an emulator of itself, for those who write clients of its API and for our own tests.
 *
 * Start here: `host.ts` is what holds the containers and what can befall them, `container.ts` one of them, `script.ts` what an
 * instance can be told to play, `faults.ts` how the engine misbehaves, `services.ts` what answers inside, `journal.ts` what is kept.
 *
 * It emulates: states, root disks that live and die with containers, node ports and who holds them, images and their pull, ssh's
 * banner, HTTP on 8888, the console of `images/start.sh`. It doesn't: run commands or scripts, or limit anything.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { Capabilities, Engine, EngineSpec, Observation, Owned, Probe, Usage } from '../contract.ts';
import { containerName, networkName } from '../labels.ts';
import { pretend } from './commands.ts';
import { addressOf, linesOf, observationOf, scriptOf, type Container } from './container.ts';
import { givenUp, simulatedFault, untilAborted, type Faults, type SimulatedFault, type Verb } from './faults.ts';
import { SimulatedHost, type HostOptions } from './host.ts';
import { makePair } from './pair.ts';

export interface SimulatedEngineOptions extends HostOptions {
  /** What `listOwned` goes by. */
  installation: string;
  architecture?: string;
  capabilities?: Partial<Capabilities>;
  faults?: Faults;
  /** A host that there is already; the other options of hosts are then its own. Whoever made it stops it. */
  host?: SimulatedHost;
}

export interface SimulatedEngine extends Engine {
  /** What holds the containers; its methods make things happen to them. */
  readonly host: SimulatedHost;
  /** Misbehaves so from now on; undefined: no more. */
  misbehave(faults: Faults | undefined): void;
  /** Leaves what a crash between creating and starting would leave. */
  leaveHalfMade(spec: EngineSpec): void;
}

const pullSteps = 8;
const halfway = 'the connection broke before all was done';

/** What a verb does, and what it says when it lies: success without the deed. */
interface Deed<T> {
  verb: Verb;
  about: string;
  signal: AbortSignal;
  work: (more: { halfway: boolean }) => T | Promise<T>;
  lie: () => T;
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
    ...options.capabilities,
  };
  let faults = options.faults;
  const counts = new Map<string, number>();
  const ending = new AbortController();

  function draw(verb: Verb, about: string): SimulatedFault | undefined {
    if (faults === undefined) return undefined;
    const key = `${verb} ${about}`;
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    return faults({ verb, about, nth, nowMs: host.clock.now() });
  }

  async function sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw givenUp(signal);
    if (ms > 0) await host.clock.sleep(ms, signal).catch(() => Promise.reject(givenUp(signal)));
  }

  function checkThere(signal: AbortSignal): void {
    if (signal.aborted) throw givenUp(signal);
    if (ending.signal.aborted) throw simulatedFault('unreachable', 'this engine object was stopped');
    if (host.away) throw simulatedFault('unreachable', 'the simulated host does not answer');
  }

  /** Does the deed, in the way that the drawn fault wants it done. */
  async function call<T>({ verb, about, signal, work, lie }: Deed<T>): Promise<T> {
    checkThere(signal);
    await host.restored;
    const fault = draw(verb, about);
    if (fault === undefined) return work({ halfway: false });
    switch (fault.mode) {
      case 'slow':
        await sleep(fault.ms, signal);
        checkThere(signal);
        return work({ halfway: false });
      case 'late': {
        const answer = await work({ halfway: false });
        await sleep(fault.ms, signal);
        return answer;
      }
      case 'lost':
        await work({ halfway: false });
        return untilAborted(signal);
      case 'failBefore':
        throw simulatedFault(fault.kind ?? 'unreachable', `${verb} failed before it took effect (simulated)`);
      case 'failAfter':
        await work({ halfway: false });
        throw simulatedFault(fault.kind ?? 'unreachable', `${verb} failed after it took effect (simulated)`);
      case 'halfway':
        if (verb === 'ensure' || verb === 'destroy') return work({ halfway: true });
        throw simulatedFault('unreachable', halfway);
      case 'lying':
        return lie();
      case 'forgetful':
        await host.forget(about as InstanceId);
        return work({ halfway: false });
      case 'unreachable':
        host.goAway(fault.ms);
        throw simulatedFault('unreachable', 'the simulated host does not answer');
      default:
        return fault satisfies never;
    }
  }

  async function alone<T>(id: InstanceId, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const letGo = await host.locks.take(containerName(id), signal);
    try {
      return await work();
    } finally {
      letGo();
    }
  }

  const find = (id: InstanceId): Container | undefined => host.find(installation, id);

  function running(id: InstanceId): Container {
    const container = find(id);
    if (container?.state !== 'running') throw simulatedFault('not_found', `${id} does not run`);
    return container;
  }

  async function bringUp(spec: EngineSpec, signal: AbortSignal, more: { halfway: boolean }): Promise<Observation> {
    if (spec.gpus > 0 && !capabilities.gpus) throw simulatedFault('rejected', 'this host has no GPUs');
    let container = find(spec.id);
    if (container === undefined) {
      await sleep(host.spanMs(host.times.create), signal);
      container = host.create(installation, copyOf(spec));
    } else if (container.state === 'running') {
      const { files, generation } = copyOf(spec);
      container.spec = { ...container.spec, files, generation };
      host.keep(container);
      return observationOf(container);
    } else {
      container.spec = copyOf(spec);
      container.script = scriptOf(spec);
      host.keep(container);
    }
    if (more.halfway) throw simulatedFault('unreachable', halfway);
    await sleep(host.spanMs(host.times.start), signal);
    await host.start(container);
    return observationOf(container);
  }

  async function haltAlone(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void> {
    const container = find(id);
    if (container?.state !== 'running') return;
    const heardMs = container.script.ignoresTerm ? Infinity : host.spanMs(host.times.halt);
    await sleep(Math.min(heardMs, graceMs), signal);
    if (find(id) !== container || container.state !== 'running') return; // it ended by itself meanwhile
    await host.end(container, heardMs <= graceMs ? 0 : 137);
  }

  async function pull(
    ref: string,
    onProgress: (done: number, total: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (host.hasImage(ref)) return;
    const source = host.images(ref);
    switch (source.kind) {
      case 'found':
        break;
      case 'not_found':
        throw simulatedFault('not_found', `no image ${ref} at its registry`);
      case 'denied':
        throw simulatedFault('denied', `the registry wants credentials for ${ref}`);
      case 'unreachable':
        throw simulatedFault('unreachable', `the registry of ${ref} does not answer`);
      default:
        return source satisfies never;
    }
    const stepMs = host.spanMs(host.times.pull) / pullSteps;
    for (let step = 0; step < pullSteps; step++) {
      onProgress(Math.floor((source.bytes * step) / pullSteps), source.bytes);
      await sleep(stepMs, signal);
      checkThere(signal);
      if (host.hasImage(ref)) break; // another call was faster
    }
    onProgress(source.bytes, source.bytes);
    if (!host.hasImage(ref)) host.addImage(ref);
  }

  function owned(): Owned[] {
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

  /** One answer for each id, each with a fault of its own; what can't be told is left out. */
  async function each<T>(
    verb: Verb,
    ids: readonly InstanceId[],
    signal: AbortSignal,
    work: (id: InstanceId) => T,
    lie: () => T,
  ): Promise<Map<InstanceId, T | EngineFault>> {
    checkThere(signal);
    await host.restored;
    if (faults === undefined) return new Map(ids.map((id) => [id, work(id)]));
    const answers = ids.map(async (id): Promise<[InstanceId, T | EngineFault]> => {
      const answer = call({ verb, about: id, signal, work: () => work(id), lie });
      return [
        id,
        await answer.catch((fault: unknown) => (fault instanceof EngineFault ? fault : Promise.reject(fault))),
      ];
    });
    return new Map(await Promise.all(answers));
  }

  return {
    host,
    misbehave(next) {
      faults = next;
    },
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
    listOwned: (signal) => call({ verb: 'listOwned', about: '', signal, work: owned, lie: () => [] }),
    async observe(ids, signal) {
      const look = (id: InstanceId): Observation => {
        const container = find(id);
        return container === undefined ? { kind: 'absent' } : observationOf(container);
      };
      const seen = await each('observe', ids, signal, look, () => lieOf(host)).catch((fault: unknown) => fault);
      if (!(seen instanceof Map) && !(seen instanceof EngineFault)) throw seen;
      return new Map(
        ids.map((id): [InstanceId, Observation] => {
          const answer = seen instanceof EngineFault ? seen : seen.get(id);
          return [id, answer instanceof EngineFault ? { kind: 'unknown', reason: answer.message } : answer];
        }),
      );
    },
    ensureImage: (ref, onProgress, signal) =>
      call({
        verb: 'ensureImage',
        about: ref,
        signal,
        work: () => pull(ref, (done, total) => onProgress({ text: `Downloading ${ref}`, done, total }), signal),
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
              throw simulatedFault('unreachable', halfway);
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
          alone(id, signal, async () => {
            if (!capabilities.saveImage) throw simulatedFault('rejected', 'this engine can not save images');
            const container = find(id);
            if (container === undefined) throw simulatedFault('not_found', `${id} has no root disk here`);
            host.addImage(ref, [...container.rootDisk]);
          }),
        lie: () => {},
      }),
    watch(onHint, signal) {
      const stop = AbortSignal.any([signal, ending.signal]);
      if (stop.aborted) return;
      const tell = (id: InstanceId): void => {
        if (!stop.aborted) onHint(id);
      };
      const leave = host.listen((whose, id) => {
        if (whose !== installation) return;
        const fault = draw('watch', id);
        if (fault === undefined) queueMicrotask(() => tell(id));
        else if (fault.mode === 'late' || fault.mode === 'slow')
          sleep(fault.ms, stop).then(
            () => tell(id),
            () => {},
          );
      });
      stop.addEventListener('abort', leave, { once: true });
    },
    logs: (id, _source, tail, signal) =>
      call({
        verb: 'logs',
        about: id,
        signal,
        work: () => {
          const container = find(id);
          if (container === undefined) throw simulatedFault('not_found', `${id} is not there`);
          return linesOf(container, host.clock.now(), tail);
        },
        lie: () => [],
      }),
    exec: (id, command, signal) =>
      call({
        verb: 'exec',
        about: id,
        signal,
        work: () => {
          const container = running(id);
          const reaches = (address: string, port: number): boolean => reachable(host, container, address, port);
          return pretend({ container, reaches, onWrite: () => host.keep(container) }, command);
        },
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
    async usage(ids, signal) {
      const used = await each(
        'usage',
        ids,
        signal,
        (id) => usageOf(host, find(id)),
        () => undefined,
      );
      const told = new Map<InstanceId, Usage>();
      for (const [id, usage] of used) if (usage !== undefined && !(usage instanceof EngineFault)) told.set(id, usage);
      return told;
    },
    async stop() {
      ending.abort();
      if (options.host === undefined) await host.stop();
    },
  };
}

/** So that what the caller changes later in what it handed over changes nothing here. */
const copyOf = (spec: EngineSpec): EngineSpec => ({
  ...spec,
  mounts: spec.mounts.map((mount) => ({ ...mount })),
  nodePorts: spec.nodePorts.map((pair) => ({ ...pair })),
  files: spec.files.map((file) => ({ ...file })),
});

function probeOf({ capacity }: SimulatedHost, architecture: string, capabilities: Capabilities): Probe {
  const devices = Array.from({ length: capacity.gpus }, (_, index) => ({
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

const lieOf = ({ clock }: SimulatedHost): Observation => ({
  kind: 'present',
  generation: 1,
  running: true,
  exitCode: null,
  outOfMemory: false,
  startedAtMs: clock.now(),
  nodePorts: [],
});

/** A little load, drawn anew each time. */
function usageOf({ random }: SimulatedHost, container: Container | undefined): Usage | undefined {
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
function reachable(host: SimulatedHost, from: Container, address: string, port: number): boolean {
  for (const other of host.all(from.installation)) {
    if (other.spec.ownerId !== from.spec.ownerId || addressOf(other) !== address) continue;
    const stream = host.connect(other, port);
    stream?.destroy();
    return stream !== undefined;
  }
  return false;
}
