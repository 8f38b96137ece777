/** How a simulated engine takes a call: whether it is there at all, and in which way the drawn fault wants the deed done. */
import { EngineFault } from '../../domain/engine-fault.ts';
import { instanceId, type InstanceId } from '../../domain/ids.ts';
import { givenUp, simulatedFault, untilAborted, type Faults, type SimulatedFault, type Verb } from './faults.ts';
import type { SimulatedHost } from './host.ts';

/** What a verb does, and what it says when it lies: success without the deed. */
export interface Deed<T> {
  verb: Verb;
  about: string;
  signal: AbortSignal;
  work: (more: { halfway: boolean }) => T | Promise<T>;
  lie: () => T;
}

export interface Calls {
  call<T>(deed: Deed<T>): Promise<T>;
  /** One answer for each id, each with a fate of its own. */
  each<T>(
    deed: Omit<Deed<T>, 'about' | 'work'> & { ids: readonly InstanceId[]; look: (id: InstanceId) => T },
  ): Promise<Map<InstanceId, T | EngineFault>>;
  draw(verb: Verb, about: string): SimulatedFault | undefined;
  /** Calls are counted anew from here. */
  misbehave(faults: Faults | undefined): void;
  /** Rejects with a fault when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Throws when the call is given up, or the engine stopped or away. */
  checkThere(signal: AbortSignal): void;
}

export const brokenOff = (): EngineFault => simulatedFault('unreachable', 'the connection broke before all was done');

export function makeCalls({
  host,
  faults: first,
  ended,
}: {
  host: SimulatedHost;
  faults: Faults | undefined;
  ended: AbortSignal;
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
    if (signal.aborted) throw givenUp(signal);
    if (ms > 0) await host.clock.sleep(ms, signal).catch(() => Promise.reject(givenUp(signal)));
  }

  function checkThere(signal: AbortSignal): void {
    if (signal.aborted) throw givenUp(signal);
    if (ended.aborted) throw simulatedFault('unreachable', 'this engine object was stopped');
    if (host.away) throw simulatedFault('unreachable', 'the simulated host does not answer');
  }

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
