/** Runs calls on a simulated engine: checks that the host is up, and applies faults. */
import { EngineFault } from '../../domain/engine-fault.ts';
import { instanceId, type InstanceId } from '../../domain/ids.ts';
import { aborted, simulatedFault, untilAborted, type Faults, type SimulatedFault, type Verb } from './faults.ts';
import type { SimulatedHost } from './host.ts';

/** Effect of a verb, and the answer of a lying fault. */
export interface SimulatedCall<T> {
  verb: Verb;
  about: string;
  signal: AbortSignal;
  work: (more: { halfway: boolean }) => T | Promise<T>;
  lie: () => T;
}

export interface Calls {
  call<T>(request: SimulatedCall<T>): Promise<T>;
  /** Returns an answer per id, each with a fault of its own. */
  each<T>(
    request: Omit<SimulatedCall<T>, 'about' | 'work'> & { ids: readonly InstanceId[]; look: (id: InstanceId) => T },
  ): Promise<Map<InstanceId, T | EngineFault>>;
  draw(verb: Verb, about: string): SimulatedFault | undefined;
  misbehave(faults: Faults | undefined): void;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Throws if the call was aborted, the engine stopped, or the host is away. */
  checkThere(signal: AbortSignal): void;
}

export const brokenOff = (): EngineFault => simulatedFault('unreachable', 'the connection broke before all was done');

export function makeCalls({
  host,
  faults: first,
  stopped,
}: {
  host: SimulatedHost;
  faults: Faults | undefined;
  stopped: AbortSignal;
}): Calls {
  let faults = first;
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

  function checkThere(signal: AbortSignal): void {
    if (signal.aborted) throw aborted(signal);
    if (stopped.aborted) throw simulatedFault('unreachable', 'this engine object was stopped');
    if (host.away) throw simulatedFault('unreachable', 'the simulated host does not answer');
  }

  async function call<T>({ verb, about, signal, work, lie }: SimulatedCall<T>): Promise<T> {
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

  return {
    call,
    async each({ verb, ids, signal, look, lie }) {
      checkThere(signal);
      await host.restored;
      if (faults === undefined) return new Map(ids.map((id) => [id, look(id)]));
      const answers = ids.map(async (id) => {
        const answer = await call({ verb, about: id, signal, work: () => look(id), lie }).catch(faultOnly);
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
    checkThere,
  };
}

function faultOnly(thrown: unknown): EngineFault {
  if (thrown instanceof EngineFault) return thrown;
  throw thrown;
}
