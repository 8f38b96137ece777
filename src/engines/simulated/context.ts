/** State, locks and faults shared by the verbs of one simulated engine object. */
import { untilAborted } from '../../async/abort.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { instanceId, type InstanceId } from '../../domain/kernel/ids.ts';
import type { Capabilities } from '../contract.ts';
import { containerName } from '../labels.ts';
import type { Container } from './container.ts';
import { aborted, simulatedFault, type Faults, type SimulatedFault, type Verb } from './injected-faults.ts';
import type { SimulatedHost, Span } from './host.ts';

interface SimulatedCall<T> {
  verb: Verb;
  about: string;
  signal: AbortSignal;
  /** Answer of a lying fault. */
  lie: () => T;
}

/** `halfway`: a fault breaks the call off between create and start, or stop and removal. */
type Work<T> = (extent: { halfway: boolean }) => T | Promise<T>;

export interface EngineContext {
  installation: string;
  host: SimulatedHost;
  capabilities: Capabilities;
  /** Aborts when the engine object stops. */
  stopped: AbortSignal;
  /** Runs a verb's work while the host is up, with the fault drawn for the call. */
  call<T>(request: SimulatedCall<T>, work: Work<T>): Promise<T>;
  /** Returns an answer per id, each with a fault of its own. */
  callEach<T>(
    request: Omit<SimulatedCall<T>, 'about'> & { ids: readonly InstanceId[] },
    work: (id: InstanceId) => T,
  ): Promise<Map<InstanceId, T | EngineFault>>;
  draw(verb: Verb, about: string): SimulatedFault | undefined;
  misbehave(faults: Faults | undefined): void;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Lets time pass; fails if the host went away. */
  pass(span: Span, signal: AbortSignal): Promise<void>;
  find(id: InstanceId): Container | undefined;
  /** Throws `not_found` unless the instance runs. */
  requireRunning(id: InstanceId): Container;
  lockInstance<T>(id: InstanceId, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** Serializes save, push and removal of one ref. */
  lockImage<T>(ref: string, signal: AbortSignal, work: () => T | Promise<T>): Promise<T>;
  /** `lose` is called at the end of the run, of the connection, or of the engine object. */
  attachTo(container: Container): (lose: (fault: EngineFault) => void) => () => void;
}

export const brokenOff = (): EngineFault =>
  simulatedFault('unreachable', 'the connection broke before the call finished');

const engineStopped = (): EngineFault => simulatedFault('unreachable', 'the engine was stopped');

export function makeContext(
  options: Pick<EngineContext, 'installation' | 'host' | 'capabilities' | 'stopped'> & { faults: Faults | undefined },
): EngineContext {
  const { installation, host, capabilities, stopped } = options;
  let { faults } = options;
  const counts = new Map<string, number>();

  function draw(verb: Verb, about: string): SimulatedFault | undefined {
    if (faults === undefined) return undefined;
    const key = `${verb} ${about}`;
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    return faults({ verb, about, nth, nowMs: host.clock.now() });
  }

  async function sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw aborted(signal);
    if (ms > 0) await host.clock.sleep(ms, signal).catch(() => Promise.reject(aborted(signal)));
  }

  function checkReachable(signal: AbortSignal): void {
    if (signal.aborted) throw aborted(signal);
    if (stopped.aborted) throw engineStopped();
    if (host.away) throw simulatedFault('unreachable', 'the simulated host does not answer');
  }

  async function pass(span: Span, signal: AbortSignal): Promise<void> {
    await sleep(host.spanMs(span), signal);
    checkReachable(signal);
  }

  async function call<T>({ verb, about, signal, lie }: SimulatedCall<T>, work: Work<T>): Promise<T> {
    checkReachable(signal);
    await host.restored;
    const fault = draw(verb, about);
    if (fault === undefined) return work({ halfway: false });
    switch (fault.mode) {
      case 'slow':
        await pass(fault.ms, signal);
        return work({ halfway: false });
      case 'late': {
        const answer = await work({ halfway: false });
        await sleep(fault.ms, signal);
        return answer;
      }
      case 'lost':
        await work({ halfway: false });
        await untilAborted(signal);
        throw aborted(signal);
      case 'failBefore':
        throw simulatedFault(fault.kind ?? 'unreachable', `${verb} failed before it took effect (simulated)`);
      case 'failAfter':
        await work({ halfway: false });
        throw simulatedFault(fault.kind ?? 'unreachable', `${verb} failed after it took effect (simulated)`);
      case 'halfway':
        if (verb === 'ensure' || verb === 'destroy') return work({ halfway: true });
        throw brokenOff();
      case 'lying':
        return lie();
      case 'forgetful':
        await host.forget(instanceId(about));
        return work({ halfway: false });
      case 'unreachable':
        host.goAway(fault.ms);
        throw simulatedFault('unreachable', 'the simulated host does not answer');
      default:
        return fault satisfies never;
    }
  }

  const find = (id: InstanceId): Container | undefined => host.find(installation, id);

  return {
    installation,
    host,
    capabilities,
    stopped,
    call,
    async callEach({ ids, ...request }, work) {
      checkReachable(request.signal);
      await host.restored;
      if (faults === undefined) return new Map(ids.map((id) => [id, work(id)]));
      const answers = ids.map(async (id) => {
        const answer = await call({ ...request, about: id }, () => work(id)).catch(faultOnly);
        return [id, answer] as const;
      });
      return new Map(await Promise.all(answers));
    },
    draw,
    misbehave(next) {
      faults = next;
      counts.clear();
    },
    sleep,
    pass,
    find,
    requireRunning(id) {
      const container = find(id);
      if (container?.state !== 'running') throw simulatedFault('not_found', `${id} is not running`);
      return container;
    },
    lockInstance: (id, signal, work) => host.mutex.run(containerName(id), work, signal),
    lockImage: (ref, signal, work) => host.mutex.run(`image ${ref}`, async () => work(), signal),
    attachTo: (container) => (lose) => {
      const stop = (): void => lose(engineStopped());
      stopped.addEventListener('abort', stop, { once: true });
      const detach = host.attach(container, lose);
      return () => {
        stopped.removeEventListener('abort', stop);
        detach();
      };
    },
  };
}

function faultOnly(thrown: unknown): EngineFault {
  if (thrown instanceof EngineFault) return thrown;
  throw thrown;
}
