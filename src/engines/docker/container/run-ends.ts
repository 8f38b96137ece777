/**
 * When a run of an instance is over, or told to end: what hangs on it has to be let go while its network is there, or who is at
 * the other end never hears of it. The engine's stream of events is open while somebody wants to know; what it hints at, and all when
 * it opens again, is looked at.
 */
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { ContainerInspectInfo } from 'dockerode';
import type { InstanceId } from '../../../domain/ids.ts';
import type { Client } from '../client/client.ts';
import { abortFault, isContainerGone } from '../client/faults.ts';
import { watchEvents } from '../client/watch.ts';

/** For the engine to answer. */
const LOOK_MS = 30_000;
const LOOKS_AT_ONCE = 8;

export interface Ends {
  /** Calls once, and soon when it is over already. Answers with how to stop. */
  tell(id: InstanceId, run: Pick<ContainerInspectInfo, 'Id' | 'State'>, onEnd: () => void): () => void;
  stop(): Promise<void>;
}

interface Follower {
  id: InstanceId;
  containerId: string;
  startedAt: string;
  onEnd: () => void;
}

export function makeEnds(options: {
  client: Client;
  installation: string;
  onLost: (error: unknown, pauseMs: number) => void;
}): Ends {
  const { client, installation, onLost } = options;
  const followers = new Set<Follower>();
  const semaphore = makeSemaphore(LOOKS_AT_ONCE, { abortError: abortFault });
  let watch: { ending: AbortController; done: Promise<void>; live: boolean } | undefined;

  async function look(follower: Follower): Promise<void> {
    const { containerId, startedAt } = follower;
    if ((await isOver(containerId, startedAt)) && followers.has(follower)) end(follower);
  }

  function end(follower: Follower): void {
    leave(follower);
    follower.onEnd();
  }

  /** What can't be told is looked at again when the stream is open. */
  async function isOver(containerId: string, startedAt: string): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(LOOK_MS);
      const { State } = await semaphore.run(() =>
        client.call(signal, (abortSignal) => client.docker.getContainer(containerId).inspect({ abortSignal })),
      );
      return !State.Running || State.StartedAt !== startedAt;
    } catch (error) {
      return isContainerGone(error);
    }
  }

  function begin(): void {
    const ending = new AbortController();
    const begun = { ending, live: false, done: Promise.resolve() };
    begun.done = watchEvents({
      client,
      installation,
      onHint: (id, { toldToEnd }) => {
        for (const follower of followers) {
          if (follower.id !== id) continue;
          if (toldToEnd) end(follower);
          else void look(follower);
        }
      },
      onLive: (live) => {
        begun.live = live;
        if (live) for (const follower of followers) void look(follower);
      },
      onLost,
      signal: ending.signal,
    });
    watch = begun;
  }

  function leave(follower: Follower): void {
    followers.delete(follower);
    if (followers.size > 0) return;
    watch?.ending.abort();
    watch = undefined;
  }

  return {
    tell(id, { Id: containerId, State }, onEnd) {
      const follower = { id, containerId, startedAt: State.StartedAt, onEnd };
      followers.add(follower);
      if (watch === undefined) begin();
      // It may have ended since it was looked at.
      else if (watch.live) void look(follower);
      return () => leave(follower);
    },
    async stop() {
      const last = watch;
      for (const follower of followers) end(follower);
      await last?.done;
    },
  };
}
