/** State and locks shared by the verbs of one simulated engine object. */
import type { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { Capabilities } from '../contract.ts';
import { containerName } from '../labels.ts';
import { makeCalls, type Calls } from './calls.ts';
import type { Container } from './container.ts';
import { simulatedFault, type Faults } from './faults.ts';
import type { SimulatedHost, Span } from './host.ts';

type Locked = <T>(key: string, signal: AbortSignal, work: () => T | Promise<T>) => Promise<T>;

export interface EngineContext {
  installation: string;
  host: SimulatedHost;
  capabilities: Capabilities;
  calls: Calls;
  /** Aborts when the engine object stops. */
  stopped: AbortSignal;
  find(id: InstanceId): Container | undefined;
  /** Throws `not_found` unless the instance runs. */
  requireRunning(id: InstanceId): Container;
  lockInstance<T>(id: InstanceId, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** Serializes save, push and removal of one ref. */
  lockImage<T>(ref: string, signal: AbortSignal, work: () => T | Promise<T>): Promise<T>;
  /** Lets time pass; fails if the host went away. */
  pass(span: Span, signal: AbortSignal): Promise<void>;
  /** `lose` is called at the end of the run, of the connection, or of the engine object. */
  attachTo(container: Container): (lose: (fault: EngineFault) => void) => () => void;
}

interface ContextOptions {
  installation: string;
  host: SimulatedHost;
  capabilities: Capabilities;
  faults: Faults | undefined;
  stopped: AbortSignal;
}

export function makeContext(options: ContextOptions): EngineContext {
  const { installation, host, capabilities, faults, stopped } = options;
  const calls = makeCalls({ host, faults, stopped });
  const find = (id: InstanceId): Container | undefined => host.find(installation, id);
  const locked: Locked = (key, signal, work) => host.mutex.run(key, async () => work(), signal);

  return {
    installation,
    host,
    capabilities,
    calls,
    stopped,
    find,
    requireRunning(id) {
      const container = find(id);
      if (container?.state !== 'running') throw simulatedFault('not_found', `${id} does not run`);
      return container;
    },
    lockInstance: (id, signal, work) => locked(containerName(id), signal, work),
    lockImage: (ref, signal, work) => locked(`image ${ref}`, signal, work),
    async pass(span, signal) {
      await calls.sleep(host.spanMs(span), signal);
      calls.checkThere(signal);
    },
    attachTo: (container) => (lose) => {
      const stop = (): void => lose(simulatedFault('unreachable', 'this engine object was stopped'));
      stopped.addEventListener('abort', stop, { once: true });
      const detach = host.attach(container, lose);
      return () => {
        stopped.removeEventListener('abort', stop);
        detach();
      };
    },
  };
}
