/**
 * Reports when a run ends or is told to end: connections must close while the network exists, or
 * the peers never notice. Each hint, and every opening of the event stream, re-inspects.
 */
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { ContainerInspectInfo } from 'dockerode';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { abortFault } from '../../../docker/faults.ts';
import { watchEvents } from '../client/watch.ts';
import { isSameRun } from './container-calls.ts';

const INSPECT_MS = 30_000;
/** Pause before a run is inspected again that a busy engine gave no answer about. */
const AGAIN_MS = 5_000;
const INSPECTS_AT_ONCE = 8;

export interface RunEnds {
  /** Calls `listener` once, soon for a run already over. Returns the unsubscribe function. */
  onEnd(id: InstanceId, run: Run, listener: () => void): () => void;
  stop(): Promise<void>;
}

type Run = Pick<ContainerInspectInfo, 'Id' | 'State'>;

interface Subscriber {
  id: InstanceId;
  run: Run;
  listener: () => void;
}

export function makeRunEnds(options: {
  client: DockerClient;
  installation: string;
  onLost: (error: unknown, pauseMs: number) => void;
}): RunEnds {
  const { client, installation, onLost } = options;
  const subscribers = new Set<Subscriber>();
  const semaphore = makeSemaphore(INSPECTS_AT_ONCE, { abortError: abortFault });
  let watch: { ending: AbortController; done: Promise<void>; live: boolean } | undefined;

  /** Unknown is not an end: it is asked again, at the latest when the stream opens again. */
  async function check(subscriber: Subscriber): Promise<void> {
    if (!subscribers.has(subscriber)) return;
    const signal = AbortSignal.timeout(INSPECT_MS);
    const isSame = await semaphore.run(() => isSameRun(client, subscriber.run, signal), { signal }).catch(() => null);
    if (isSame === true || !subscribers.has(subscriber)) return;
    if (isSame === false) end(subscriber);
    else if (watch?.live) setTimeout(() => void check(subscriber), AGAIN_MS).unref();
  }

  function end(subscriber: Subscriber): void {
    unsubscribe(subscriber);
    subscriber.listener();
  }

  function startWatch(): void {
    const ending = new AbortController();
    const started = { ending, live: false, done: Promise.resolve() };
    started.done = watchEvents({
      client,
      installation,
      onHint: (id, { isStopping }) => {
        for (const subscriber of subscribers) {
          if (subscriber.id !== id) continue;
          if (isStopping) end(subscriber);
          else void check(subscriber);
        }
      },
      onLive: (live) => {
        started.live = live;
        if (live) for (const subscriber of subscribers) void check(subscriber);
      },
      onLost,
      signal: ending.signal,
    });
    watch = started;
  }

  function unsubscribe(subscriber: Subscriber): void {
    subscribers.delete(subscriber);
    if (subscribers.size > 0) return;
    watch?.ending.abort();
    watch = undefined;
  }

  return {
    onEnd(id, run, listener) {
      const subscriber = { id, run, listener };
      subscribers.add(subscriber);
      if (watch === undefined) startWatch();
      // The run may have ended since the caller's inspect.
      else if (watch.live) void check(subscriber);
      return () => unsubscribe(subscriber);
    },
    async stop() {
      const last = watch;
      for (const subscriber of subscribers) end(subscriber);
      await last?.done;
    },
  };
}
