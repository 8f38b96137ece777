/** Pods of the installation: read from the server, or awaited by the shared watch. */
import { setTimeout as delay } from 'node:timers/promises';
import { raceAbort } from '../../../async/abort.ts';
import type { Disruption } from '../../../domain/compute/disruption.ts';
import type { Cluster } from '../../../kubernetes/cluster.ts';
import type { Pod } from '../../../kubernetes/api-objects.ts';
import { resources } from '../../../kubernetes/api-resources.ts';
import type { Hint, Subscription } from '../../../kubernetes/cluster-watch.ts';
import { labels } from '../../labels.ts';
import { rootDiskEviction } from './pod-disruption.ts';
import { runOf, type PodRun } from './run-state.ts';

/** Interval of reads beside the watch, whose hints may be lost. */
const POLL_MS = 5_000;
const POLL_WITHOUT_WATCH_MS = 500;
const LIVE_MS = 3_000;
/** Servers send a sign of life each minute. */
const SILENT_MS = 150_000;

type Listener = (hint: Hint<Pod>) => void;

export interface PodChanges {
  /**
   * Resolves with the first result of `pick` that is not undefined. `pick` sees the present state,
   * then each change; `last` is the state in which the Pod vanished.
   */
  until<T>(name: string, pick: (pod: Pod | null, last: Pod | null) => T | undefined, signal: AbortSignal): Promise<T>;
  /** Resolves once no change can be missed any more, or after a while. */
  live(signal: AbortSignal): Promise<void>;
  listen(listener: (hint: Hint<Pod>) => void, signal: AbortSignal): void;
  /** Whether the server gave a sign of life lately. */
  isHeard(): boolean;
  /** Reads how the node ended the Pod before, until `forgetEviction`; null: not, or unseen. */
  evictionOf(name: string, signal: AbortSignal): Promise<Disruption | null>;
  forgetEviction(name: string): void;
  /** Runs of instances by the name of their Pod, as the watch last saw them. */
  runs(signal: AbortSignal): Promise<ReadonlyMap<string, PodRun>>;
}

export function makePodChanges(
  cluster: Cluster,
  installation: string,
  stopping: AbortSignal,
  onTrouble: (error: unknown) => void,
): PodChanges {
  const listeners = new Set<Listener>();
  const runs = new Map<string, PodRun>();
  /** Uids of instances' Pods that ended as a whole. */
  const ended = new Map<string, string>();
  let subscription: Subscription | undefined;

  const subscribe = (): Subscription =>
    (subscription ??= cluster.watch(
      resources.pods,
      `${labels.installation}=${installation}`,
      {
        onHint(hint) {
          const { name = '' } = hint.object.metadata ?? {};
          const run = hint.isGone ? null : runOf(hint.object);
          if (run === null) runs.delete(name);
          else runs.set(name, run);
          if (isOver(hint.object)) ended.set(name, hint.object.metadata?.uid ?? '');
          for (const listener of listeners) listener(hint);
        },
        onTrouble,
      },
      stopping,
    ));

  const isHeard = (): boolean => performance.now() - (subscription?.heardMs() ?? -Infinity) < SILENT_MS;

  const live: PodChanges['live'] = async (signal) => {
    const watch = subscribe();
    await raceAbort(Promise.race([watch.live, delay(LIVE_MS, undefined, { ref: false })]), signal);
  };

  return {
    isHeard,
    live,
    async evictionOf(name, signal) {
      const uid = ended.get(name);
      if (uid === undefined) return null;
      const fieldSelector = `involvedObject.uid=${uid},reason=Evicted`;
      return rootDiskEviction(await cluster.list(resources.events, signal, { fieldSelector }));
    },
    forgetEviction: (name) => void ended.delete(name),
    async runs(signal) {
      await live(signal);
      return runs;
    },
    listen(listener, signal) {
      if (signal.aborted) return;
      subscribe();
      listeners.add(listener);
      signal.addEventListener('abort', () => listeners.delete(listener), { once: true });
    },
    async until(name, pick, signal) {
      subscribe();
      const queue: Hint<Pod>[] = [];
      let wake = (): void => {};
      const listener: Listener = (hint) => {
        if (hint.object.metadata?.name !== name) return;
        queue.push(hint);
        wake();
      };
      listeners.add(listener);
      try {
        let picked = pick(await cluster.get(resources.pods, name, signal), null);
        while (picked === undefined) {
          const hint = queue.shift();
          if (hint !== undefined) {
            picked = pick(hint.isGone ? null : hint.object, hint.isGone ? hint.object : null);
            continue;
          }
          const woken = Promise.withResolvers<'hint'>();
          wake = () => woken.resolve('hint');
          const poll = new AbortController();
          const pause = delay(isHeard() ? POLL_MS : POLL_WITHOUT_WATCH_MS, 'poll' as const, { signal: poll.signal });
          const what = await raceAbort(Promise.race([woken.promise, pause]), signal).finally(() => poll.abort());
          pause.catch(() => {});
          if (what === 'poll') picked = pick(await cluster.get(resources.pods, name, signal), null);
        }
        return picked;
      } finally {
        listeners.delete(listener);
      }
    },
  };
}

const isOver = ({ metadata, status }: Pod): boolean =>
  metadata?.labels?.[labels.kind] === 'instance' && (status?.phase === 'Failed' || status?.phase === 'Succeeded');
