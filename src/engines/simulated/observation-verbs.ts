/** Verbs that report on the host and its instances. */
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { Engine, Observation, Usage } from '../contract.ts';
import { lieOf, ownedBy, probeOf, usageOf } from './answers.ts';
import { observationOf } from './container.ts';
import type { EngineContext } from './context.ts';

type ObservationVerbs = Pick<Engine, 'probe' | 'listOwned' | 'observe' | 'watch' | 'usage'>;

export function observationVerbs(context: EngineContext, architecture: string): ObservationVerbs {
  const { host, installation, capabilities, calls, find } = context;
  return {
    probe: (signal) =>
      calls.call({
        verb: 'probe',
        about: '',
        signal,
        work: () => probeOf(host, architecture, capabilities),
        lie: () => probeOf(host, architecture, capabilities),
      }),
    listOwned: (signal) =>
      calls.call({ verb: 'listOwned', about: '', signal, work: () => ownedBy(host, installation), lie: () => [] }),
    async observe(ids, signal) {
      const look = (id: InstanceId): Observation => {
        const container = find(id);
        return container === undefined ? { kind: 'absent' } : observationOf(container);
      };
      try {
        const answers = await calls.each({ verb: 'observe', ids, signal, look, lie: () => lieOf(host) });
        return new Map([...answers].map(([id, answer]) => [id, orUnknown(answer)]));
      } catch (fault) {
        if (!(fault instanceof EngineFault)) throw fault;
        return new Map(ids.map((id) => [id, orUnknown(fault)]));
      }
    },
    watch: (onHint, signal) => watch(context, onHint, signal),
    async usage(ids, signal, options = {}) {
      const look = (id: InstanceId): Usage | undefined => usageOf(host, find(id), options);
      const answers = await calls.each({ verb: 'usage', ids, signal, look, lie: () => undefined });
      const usages = new Map<InstanceId, Usage>();
      for (const [id, usage] of answers) {
        if (usage !== undefined && !(usage instanceof EngineFault)) usages.set(id, usage);
      }
      return usages;
    },
  };
}

const orUnknown = (answer: Observation | EngineFault): Observation =>
  answer instanceof EngineFault ? { kind: 'unknown', reason: answer.message } : answer;

/** Delays or drops hints as the faults say. */
function watch(context: EngineContext, onHint: (id: InstanceId) => void, signal: AbortSignal): void {
  const { host, installation, calls, stopped } = context;
  const stop = AbortSignal.any([signal, stopped]);
  if (stop.aborted) return;
  const hint = (id: InstanceId): void => {
    if (!stop.aborted) onHint(id);
  };
  const unsubscribe = host.listen((owner, id) => {
    if (owner !== installation) return;
    const fault = calls.draw('watch', id);
    if (fault === undefined) queueMicrotask(() => hint(id));
    else if (fault.mode === 'late' || fault.mode === 'slow')
      calls.sleep(fault.ms, stop).then(
        () => hint(id),
        () => {},
      );
  });
  stop.addEventListener('abort', unsubscribe, { once: true });
}
